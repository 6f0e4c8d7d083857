#include "model/step/finding.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

namespace a2asim {
namespace {

constexpr std::string_view kKindNames[] = {"geometry_disagreement",
                                           "misplaced",
                                           "stale",
                                           "unwritten",
                                           "torn",
                                           "expert_id_out_of_range",
                                           "nan_output",
                                           "wrong_output",
                                           "over_capacity",
                                           "receive_overflow",
                                           "missing_rank",
                                           "wasted",
                                           "rejected",
                                           "idle_step",
                                           "unsanitized_padding",
                                           "static_cap",
                                           "autotune",
                                           "request_limit_open",
                                           "chunk_open",
                                           "graph_sizes_open",
                                           "model_unknown",
                                           "no_all_to_all",
                                           "not_read",
                                           "rank_environment",
                                           "nodes_differ",
                                           "note",
                                           "model",
                                           "generation",
                                           "launch_command",
                                           "server_args",
                                           "rule"};
static_assert(std::size(kKindNames) == kAllFindingKinds);
static_assert(kKindNames[kAllFindingKinds - 1] == "rule" &&
              static_cast<int>(FindingKind::rule) == kAllFindingKinds - 1);
static_assert(static_cast<int>(FindingKind::wasted) == kFindingKinds - 1);
constexpr std::array<std::string_view, 3> kSeverityNames = {"error", "warning", "note"};
constexpr std::array<std::string_view, 5> kPhaseNames = {"start", "eager_decode", "graph_decode", "prefill", "verify"};
constexpr std::array<std::string_view, 6> kOperationNames = {"none",     "decide",  "dispatch",
                                                             "sanitize", "experts", "combine"};

std::string payload_words(const RowEvidence& row, int payload) {
  return row.dispatch_type ? fmt::format("the {}", payload_words(*row.dispatch_type, payload))
                           : fmt::format("payload {}", payload);
}

std::string found_words(const RowEvidence& row, bool is_torn) {
  if (row.found_writer < 0) return "the memory there is uninitialized";
  std::string what =
      row.found_token < 0 ? "a padding row" : fmt::format("token {} of rank {}", row.found_token, row.found_source);
  if (row.found_payload != row.payload)
    what += row.found_payload < 0 ? " (an expert output)" : fmt::format(" ({})", payload_words(row, row.found_payload));
  return fmt::format("there lies {}{}, which rank {} wrote in step {}", is_torn ? "a mixture that begins with " : "",
                     what, row.found_writer, row.found_step);
}

std::string describe_row(const Finding& f) {
  const RowEvidence& row = *f.row;
  const std::string reads =
      row.payload < 0 && f.rank == row.source
          ? fmt::format("reads the result of its token {} from rank {}", row.token, row.slice)
      : row.payload < 0
          ? fmt::format("reads the result of token {} of rank {} from rank {}", row.token, row.source, row.slice)
          : fmt::format("reads {} of token {} of rank {}", payload_words(row, row.payload), row.token, row.source);
  const std::string written = row.written_offset == row.expected_offset ? ""
                              : row.written_offset < 0                  ? ", but nobody wrote it"
                                                       : fmt::format(", but it was written at {}", row.written_offset);
  return fmt::format("{}: rank {} {} at byte {}{}; {}{}", name(f.kind), f.rank, reads, row.expected_offset, written,
                     found_words(row, f.kind == FindingKind::torn),
                     row.race ? "; two ranks wrote these bytes at the same time" : "");
}

std::string describe_numbers(const Finding& f) {
  switch (f.kind) {
    case FindingKind::geometry_disagreement:
      return fmt::format("rank {} has {} {}, rank {} has {}", f.rank,
                         f.subject.empty() ? "runtime_max_tokens_per_rank" : f.subject, f.value, f.peer, f.limit);
    case FindingKind::expert_id_out_of_range:
      return fmt::format("rank {} meets expert id {} of {} experts; hardware makes an illegal memory access of it",
                         f.rank, f.value, f.limit);
    case FindingKind::nan_output:
      return fmt::format("rank {}, token {}: the output is NaN (element {})", f.rank, f.token, f.value);
    case FindingKind::wrong_output:
      return fmt::format("rank {}, token {}: the output is finite and wrong (element {})", f.rank, f.token, f.value);
    case FindingKind::over_capacity:
      return fmt::format("rank {}: {} {} exceeds {}", f.rank,
                         f.subject.empty() ? "runtime_max_tokens_per_rank" : f.subject, f.value, f.limit);
    case FindingKind::receive_overflow:
      return fmt::format("rank {} sends {} rows{} with runtime_max_tokens_per_rank {}{}", f.rank, f.value,
                         f.peer < 0 ? "" : fmt::format(" to rank {}", f.peer), f.limit,
                         f.subject.empty() ? "" : "; " + f.subject);
    case FindingKind::missing_rank:
      return fmt::format("rank {} waits for rank {}", f.rank, f.peer);
    case FindingKind::wasted:
      return fmt::format("{} of {} row slots per rank are beyond need{}", f.value, f.limit,
                         f.subject.empty() ? "" : "; " + f.subject);
    default:
      return fmt::format("rank {}, token {}", f.rank, f.token);
  }
}

}  // namespace

std::string_view name(FindingKind kind) { return kKindNames[static_cast<std::size_t>(kind)]; }
std::optional<FindingKind> parse_finding_kind(std::string_view id) {
  const auto found = std::ranges::find(kKindNames, id);
  if (found == std::end(kKindNames)) return std::nullopt;
  return static_cast<FindingKind>(found - std::begin(kKindNames));
}

std::string_view name(Severity severity) { return kSeverityNames[static_cast<std::size_t>(severity)]; }
std::string_view name(Phase phase) { return kPhaseNames[static_cast<std::size_t>(phase)]; }
std::string_view name(Operation operation) { return kOperationNames[static_cast<std::size_t>(operation)]; }

std::string describe(const Finding& finding) {
  if (!finding.message.empty()) return finding.message;
  if (finding.row) return describe_row(finding);
  return fmt::format("{}: {}", name(finding.kind), describe_numbers(finding));
}

}  // namespace a2asim
