#include <fmt/format.h>

#include <algorithm>

#include "model/step/engine.h"
#include "model/step/version_words.h"
#include "tools/program/text.h"
#include "tools/replay/replay_formats.h"

namespace a2asim {
namespace {

constexpr std::size_t kMaxSteps = 4;  // shown without --verbose
constexpr std::size_t kDoubtsWidth = 300;
constexpr std::size_t kMaxTokens = 8;  // bad tokens named a step
constexpr std::size_t kMaxGroups = 8;  // of ranks a step

using Lines = std::vector<std::string>;

void add(Lines& lines, std::string_view text, std::size_t indent) {
  for (const std::string& line : wrap(text, kTextWidth - indent, 2)) lines.push_back(std::string(indent, ' ') + line);
}

std::string numbers(const std::vector<std::int64_t>& values) {
  std::string out;
  for (std::size_t at = 0; at < values.size();) {
    std::size_t end = at;
    while (end < values.size() && values[end] == values[at]) ++end;
    const std::size_t count = end - at;
    for (std::size_t i = 0; i < (count > 3 ? 1 : count); ++i)
      out += (out.empty() ? "" : ", ") + std::to_string(values[at]);
    if (count > 3) out += fmt::format(" x{}", count);
    at = end;
  }
  return "[" + out + "]";
}

std::string path_of(const RankDecision& decision) {
  if (!decision.participates) return "-";
  return decision.replay ? fmt::format("graph, bucket {}", decision.bucket) : "eager";
}

std::string rows_of(const RankDecision& decision) {
  if (decision.sizing.has_dummy_token && !decision.replay && decision.rows == 0) return "0 + dummy";
  return decision.rows == decision.real_rows ? std::to_string(decision.rows)
                                             : fmt::format("{} ({} real)", decision.rows, decision.real_rows);
}

std::string size_of(const ReplayedRank& rank) {
  if (!rank.decision.participates) return "-";
  const auto size = rank.runtime_max();
  return size ? std::to_string(*size) : rank.decision.raised ? std::string(name(rank.decision.raised->kind)) : "-";
}

std::string branch_of(const ReplayedRank& rank) {
  if (!rank.decision.participates) return "takes no part";
  const auto branch = rank.branch();
  return branch ? std::string(text(*branch)) : "-";
}

void add_bad_tokens(Lines& lines, const ReplayedStep& step, const ReplayTextStyle& style) {
  std::string tokens;
  std::size_t named = 0;
  const Finding* first = nullptr;
  for (const Finding& found : step.findings) {
    if (!is_output(found)) continue;
    if (first == nullptr) first = &found;
    if (++named > kMaxTokens && !style.verbose) continue;
    tokens += fmt::format("{}rank {} token {} ({}{})", tokens.empty() ? "" : ", ", found.rank, found.token,
                          found.kind == FindingKind::nan_output ? "NaN" : "finite, wrong",
                          found.layer > 0 ? fmt::format(", layer {}", found.layer) : "");
  }
  if (first == nullptr) return;
  const auto all = static_cast<std::size_t>(step.outcome.bad_tokens);
  const std::size_t shown = style.verbose ? named : std::min(named, kMaxTokens);
  if (shown < all) tokens += fmt::format(" .. {} more", all - shown);
  add(lines, fmt::format("{}: {}", painted("bad output", "1;31", style.colour), tokens), 2);
  const Finding* behind = row_behind(step, *first);
  if (behind != nullptr)
    add(lines,
        fmt::format("chain, rank {} token {}: {} ({})", first->rank, first->token, describe(*behind),
                    name(behind->operation)),
        2);
}

void add_doubts(Lines& lines, const ReplayedStep& step) {
  const std::string doubts = tokens_in_doubt(step);
  if (!doubts.empty()) add(lines, fmt::format("in doubt: {}", doubts), 2);
}

void add_counts(Lines& lines, const ReplayedStep& step) {
  std::string counts;
  for (int kind = 0; kind < kFindingKinds; ++kind) {
    const std::int64_t count = step.counts[static_cast<std::size_t>(kind)];
    if (count > 1)
      counts += fmt::format("{}{} {}", counts.empty() ? "" : ", ", count, name(static_cast<FindingKind>(kind)));
  }
  if (!counts.empty()) add(lines, "in all: " + counts, 2);
}

void add_findings(Lines& lines, const ReplayedStep& step, const ReplayTextStyle& style) {
  std::array<std::size_t, kFindingKinds> shown = {};
  for (const Finding& found : step.findings) {
    const auto kind = static_cast<std::size_t>(found.kind);
    // One row of a kind says it; outputs have a line of their own below.
    const bool is_many = found.operation != Operation::decide && found.kind != FindingKind::missing_rank;
    if (!style.verbose && is_many && (shown[kind]++ > 0 || is_output(found))) continue;
    add(lines,
        fmt::format("{}: {}{}",
                    painted(name(found.severity), found.severity == Severity::error ? "1;31" : "1", style.colour),
                    describe(found), found.root ? fmt::format(" [root: {}]", name(*found.root)) : ""),
        2);
    if (!found.fix.empty() && style.verbose) add(lines, "fix: " + found.fix, 4);
  }
  add_bad_tokens(lines, step, style);
  add_doubts(lines, step);
  add_counts(lines, step);
}

// in_full: with its findings; otherwise they are only counted.
void add_step(Lines& lines, const ReplayedStep& step, bool in_full, const ReplayTextStyle& style) {
  lines.push_back(fmt::format("step {}, {}: {}{}", step.outcome.step, name(step.outcome.phase),
                              step.outcome.group.empty() && !step.is_bad() ? "no work" : name(step.verdict()),
                              step.outcome.stopped ? "; the run stops here" : ""));
  for (const std::string& line : rank_table(step, style.verbose ? step.ranks.size() : kMaxGroups))
    lines.push_back("  " + line);
  if (!in_full) return add_counts(lines, step);
  for (std::size_t r = 0; r < step.ranks.size(); ++r) {
    const auto& raised = step.ranks[r].decision.raised;
    if (!raised || (r > 0 && step.ranks[r - 1].decision.raised == raised)) continue;
    add(lines, fmt::format("rank {} raises {}: {}", r, name(raised->kind), raised->message), 2);
  }
  add_findings(lines, step, style);
}

// Of the whole run, or of the first step that goes wrong.
std::string fix_of(const ReplayReport& report) {
  if (!report.fix.empty()) return report.fix;
  for (const ReplayedStep& step : report.steps)
    for (const Finding& found : step.findings)
      if (found.severity == Severity::error && !found.fix.empty()) return found.fix;
  return "";
}

void add_head(Lines& lines, const ReplayReport& report, const std::optional<Expectation>& expectation,
              const ReplayTextStyle& style) {
  // What a file expects, and what comes, is no bad news.
  const bool as_expected = expectation && expectation->differs.empty();
  const bool good = as_expected || !report.has_error();
  lines.push_back(fmt::format("{}{}: {}{}", painted(upper(name(report.verdict)), good ? "1;32" : "1;31", style.colour),
                              as_expected ? ", as the file expects" : "", verdict_in_words(report),
                              report.first_bad_step ? fmt::format(", first at step {}", *report.first_bad_step) : ""));
  if (expectation && !as_expected)
    add(lines, painted("NOT AS EXPECTED", "1;31", style.colour) + ": " + expectation->differs, 2);
  if (!report.why.empty()) add(lines, "why: " + report.why, 2);
  if (const std::string fix = fix_of(report); !fix.empty()) add(lines, "fix: " + fix, 2);
  add(lines,
      fmt::format("{}: {}; {} {}, {} fidelity, seed {}", report.file, report.name, engine_of(*report.generation).name,
                  version_in_words(*report.generation), name(report.fidelity), report.seed),
      2);
  if (report.ep_size > 0)
    lines.push_back(fmt::format("  {} ranks, {}, max_num_tokens {}, workspace {} per rank; {} of {} run",
                                report.ep_size, counted(static_cast<std::size_t>(report.layers), "layer"),
                                report.max_num_tokens, bytes_in_words(report.workspace_bytes_per_rank),
                                report.steps_run, counted(static_cast<std::size_t>(report.num_steps), "step")));
  for (const std::string& note : report.notes) add(lines, "note: " + note, 2);
}

void add_totals(Lines& lines, const ReplayReport& report) {
  const Traffic& traffic = report.traffic;
  if (!report.knows_traffic() || traffic.rows_reserved == 0) return;
  const double share = 100.0 * static_cast<double>(traffic.wasted_rows()) / static_cast<double>(traffic.rows_reserved);
  lines.push_back(fmt::format("moved {}; {} of {} row slots ({:.1f} %) were never filled, {} of both regions",
                              bytes_in_words(report.bytes_moved()), traffic.wasted_rows(), traffic.rows_reserved, share,
                              bytes_in_words(report.bytes_wasted())));
  const bool computed = std::ranges::any_of(report.steps, [](const ReplayedStep& step) {
    return !step.outcome.taking_part.empty() && !step.outcome.stopped;
  });
  if (report.fidelity == Fidelity::numeric && report.bad_tokens == 0 && computed)
    lines.push_back("every output of the all-to-all equals the dense oracle within rounding");
}

}  // namespace

std::vector<std::string> rank_table(const ReplayedStep& step, std::size_t most) {
  const std::vector<RankGroup> groups = rank_groups(step);
  std::vector<std::vector<std::string>> rows = {{"rank"}};
  rows[0].insert(rows[0].end(), kRankColumns.begin(), kRankColumns.end());
  const std::size_t shown = groups.size() <= most ? groups.size() : most - 1;
  for (std::size_t at = 0; at < shown; ++at) {
    rows.push_back({cut(ranges(groups[at].ranks), 24)});
    rows.back().insert(rows.back().end(), groups[at].cells.begin(), groups[at].cells.end());
  }
  Lines lines = table(rows, {2, 6});
  if (shown < groups.size()) lines.push_back(fmt::format(".. {} more, see --verbose", groups.size() - shown));
  return lines;
}

std::vector<RankGroup> rank_groups(const ReplayedStep& step) {
  std::vector<RankGroup> groups;
  const std::size_t stride = step.ranks.size() / step.batches.size();
  for (std::size_t r = 0; r < step.ranks.size(); ++r) {
    const std::size_t dp = r / stride;
    const RankDecision& decision = step.ranks[r].decision;
    std::vector<std::string> cells = {std::string(name(decision.participates ? decision.mode : step.batches[dp].mode)),
                                      std::to_string(step.batches[dp].count),
                                      step.lists[r] ? cut(numbers(*step.lists[r]), 30) : "none",
                                      path_of(decision),
                                      rows_of(decision),
                                      size_of(step.ranks[r]),
                                      branch_of(step.ranks[r])};
    const auto same = std::ranges::find(groups, cells, &RankGroup::cells);
    if (same == groups.end())
      groups.push_back({std::move(cells), {r}});
    else
      same->ranks.push_back(r);
  }
  return groups;
}

bool is_output(const Finding& found) {
  return found.kind == FindingKind::nan_output || found.kind == FindingKind::wrong_output;
}

// Of all that went wrong with the token, what combine read last comes first.
const Finding* row_behind(const ReplayedStep& step, const Finding& output) {
  const Finding* behind = nullptr;
  for (const Finding& found : step.findings) {
    if (!found.row || found.layer != output.layer || found.row->source != output.rank ||
        found.row->token != output.token)
      continue;
    if (behind == nullptr || (found.operation == Operation::combine && behind->operation != Operation::combine))
      behind = &found;
  }
  return behind;
}

std::string verdict_counts(std::span<const Verdict> verdicts) {
  std::string out;
  for (const Verdict verdict : {Verdict::rejected, Verdict::disagrees, Verdict::over_capacity, Verdict::corrupt,
                                Verdict::agrees, Verdict::out_of_scope})
    if (const auto count = std::ranges::count(verdicts, verdict); count > 0)
      out += fmt::format("{}{} {}", out.empty() ? "" : ", ", count, name(verdict));
  return out;
}

std::string_view verdict_in_words(const ReplayReport& report) {
  switch (report.verdict) {
    case Verdict::agrees:
      return "all ranks use the same buffer size in every step, and it fits";
    case Verdict::corrupt:
      return "sizes agree, but output is corrupt";
    case Verdict::disagrees:
      if (std::ranges::any_of(report.steps,
                              [](const ReplayedStep& step) { return step.outcome.gather_disagreeing_rank >= 0; }))
        return "ranks use different sizes in the all-gatherv of a prefill step";
      return report.counts[static_cast<std::size_t>(FindingKind::geometry_disagreement)] > 0
                 ? "ranks use different buffer sizes"
                 : "deadlock: some ranks wait forever";
    case Verdict::over_capacity:
      return "a batch needs more rows than the workspace holds";
    case Verdict::rejected:
      return "the engine refuses to run this";
    case Verdict::out_of_scope:
      return "no fixed-geometry all-to-all is in use";
  }
  return "";
}

// Which tokens are hit depends on the slots, which hardware gives out in any order.
std::string tokens_in_doubt(const ReplayedStep& step) {
  std::string ranks;
  std::size_t all = 0;
  for (std::size_t r = 0; r < step.outcome.in_doubt.size(); ++r) {
    const std::vector<std::int64_t>& tokens = step.outcome.in_doubt[r];
    if (tokens.empty()) continue;
    all += tokens.size();
    ranks += fmt::format("{}rank {}: {}", ranks.empty() ? "" : "; ", r, ranges({tokens.begin(), tokens.end()}));
  }
  if (all == 0) return "";
  return fmt::format("{} can be wrong under some order of the slots, which hardware leaves open: {}",
                     counted(all, "token"), cut(ranks, kDoubtsWidth));
}

std::string progress_words(std::string_view file, const ReplayProgress& progress) {
  const std::string part =
      progress.parts == 0 ? "" : fmt::format(", {} % of the next", 100 * progress.part / progress.parts);
  return fmt::format("{}: {} of {} steps{}", cut(file, 50), progress.steps_done, progress.steps, part);
}

std::string replay_as_text(const ReplayReport& report, const std::optional<Expectation>& expectation,
                           const ReplayTextStyle& style) {
  Lines lines;
  add_head(lines, report, expectation, style);
  // Bad steps first: they are what a person came for. The first divergence leads.
  std::size_t shown = 0;
  for (const bool bad : {true, false}) {
    for (const ReplayedStep& step : report.steps) {
      if (style.verbose ? bad : step.is_bad() != bad) continue;
      if (!style.verbose && shown >= kMaxSteps) break;
      const bool first_bad = report.first_bad_step == step.outcome.step;
      add_step(lines, step, style.verbose || first_bad || !bad, style);
      ++shown;
    }
  }
  if (shown < static_cast<std::size_t>(report.steps_run))
    lines.push_back(fmt::format("({} more: {})", counted(static_cast<std::size_t>(report.steps_run) - shown, "step"),
                                style.verbose ? "not kept" : "--verbose shows them"));
  add_totals(lines, report);
  if (style.digest) lines.push_back(fmt::format("digest {:016x}", report.digest));
  std::string out;
  for (const std::string& line : lines) out += line + '\n';
  return out;
}

}  // namespace a2asim
