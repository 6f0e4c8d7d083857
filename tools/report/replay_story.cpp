#include "tools/report/replay_story.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/check/check_explain.h"
#include "model/check/finding_info.h"
#include "tools/program/text.h"
#include "tools/replay/replay_formats.h"
#include "tools/report/parts.h"

namespace a2asim {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t kRanksNamed = 8;  // in a sentence or a list

std::int64_t r_of(const ReplayedStep& step, int rank) {
  return step.ranks[static_cast<std::size_t>(rank)].decision.sizing.runtime_max_tokens_per_rank;
}

std::string_view row_words(const RowEvidence& row, int payload) {
  if (payload < 0) return "expert output";
  return payload == 0 ? "hidden state" : payload_words(row.dispatch_type.value_or(DispatchType::bf16), payload);
}

std::string found_words(const Finding& found) {
  const RowEvidence& row = *found.row;
  if (row.found_writer < 0) return "nothing that anybody wrote";
  std::string what = fmt::format("the {} of token {} of rank {}", row_words(row, row.found_payload), row.found_token,
                                 row.found_source);
  if (row.found_token < 0) what = fmt::format("padding of rank {}", row.found_writer);
  if (row.found_round < row.expected_round)
    what += row.found_step < found.step ? fmt::format(", left over from step {}", row.found_step)
                                        : ", left over from an earlier layer";
  if (found.kind == FindingKind::torn) what = "a mixture that begins with " + what;
  if (row.race)
    what += row.lost_writer < 0
                ? ", where two ranks wrote in the same round"
                : fmt::format(", where rank {} wrote its token {} in the same round", row.lost_writer, row.lost_token);
  return what;
}

std::string rank_words(const std::vector<std::size_t>& ranks_of_group) {
  return (ranks_of_group.size() == 1 ? "Rank " : "Each of ranks ") + ranges(ranks_of_group);
}

std::int64_t count_of(const ReplayedStep& step, FindingKind kind) {
  return step.counts[static_cast<std::size_t>(kind)];
}

bool sizes_differ(const ReplayedStep& step) { return !step.outcome.geometry.same_r; }

// Rows of a data-parallel rank: those of its requests, and with the padding that it runs.
struct ReplicaRows {
  std::int64_t real = 0, padded = 0;
};
ReplicaRows rows_of(const ReplayedStep& step, std::size_t dp) {
  const std::size_t stride = step.ranks.size() / step.batches.size();
  ReplicaRows rows;
  for (std::size_t i = 0; i < stride; ++i) {
    const RankDecision& decision = step.ranks[dp * stride + i].decision;
    rows.real += decision.real_rows;
    rows.padded += decision.rows;
  }
  return rows;
}

// What a list counts: a graph is chosen by requests, everything else goes by rows. And whether it counts padding too.
struct Counted {
  std::string_view what = "rows";
  bool is_padded = false;
};
Counted counted_in(const ReplayedStep& step, const std::vector<std::int64_t>& list, std::size_t dp) {
  bool requests = true, padded = false, differs = false;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::size_t rank = list.size() == 1 ? dp : i;
    if (rank >= step.batches.size()) return {};
    const ReplicaRows rows = rows_of(step, rank);
    requests = requests && list[i] == step.batches[rank].count;
    differs = differs || rows.real > step.batches[rank].count;
    padded = padded || (list[i] > rows.real && list[i] == rows.padded);
  }
  return {requests && differs ? "requests" : "rows", padded};
}

std::string knowledge_words(const ReplayedStep& step, std::size_t rank) {
  const auto& list = step.lists[rank];
  if (!list) return "knows no numbers of others";
  const std::size_t dp = rank / (step.ranks.size() / step.batches.size());
  const Counted in = counted_in(step, *list, dp);
  const std::string_view padding = in.is_padded ? " with padding" : "";
  if (list->size() == 1 && step.batches.size() > 1)
    return fmt::format("knows only its own number of {}, {}{}", in.what, list->front(), padding);
  const bool all_equal = std::ranges::all_of(*list, [&](std::int64_t count) { return count == list->front(); });
  if (list->size() > kRanksNamed && !all_equal)
    return fmt::format("knows the numbers of {} of all {}{} (the largest is {})", in.what, list->size(), padding,
                       *std::ranges::max_element(*list));
  std::string counts;
  for (const std::int64_t count : *list) counts += (counts.empty() ? "" : ", ") + std::to_string(count);
  if (all_equal && list->size() > kRanksNamed) counts = fmt::format("{} each", list->front());
  return fmt::format("knows the numbers of {} of all{}: {}", in.what, padding, counts);
}

std::string work_words(const ReplayedStep& step, std::size_t rank) {
  const std::size_t dp = rank / (step.ranks.size() / step.batches.size());
  const RankBatch& batch = step.batches[dp];
  if (batch.count == 0) return "has no work";
  const bool tokens = batch.mode == ForwardMode::extend || batch.mode == ForwardMode::mixed;
  const std::int64_t rows = rows_of(step, dp).real;
  return "has " + counted(static_cast<std::size_t>(batch.count), tokens ? "token" : "request") +
         (!tokens && rows > batch.count ? fmt::format(" ({} rows)", rows) : "");
}

// "29 groups of ranks, with R from 1 to 30. The first 8:"
std::string groups_words(const ReplayedStep& step, std::size_t groups) {
  std::vector<std::int64_t> sizes;
  for (const ReplayedRank& rank : step.ranks)
    if (const auto size = rank.runtime_max()) sizes.push_back(*size);
  std::string span;
  if (!sizes.empty()) {
    const auto [least, most] = std::ranges::minmax_element(sizes);
    span =
        *least == *most ? fmt::format(", with R = {}", *least) : fmt::format(", with R from {} to {}", *least, *most);
  }
  return fmt::format("{} groups of ranks{}. The first {}:", groups, span, kRanksNamed);
}

Json groups_values(const ReplayedStep& step, const std::vector<RankGroup>& groups) {
  Json out = Json::array();
  for (std::size_t i = 0; i < std::min(groups.size(), kRanksNamed); ++i) {
    const std::size_t rank = groups[i].ranks.front();
    const RankDecision& decision = step.ranks[rank].decision;
    const auto size = step.ranks[rank].runtime_max();
    const auto branch = step.ranks[rank].branch();
    const bool is_eager = decision.participates && !decision.replay;
    const std::string way = !decision.participates ? "absent"
                            : decision.replay      ? "bucket"
                            : size.has_value()     ? "eager"
                                                   : "no_r";
    out.push_back({{"ranks", rank_words(groups[i].ranks)},
                   {"work", work_words(step, rank)},
                   {"knowledge", knowledge_words(step, rank)},
                   {way, decision.replay ? Json(decision.bucket) : Json(true)},
                   {"r", size.value_or(0)},
                   {"dummy", is_eager && decision.sizing.has_dummy_token},
                   {"branch", branch ? text(*branch) : ""}});
  }
  return out;
}

bool is_moved(const RowEvidence& row) { return row.written_offset >= 0 && row.written_offset != row.expected_offset; }

// Row numbers are those of the first block, which begins at the same byte whatever R is.
std::string row_sum(std::int64_t rank, std::int64_t r, std::int64_t slot) {
  return fmt::format("{} × {} + {} = {}", rank, r, slot, rank * r + slot);
}

// What put another token into the row that a reader looked in; empty where it is not one whole row of this round.
std::string filled_words(const ReplayedStep& step, const Finding& found) {
  const RowEvidence& row = *found.row;
  if (row.found_writer < 0 || row.found_slot < 0 || row.found_round != row.expected_round ||
      row.found_payload != row.payload)
    return {};
  const std::int64_t r = r_of(step, row.found_writer), looked = row.source * r_of(step, found.rank) + row.slot;
  if (row.found_writer * r + row.found_slot != looked) return {};
  return fmt::format(" That row was filled by rank {}: with its R = {}, its token {} belongs in row {}.",
                     row.found_writer, r, row.found_token, row_sum(row.found_writer, r, row.found_slot));
}

// A row of hidden states: the places by both R.
std::string moved_words(const ReplayedStep& step, const Finding& found) {
  const RowEvidence& row = *found.row;
  const std::int64_t writers = r_of(step, row.source), readers = r_of(step, found.rank);
  return fmt::format(
             "Rank {0} sent its token {1} to rank {2}, as row {3} of those it sends there. By its own R = {4} that is "
             "row {5} of the buffer, and there it wrote it. Rank {2} has R = {6}, so it looks in row {7}. What it "
             "finds there is {8}.",
             row.source, row.token, found.rank, row.slot, writers, row_sum(row.source, writers, row.slot), readers,
             row_sum(row.source, readers, row.slot), found_words(found)) +
         filled_words(step, found);
}

// A row that lies where its reader looks, until another rank writes there too.
std::string overwritten_words(const ReplayedStep& step, const Finding& found) {
  const RowEvidence& row = *found.row;
  const std::int64_t writers = r_of(step, row.source), readers = r_of(step, found.rank);
  const bool lost = row.found_writer == row.source;  // the right row won here
  const int other = lost ? row.lost_writer : row.found_writer;
  const std::int64_t token = lost ? row.lost_token : row.found_token, slot = lost ? row.lost_slot : row.found_slot;
  const std::int64_t r = r_of(step, other);
  const std::string own =
      row.source == found.rank
          ? fmt::format("Rank {} put its token {} into slot [{}, {}] itself, where it belongs.", row.source, row.token,
                        row.source, row.slot)
          : fmt::format(
                "Rank {} put its token {} into slot [{}, {}] of rank {}, which looks for it "
                "there: by the one's R = {} that is row {}, by the other's R = {} row {}.",
                row.source, row.token, row.source, row.slot, found.rank, writers,
                row_sum(row.source, writers, row.slot), readers, row_sum(row.source, readers, row.slot));
  const bool is_row = (lost ? row.lost_payload : row.found_payload) == 0 && slot >= 0;
  return own + fmt::format(
                   " But rank {}, whose R is {}, put its own token {} into the same bytes{}. Who writes last "
                   "wins: a rank can read wrong rows although its own R fits.",
                   other, r, token, is_row ? fmt::format(" (row {})", row_sum(other, r, slot)) : "");
}

bool is_overwritten(const Finding& found) {
  const RowEvidence& row = *found.row;
  if (row.written_offset != row.expected_offset || row.payload != 0) return false;
  const bool lost = row.found_writer == row.source && row.found_token == row.token;
  return lost ? row.lost_writer >= 0 : row.race && row.found_writer >= 0 && row.found_writer != row.source;
}

Json where_a_row_went(const ReplayedStep& step, const Finding* found) {
  if (found == nullptr) return {};
  const RowEvidence& row = *found->row;
  const bool by_rows = row.payload == 0 && is_moved(row) && r_of(step, row.source) != r_of(step, found->rank);
  Json counts = Json::array();
  for (const FindingKind kind : {FindingKind::misplaced, FindingKind::stale, FindingKind::unwritten, FindingKind::torn})
    if (count_of(step, kind) > 0)
      counts.push_back({{"count", count_of(step, kind)}, {"kind", name(kind)}, {"words", finding_info(kind).what}});
  return {{"words", by_rows                  ? moved_words(step, *found)
                    : is_overwritten(*found) ? overwritten_words(step, *found)
                                             : row_words(step, *found)},
          {"counts", std::move(counts)}};
}

std::string wrong_outputs_words(const ReplayReport& report, const ReplayedStep& step) {
  const std::int64_t nan = count_of(step, FindingKind::nan_output), wrong = count_of(step, FindingKind::wrong_output);
  std::int64_t outputs = 0;
  for (const ReplayedRank& rank : step.ranks)
    if (rank.takes_part) outputs += std::min(rank.decision.real_rows, rank.decision.rows) * report.layers;
  std::string kinds;
  if (nan > 0) kinds += fmt::format("{} {} NaN", nan, nan == 1 ? "is" : "are");
  if (wrong > 0)
    kinds += fmt::format("{}{} {} finite and wrong, which no check for NaN finds: the model goes on in fluent nonsense",
                         kinds.empty() ? "" : ", ", wrong, wrong == 1 ? "is" : "are");
  const std::string layers =
      report.layers > 1
          ? fmt::format(" ({} in {} layers)", counted(static_cast<std::size_t>(outputs / report.layers), "token"),
                        report.layers)
          : "";
  return fmt::format("Of the {} outputs of this step{} {} wrong: {}.", outputs, layers,
                     nan + wrong == 1 ? "1 is" : fmt::format("{} are", nan + wrong), kinds);
}

Json what_came_out(const ReplayReport& report, const ReplayedStep& step) {
  Json words = Json::array();
  const std::int64_t ids = count_of(step, FindingKind::expert_id_out_of_range);
  const bool wrong = count_of(step, FindingKind::nan_output) + count_of(step, FindingKind::wrong_output) > 0;
  if (!step.outcome.stopped && (wrong || sizes_differ(step)))
    words.push_back(
        std::string("Nobody noticed. No rank raised an error and no rank waited") +
        (count_of(step, FindingKind::receive_overflow) > 0 ? "." : ": every write landed in memory that exists."));
  if (wrong) words.push_back(wrong_outputs_words(report, step));
  if (ids > 0)
    words.push_back(
        fmt::format("{} that reached the experts {} no expert's. On a GPU such an id becomes an illegal memory "
                    "access, far from its cause.",
                    counted(static_cast<std::size_t>(ids), "expert id"), ids == 1 ? "is" : "are"));
  const auto missing = std::ranges::find(step.findings, FindingKind::missing_rank, &Finding::kind);
  if (missing != step.findings.end()) words.push_back(sentence(describe(*missing)));
  return words.empty() ? Json() : Json{{"words", std::move(words)}};
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

Json faults_values(const std::vector<Fault>& faults) {
  if (faults.empty()) return {};
  Json list = Json::array();
  for (std::size_t i = 0; i < std::min(faults.size(), kRanksNamed); ++i) list.push_back(fault_words(faults[i]));
  if (faults.size() > kRanksNamed) list.push_back(fmt::format("and {} more", faults.size() - kRanksNamed));
  return {{"list", std::move(list)}};
}

Json all_well(const ReplayReport& report) {
  const bool computed = std::ranges::any_of(report.steps, [](const ReplayedStep& step) {
    return !step.outcome.taking_part.empty() && !step.outcome.stopped;
  });
  const std::int64_t wasted = report.knows_traffic() ? report.traffic.wasted_rows() : 0;
  return {{"steps", counted(static_cast<std::size_t>(report.steps_run), "step")},
          {"numeric", report.fidelity == Fidelity::numeric && computed},
          {"wasted", wasted > 0 ? Json(wasted) : Json()},
          {"reserved", report.traffic.rows_reserved}};
}

Json bad_step(const ToldReplay& told, const ReplayedStep& step) {
  const Finding* cause = step.findings.empty() ? nullptr : &step.findings.front();
  const std::vector<RankGroup> groups = rank_groups(step);
  const bool is_many = groups.size() > kRanksNamed;
  Json out = {{"phase", phase_title(step.outcome.phase)},
              {"differ", sizes_differ(step)},
              {"many", is_many ? groups_words(step, groups.size()) : ""},
              {"groups", groups_values(step, groups)},
              {"more_groups", is_many ? Json(groups.size() - kRanksNamed) : Json()},
              {"row", where_a_row_went(step, told.row)},
              {"came", what_came_out(*told.report, step)}};
  if (!sizes_differ(step) && cause != nullptr && cause->kind != FindingKind::missing_rank)
    out["cause"] = sentence(describe(*cause));
  if (!told.says_why) return out;
  out["faults"] = faults_values(told.scenario->faults);
  if (told.scenario->faults.empty() && told.deployment != nullptr && cause != nullptr &&
      cause->kind == FindingKind::geometry_disagreement) {
    const CheckFinding found = explain_disagreement(*told.deployment, batch_of(step));
    out["flags"] = {{"lines", found.chain}, {"conditions", conditions_values(found.any_of)}};
  }
  return out;
}

Json setting(const ToldReplay& told, int level) {
  const ScenarioModel& model = told.scenario->model;
  if (told.report->ep_size < 2 || told.report->verdict == Verdict::out_of_scope) return {};
  return setting_values(level, told.report->ep_size, ModelShape{model.num_experts, model.top_k, 0});
}

}  // namespace

const Finding* telling_row(const ReplayedStep& step, const std::function<bool(const Finding&)>& is_drawn) {
  const Finding* best = nullptr;
  int best_weight = -1;
  for (const Finding& found : step.findings) {
    if (!is_of_request(step, found) || found.severity != Severity::error) continue;
    const RowEvidence& row = *found.row;
    const int weight = (is_drawn(found) ? 16 : 0) + (is_moved(row) ? 8 : 0) + (row.payload == 0 ? 4 : 0) +
                       (found.kind == FindingKind::misplaced ? 2 : 0) + (row.found_token >= 0 ? 1 : 0);
    if (weight <= best_weight) continue;
    best = &found;
    best_weight = weight;
  }
  return best;
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
                        row_words(row, row.payload), row.token, row.source, row.source, row.slot);
  if (row.written_offset == row.expected_offset && row.race && row.found_writer >= 0 && row.found_writer != writer)
    out += fmt::format(" Rank {} put it there, and rank {} wrote over it.", writer, row.found_writer);
  if (is_moved(row))
    out += writers == readers
               ? fmt::format(" Rank {} put it {} bytes away from there.", writer,
                             std::abs(row.written_offset - row.expected_offset))
               : fmt::format(" Rank {} divides the memory by R = {} and rank {} by R = {}, so it lies {} bytes away.",
                             writer, writers, found.rank, readers, std::abs(row.written_offset - row.expected_offset));
  return out + fmt::format(" It finds {}.", found_words(found));
}

Json story_values(const ToldReplay& told, int level) {
  const ReplayReport& report = *told.report;
  const auto bad = std::ranges::find_if(report.steps, &ReplayedStep::is_bad);
  Json out = {{"sub", level}, {"setting", told.says_why ? setting(told, level) : Json()}};
  if (!report.why.empty()) {
    out["plain"] = sentence(report.why);
    out["fix"] = report.fix;
  } else if (report.verdict == Verdict::out_of_scope) {
    out["plain"] = "This deployment uses no fixed-geometry all-to-all.";
  } else if (!report.has_error()) {
    out["well"] = all_well(report);
  } else if (bad == report.steps.end()) {
    out["plain"] =
        fmt::format("The first bad step, {}, is beyond the steps that were kept.", report.first_bad_step.value_or(0));
  } else {
    const auto bad_steps = std::ranges::count_if(report.steps, &ReplayedStep::is_bad);
    out["step"] = bad->outcome.step;
    out["bad"] = bad_step(told, *bad);
    if (told.says_why && !bad->findings.empty()) out["fix"] = bad->findings.front().fix;
    if (bad_steps > 1) out["bad_steps"] = bad_steps;
  }
  return out;
}

}  // namespace a2asim
