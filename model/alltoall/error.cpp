#include "model/alltoall/error.h"

#include <fmt/format.h>

#include "model/base/check_invariant.h"

namespace a2asim {
namespace {

constexpr std::size_t kMostWaits = 64;  // in words; the fields have all

ErrorFact to_fact(const AllToAllError& e) {
  return {static_cast<std::int64_t>(e.kind),
          static_cast<std::int64_t>(e.field),
          e.rank,
          e.peer,
          e.payload,
          e.in_combine ? 1 : 0,
          e.token,
          e.position,
          e.own,
          e.other,
          e.timeout_ms};
}

AllToAllError from_fact(const ErrorFact& fact) {
  return {.kind = static_cast<AllToAllErrorKind>(fact[0]),
          .field = static_cast<AllToAllField>(fact[1]),
          .rank = static_cast<int>(fact[2]),
          .peer = static_cast<int>(fact[3]),
          .payload = static_cast<int>(fact[4]),
          .in_combine = fact[5] != 0,
          .token = fact[6],
          .position = fact[7],
          .own = fact[8],
          .other = fact[9],
          .timeout_ms = fact[10]};
}

ErrorKind raised_as(AllToAllErrorKind kind) {
  switch (kind) {
    case AllToAllErrorKind::over_cap:
      return ErrorKind::assertion_error;
    case AllToAllErrorKind::wrong_count:
      return ErrorKind::bad_input;
    default:
      return ErrorKind::runtime_error;
  }
}

std::string field_words(const AllToAllError& e) {
  switch (e.field) {
    case AllToAllField::runtime_max:
      return "runtime_max_tokens_per_rank";
    case AllToAllField::max_num_tokens:
      return "max_num_tokens";
    case AllToAllField::combine_bytes:
      return "combine bytes per token";
    case AllToAllField::payload_bytes:
      return fmt::format("bytes per token of payload {}", e.payload);
    case AllToAllField::expert_ids:
      return "token_selected_experts";
    case AllToAllField::payloads:
      return "payloads";
    case AllToAllField::none:
      break;
  }
  return "";
}

std::string count_words(const AllToAllError& e) {
  switch (e.field) {
    case AllToAllField::expert_ids:
      return fmt::format("token_selected_experts has {} entries, local_num_tokens x top_k is {}", e.own, e.other);
    case AllToAllField::payload_bytes:
      return fmt::format("payload {} has {} bytes, local_num_tokens x bytes per token is {}", e.payload, e.own,
                         e.other);
    default:
      return fmt::format("{} payloads are given, {} are configured", e.own, e.other);
  }
}

std::string_view operation(const AllToAllError& e) { return e.in_combine ? "combine" : "dispatch"; }

std::string words(const AllToAllError& e) {
  switch (e.kind) {
    case AllToAllErrorKind::below_one:
      return fmt::format("rank {}: runtime_max_tokens_per_rank is {}; it must be at least 1", e.rank, e.own);
    case AllToAllErrorKind::over_cap:
      return fmt::format("rank {}: runtime_max_tokens_per_rank {} is above max_num_tokens {}", e.rank, e.own, e.other);
    case AllToAllErrorKind::rows_over_r:
      return fmt::format("rank {}: local_num_tokens {} is not in 0..{}, the runtime_max_tokens_per_rank of this call",
                         e.rank, e.own, e.other);
    case AllToAllErrorKind::tables_full:
      return fmt::format("rank {}: the top-k tables hold {} entries, {} are needed; raise max_num_tokens", e.rank,
                         e.other, e.own);
    case AllToAllErrorKind::wrong_count:
      return fmt::format("rank {}: {}", e.rank, count_words(e));
    case AllToAllErrorKind::misaligned:
      return fmt::format(
          "rank {}: payload {} would start at byte {}, which is not a multiple of its vector of {} "
          "bytes; put payloads with wider rows first",
          e.rank, e.payload, e.own, e.other);
    case AllToAllErrorKind::bad_expert:
      return fmt::format("rank {}: expert id {} of token {}, position {}, is not in 0..{}", e.rank, e.own, e.token,
                         e.position, e.other);
    case AllToAllErrorKind::differs:
      return fmt::format("{}: rank {} has {} {}, rank {} has {}; every rank must use the same value (geometry guard)",
                         operation(e), e.rank, field_words(e), e.own, e.peer, e.other);
    case AllToAllErrorKind::waits:
      if (e.own == e.other) {  // few tokens: the flag goes ahead of the rows (gpu/dispatch_few.cu)
        return fmt::format("rank {} waits for rows or the guard's record of rank {}, whose flag has come", e.rank,
                           e.peer);
      }
      return fmt::format("rank {} waits for rank {} (flag is {}, expected {})", e.rank, e.peer, e.own, e.other);
    case AllToAllErrorKind::peer_refused:
      return "a peer found its own input unusable and sent nothing";
  }
  return "";
}

std::string words(std::span<const AllToAllError> errors) {
  const AllToAllError& first = errors.front();
  std::string out;
  if (first.kind == AllToAllErrorKind::waits) {
    out = operation(first);
    if (first.timeout_ms >= 0) out += fmt::format(" timed out after {} ms", first.timeout_ms);
    out += ": ";
  }
  for (std::size_t i = 0; i < errors.size() && i < kMostWaits; ++i) out += (i == 0 ? "" : "; ") + words(errors[i]);
  return errors.size() <= kMostWaits ? out : fmt::format("{}; and {} more", out, errors.size() - kMostWaits);
}

}  // namespace

Error to_error(std::span<const AllToAllError> errors) {
  A2ASIM_INVARIANT(!errors.empty(), "an error says what is wrong");
  Error error{raised_as(errors.front().kind), words(errors), {}};
  for (const AllToAllError& one : errors) error.facts.push_back(to_fact(one));
  return error;
}

tl::unexpected<Error> fail(const AllToAllError& error) { return tl::unexpected(to_error(std::span(&error, 1))); }

std::vector<AllToAllError> all_to_all_errors(const Error& error) {
  std::vector<AllToAllError> errors;
  for (const ErrorFact& fact : error.facts) errors.push_back(from_fact(fact));
  return errors;
}

Result<void> check_spans(const AllToAllConfig& config, int rank, const DispatchInput& input, bool with_payloads) {
  const auto expect = [&](AllToAllField field, std::size_t given, std::int64_t wanted, int payload) -> Result<void> {
    const auto own = static_cast<std::int64_t>(given);
    if (own == wanted) return {};
    return fail(AllToAllError{.kind = AllToAllErrorKind::wrong_count,
                              .field = field,
                              .rank = rank,
                              .payload = payload,
                              .own = own,
                              .other = wanted});
  };
  const std::vector<std::int64_t>& bytes = config.payload_bytes_per_token;
  auto ok =
      expect(AllToAllField::expert_ids, input.token_selected_experts.size(), input.local_num_tokens * config.top_k, -1);
  if (!with_payloads) return ok;
  if (ok) ok = expect(AllToAllField::payloads, input.payloads.size(), static_cast<std::int64_t>(bytes.size()), -1);
  for (std::size_t p = 0; ok && p < bytes.size(); ++p)
    ok = expect(AllToAllField::payload_bytes, input.payloads[p].size(), input.local_num_tokens * bytes[p],
                static_cast<int>(p));
  return ok;
}

}  // namespace a2asim
