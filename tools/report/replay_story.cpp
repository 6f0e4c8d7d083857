#include "tools/report/replay_story.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/check_explain.h"
#include "tools/replay_formats.h"
#include "tools/report/html.h"
#include "tools/report/parts.h"
#include "tools/text.h"

namespace a2asim {
namespace {

constexpr std::size_t kRanksNamed = 8;  // in a sentence or a list

std::int64_t r_of(const ReplayedStep& step, int rank) {
  return step.ranks[static_cast<std::size_t>(rank)].decision.sizing.runtime_max_tokens_per_rank;
}

std::string part_words(int payload) {
  switch (payload) {
    case -1:
      return "expert output";
    case 0:
      return "hidden state";
    case 1:
      return "expert ids";
    case 2:
      return "weights";
    default:
      return fmt::format("payload {}", payload);
  }
}

std::string found_words(const Finding& found) {
  const RowEvidence& row = *found.row;
  if (row.found_writer < 0) return "nothing that anybody wrote";
  std::string what = row.found_token < 0 ? fmt::format("padding of rank {}", row.found_writer)
                                         : fmt::format("the {} of token {} of rank {}", part_words(row.found_payload),
                                                       row.found_token, row.found_source);
  if (row.found_round < row.expected_round)
    what += row.found_step < found.step ? fmt::format(", left over from step {}", row.found_step)
                                        : ", left over from an earlier layer";
  if (found.kind == FindingKind::torn) what = "a mixture that begins with " + what;
  if (row.race) what += ", where two ranks wrote in the same round";
  return what;
}

std::string heading(int level, std::string_view text) {
  return fmt::format("<h{0}>{1}</h{0}>\n", level, html_text(text));
}

std::string rank_words(const std::vector<std::size_t>& ranks_of_group) {
  return (ranks_of_group.size() == 1 ? "Rank " : "Each of ranks ") + ranges(ranks_of_group);
}

std::int64_t count_of(const ReplayedStep& step, FindingKind kind) {
  return step.counts[static_cast<std::size_t>(kind)];
}

bool sizes_differ(const ReplayedStep& step) { return !step.outcome.geometry.same_r; }

std::string knowledge_words(const ReplayedStep& step, std::size_t rank) {
  const auto& list = step.lists[rank];
  if (!list) return "knows no numbers of others";
  if (list->size() == 1 && step.batches.size() > 1)
    return fmt::format("knows only its own number of rows, {}{}", list->front(),
                       list->front() > step.ranks[rank].decision.real_rows ? " with padding" : "");
  const bool all_equal = std::ranges::all_of(*list, [&](std::int64_t count) { return count == list->front(); });
  if (list->size() > kRanksNamed && !all_equal)
    return fmt::format("knows the numbers of rows of all {} (the largest is {})", list->size(),
                       *std::ranges::max_element(*list));
  std::string counts;
  for (const std::int64_t count : *list) counts += (counts.empty() ? "" : ", ") + std::to_string(count);
  if (all_equal && list->size() > kRanksNamed) counts = fmt::format("{} each", list->front());
  return fmt::format("knows the numbers of rows of all: {}", counts);
}

std::string work_words(const ReplayedStep& step, std::size_t rank) {
  const RankBatch& batch = step.batches[rank / (step.ranks.size() / step.batches.size())];
  if (batch.count == 0) return "has no work";
  const bool tokens = batch.mode == ForwardMode::extend || batch.mode == ForwardMode::mixed;
  return "has " + counted(static_cast<std::size_t>(batch.count), tokens ? "token" : "request");
}

std::string who_knew_what(const ReplayedStep& step) {
  std::string out = "<ul>\n";
  const std::vector<RankGroup> groups = rank_groups(step);
  for (std::size_t i = 0; i < std::min(groups.size(), kRanksNamed); ++i) {
    const std::size_t rank = groups[i].ranks.front();
    const RankDecision& decision = step.ranks[rank].decision;
    const auto size = step.ranks[rank].runtime_max();
    const std::string chose =
        !decision.participates ? "takes no part"
        : decision.replay
            ? fmt::format("replays the graph captured for {}, with <var>R</var> = <strong>{}</strong> inside",
                          decision.bucket, size.value_or(0))
        : size ? fmt::format("takes <var>R</var> = <strong>{}</strong>", *size)
               : std::string("derives no <var>R</var>");
    const bool has_dummy = decision.participates && !decision.replay && decision.sizing.has_dummy_token;
    const std::string dummy = has_dummy ? " for one dummy row" : "";
    const auto branch = step.ranks[rank].branch();
    const std::string why = branch ? fmt::format(" ({})", html_text(text(*branch))) : "";
    out += fmt::format("<li>{} {}, {}, and {}{}{}.</li>\n", rank_words(groups[i].ranks), work_words(step, rank),
                       knowledge_words(step, rank), chose, dummy, why);
  }
  if (groups.size() > kRanksNamed)
    out += fmt::format("<li>{} more groups of ranks are in the table of the step.</li>\n", groups.size() - kRanksNamed);
  return out + "</ul>\n";
}

// Of the rows that were read wrongly, the one that shows most.
const Finding* telling_row(const ReplayedStep& step) {
  const Finding* best = nullptr;
  int best_rank = -1;
  for (const Finding& found : step.findings) {
    if (!found.row || found.row->token < 0 || found.severity != Severity::error) continue;
    const RowEvidence& row = *found.row;
    const bool moved = row.written_offset >= 0 && row.written_offset != row.expected_offset;
    const int rank = (found.kind == FindingKind::misplaced ? 8 : 0) + (row.payload == 0 ? 4 : 0) + (moved ? 2 : 0) +
                     (row.found_token >= 0 ? 1 : 0);
    if (rank <= best_rank) continue;
    best = &found;
    best_rank = rank;
  }
  return best;
}

std::string where_a_row_went(const ReplayedStep& step, int level) {
  const Finding* found = telling_row(step);
  if (found == nullptr) return {};
  const RowEvidence& row = *found->row;
  std::string out = heading(level, "Where one row went");
  const int writer = row.payload < 0 ? row.slice : row.source;
  const std::int64_t writers = r_of(step, writer), readers = r_of(step, found->rank);
  if (row.payload == 0 && writers != readers) {
    out +=
        paragraph(fmt::format("Rank {0} sent its token {1} to rank {2}, as row {3} of those it sends there. By its own "
                              "R = {4} that is row {0} × "
                              "{4} + {3} = {5} of the buffer, and there it wrote it. Rank {2} has R = {6}, so it looks "
                              "in row {0} × {6} + {3} = "
                              "{7}. What it finds there is {8}.",
                              row.source, row.token, found->rank, row.slot, writers, row.source * writers + row.slot,
                              readers, row.source * readers + row.slot, found_words(*found)));
  } else {
    out += paragraph(row_words(step, *found));
  }
  std::string counts;
  for (const FindingKind kind :
       {FindingKind::misplaced, FindingKind::stale, FindingKind::unwritten, FindingKind::torn}) {
    if (count_of(step, kind) == 0) continue;
    counts +=
        fmt::format("<li><strong>{}</strong> {}: {}</li>\n", count_of(step, kind), name(kind), finding_words(kind));
  }
  return out + "<p>Counted over all ranks, layers and parts of a row, the readers of this step found</p>\n<ul>\n" +
         counts + "</ul>\n";
}

std::string what_came_out(const ReplayReport& report, const ReplayedStep& step, int level) {
  std::string out;
  const std::int64_t ids = count_of(step, FindingKind::expert_id_out_of_range);
  const std::int64_t nan = count_of(step, FindingKind::nan_output), wrong = count_of(step, FindingKind::wrong_output);
  if (!step.outcome.stopped && (nan + wrong > 0 || sizes_differ(step)))
    out += paragraph(
        std::string("Nobody noticed. No rank raised an error and no rank waited") +
        (count_of(step, FindingKind::receive_overflow) > 0 ? "." : ": every write landed in memory that exists."));
  if (nan + wrong > 0) {
    std::int64_t outputs = 0;
    for (const ReplayedRank& rank : step.ranks)
      if (rank.takes_part) outputs += std::min(rank.decision.real_rows, rank.decision.rows) * report.layers;
    std::string kinds;
    if (nan > 0) kinds += fmt::format("{} {} NaN", nan, nan == 1 ? "is" : "are");
    if (wrong > 0)
      kinds +=
          fmt::format("{}{} {} finite and wrong, which no check for NaN finds: the model goes on in fluent nonsense",
                      kinds.empty() ? "" : ", ", wrong, wrong == 1 ? "is" : "are");
    out += paragraph(fmt::format("Of the {} outputs of this step {} wrong: {}.", outputs,
                                 nan + wrong == 1 ? "1 is" : fmt::format("{} are", nan + wrong), kinds));
  }
  if (ids > 0)
    out += paragraph(
        fmt::format("{} that reached the experts {} no expert's. On a GPU such an id becomes an illegal memory "
                    "access, far from its cause.",
                    counted(static_cast<std::size_t>(ids), "expert id"), ids == 1 ? "is" : "are"));
  for (const Finding& found : step.findings)
    if (found.kind == FindingKind::missing_rank) {
      out += paragraph(describe(found) + ".");
      break;
    }
  return out.empty() ? out : heading(level, "What came of it") + out;
}

TroubledBatch batch_of(const ReplayedStep& step) {
  TroubledBatch batch;
  batch.phase = step.outcome.phase;
  batch.batches = step.batches;
  const std::size_t stride = step.ranks.size() / step.batches.size();
  for (std::size_t dp = 0; dp < step.batches.size(); ++dp) batch.decisions.push_back(step.ranks[dp * stride].decision);
  return batch;
}

std::string fault_words(const Fault& fault) {
  const std::string rank = fault.rank ? fmt::format("rank {}", *fault.rank) : std::string("all ranks");
  return is_construction_fault(fault.kind)
             ? fmt::format("{} is built with {} = {}", rank, name_in(fault_kinds(), fault.kind), fault.value)
             : fmt::format("step {}: {}, {}", fault.step, name_in(fault_kinds(), fault.kind), rank);
}

std::string why_and_fix(const ToldReplay& told, const ReplayedStep& step, int level) {
  const std::vector<Fault>& faults = told.scenario->faults;
  const Finding* cause = step.findings.empty() ? nullptr : &step.findings.front();
  std::string out;
  if (!faults.empty()) {
    out += "<p>The scenario injects faults:</p>\n<ul>\n";
    for (std::size_t i = 0; i < std::min(faults.size(), kRanksNamed); ++i)
      out += "<li>" + html_text(fault_words(faults[i])) + "</li>\n";
    if (faults.size() > kRanksNamed) out += fmt::format("<li>and {} more</li>\n", faults.size() - kRanksNamed);
    out += "</ul>\n";
  } else if (told.deployment != nullptr && cause != nullptr && cause->kind == FindingKind::geometry_disagreement) {
    out += "<p>What a rank knows follows from the flags of the launch:</p>\n<ol class=\"chain\">\n";
    for (const std::string& line : explain_disagreement(*told.deployment, batch_of(step)).chain)
      out += "<li>" + html_text(line) + "</li>\n";
    out += "</ol>\n";
  }
  if (!out.empty()) out = heading(level, "Why") + out;
  if (cause != nullptr && !cause->fix.empty())
    out += heading(level, "What to change") + "<p class=\"fix\">" + html_text(cause->fix) + "</p>\n";
  return out;
}

std::string no_start(const ReplayReport& report, int level) {
  std::string out = paragraph(report.why + ".");
  if (!report.fix.empty())
    out += heading(level, "What to change") + "<p class=\"fix\">" + html_text(report.fix) + "</p>\n";
  return out;
}

std::string all_well(const ToldReplay& told, int level) {
  const ReplayReport& report = *told.report;
  std::string out = heading(level, "The run") +
                    paragraph(fmt::format("In every one of {} all ranks agreed, and every row was found where "
                                          "its reader looked.",
                                          counted(static_cast<std::size_t>(report.steps_run), "step")));
  const bool computed = std::ranges::any_of(
      report.steps, [](const ReplayedStep& step) { return step.outcome.taking_part != 0 && !step.outcome.stopped; });
  if (report.fidelity == Fidelity::numeric && computed)
    out += paragraph("Every output equals that of a dense computation without any all-to-all, within rounding.");
  if (report.knows_traffic() && report.traffic.wasted_rows() > 0)
    out += paragraph(fmt::format("What it costs: {} of {} row slots that the experts ran over held no token.",
                                 report.traffic.wasted_rows(), report.traffic.rows_reserved));
  return out;
}

}  // namespace

std::string finding_words(FindingKind kind) {
  switch (kind) {
    case FindingKind::misplaced:
      return "the slot holds another token of this round";
    case FindingKind::stale:
      return "the slot holds something of an earlier round";
    case FindingKind::unwritten:
      return "nobody ever wrote the slot";
    case FindingKind::torn:
      return "the slot holds a mixture, or two ranks raced for it";
    default:
      return std::string(name(kind));
  }
}

std::string row_words(const ReplayedStep& step, const Finding& found) {
  const RowEvidence& row = *found.row;
  const int writer = row.payload < 0 ? row.slice : row.source;
  const std::int64_t writers = r_of(step, writer), readers = r_of(step, found.rank);
  std::string out =
      row.payload < 0
          ? fmt::format("Rank {} reads the output for its token {} back from the memory of rank {}, slot [{}, {}].",
                        found.rank, row.token, row.slice, row.source, row.slot)
          : fmt::format("Rank {} looks for the {} of token {} of rank {} in slot [{}, {}] of its buffer.", found.rank,
                        part_words(row.payload), row.token, row.source, row.source, row.slot);
  if (row.written_offset >= 0 && row.written_offset != row.expected_offset)
    out += writers == readers
               ? fmt::format(" Rank {} put it {} bytes away from there.", writer,
                             std::abs(row.written_offset - row.expected_offset))
               : fmt::format(" Rank {} divides the memory by R = {} and rank {} by R = {}, so it lies {} bytes away.",
                             writer, writers, found.rank, readers, std::abs(row.written_offset - row.expected_offset));
  return out + fmt::format(" It finds {}.", found_words(found));
}

std::string the_setting(const ToldReplay& told, int level) {
  const ScenarioModel& model = told.scenario->model;
  return told.report->ep_size < 2 || told.report->verdict == Verdict::out_of_scope
             ? std::string()
             : setting_words(level, told.report->ep_size, ModelShape{model.num_experts, model.top_k, 0});
}

std::string what_happened(const ToldReplay& told, int level) {
  const ReplayReport& report = *told.report;
  if (!report.why.empty()) return no_start(report, level);
  if (report.verdict == Verdict::out_of_scope) return paragraph("This deployment uses no fixed-geometry all-to-all.");
  if (!report.has_error()) return all_well(told, level);
  const auto bad = std::ranges::find_if(report.steps, &ReplayedStep::is_bad);
  if (bad == report.steps.end())
    return the_setting(told, level) +
           paragraph(fmt::format("The first bad step, {}, is beyond the steps that were kept.",
                                 report.first_bad_step.value_or(0)));
  std::string out =
      heading(level, fmt::format("Step {}, {}: {}", bad->outcome.step, phase_title(bad->outcome.phase),
                                 sizes_differ(*bad) ? "the ranks come to different sizes" : "what each rank knew"));
  out += who_knew_what(*bad);
  const Finding* cause = bad->findings.empty() ? nullptr : &bad->findings.front();
  if (!sizes_differ(*bad) && cause != nullptr && cause->kind != FindingKind::missing_rank)
    out += paragraph(describe(*cause) + ".");
  out += where_a_row_went(*bad, level);
  out += what_came_out(report, *bad, level);
  if (told.says_why) out += why_and_fix(told, *bad, level);
  const auto bad_steps = std::ranges::count_if(report.steps, &ReplayedStep::is_bad);
  if (bad_steps > 1)
    out += paragraph(fmt::format("Step {} is the first of {} bad steps.", bad->outcome.step, bad_steps));
  return out;
}

}  // namespace a2asim
