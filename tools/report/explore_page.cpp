#include "tools/report/explore_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "sim/scenario/scenario_reader.h"
#include "tools/program/text.h"
#include "tools/report/page.h"
#include "tools/report/parts.h"
#include "tools/report/replay_page.h"

namespace a2asim {
namespace {

using Json = nlohmann::ordered_json;

// A mark and a word each, so that no colour is needed.
struct OutcomeLook {
  std::string_view mark, tone, title, words;
};
OutcomeLook look(ExploreOutcome outcome) {
  switch (outcome) {
    case ExploreOutcome::unused:
      return {"·", "absent", "unused", "no rank enters the all-to-all"};
    case ExploreOutcome::safe:
      return {"✓", "fine", "safe", "all ranks compute the same size, and it fits"};
    case ExploreOutcome::wasteful:
      return {"○", "note", "wasteful", "right, but the size is at least four times the rows of the fullest rank"};
    case ExploreOutcome::refused:
      return {"■", "note", "rejected", "every rank refuses, with an error"};
    case ExploreOutcome::over_cap:
      return {"▲", "note", "over the cap", "every rank refuses, because the size exceeds the cap"};
    case ExploreOutcome::overflow:
      return {"◆", "error", "overflows", "a rank has more rows than the size, and nothing checks it"};
    case ExploreOutcome::disagrees:
      return {"✕", "error", "disagrees", "ranks compute different sizes, or some refuse while others wait"};
  }
  return {};
}

constexpr std::size_t kColumnsInWords = 4;  // more versions: marks alone

struct ShownWitness {
  PlacedWitness placed;
  std::string id;
};

// The worst of each cell; errors first, so that they are not among what is left out.
std::vector<ShownWitness> chosen_witnesses(const ExploreReport& report) {
  std::vector<ShownWitness> all;
  for (const bool errors : {true, false})
    for (const PlacedWitness& placed : witnesses(report))
      if (placed.worst && is_error(placed.outcome) == errors && all.size() < kWitnessesOnPage)
        all.push_back({placed, fmt::format("w{}", all.size())});
  return all;
}

Json look_values(const OutcomeLook& how) {
  return {{"tone", how.tone}, {"mark", how.mark}, {"title", how.title}, {"words", how.words}};
}

// What a class and a phase come to in one version; without a case, whether its launches start at all.
struct MatrixCell {
  std::optional<ExploreOutcome> outcome;
  bool is_refused = false;
  bool operator==(const MatrixCell&) const = default;
};
MatrixCell cell_of(const GenerationExploration& generation, std::size_t row, std::size_t phase) {
  const ExploreClass& one = generation.classes[row];
  const auto outcome = one.cells[phase].outcome();
  return {outcome, !outcome && one.configurations > 0 && one.refused_configurations == one.configurations};
}

Json cell_values(const GenerationExploration& generation, std::size_t row, std::size_t phase, bool is_many,
                 const std::vector<ShownWitness>& all) {
  const MatrixCell is = cell_of(generation, row, phase);
  Json out = is.outcome      ? look_values(look(*is.outcome))
             : is.is_refused ? Json{{"tone", "note"}, {"mark", "■"}, {"title", "does not start"}}
                             : Json{{"tone", "absent"}, {"mark", "·"}, {"title", "does not occur"}};
  out["witness"] = "";
  out["count"] = "";
  if (!is.outcome) return out;
  const auto witness = std::ranges::find_if(all, [&](const ShownWitness& at) {
    return at.placed.generation == &generation && at.placed.exploring_class == row &&
           at.placed.witness->finding.phase == kExplorePhases[phase];
  });
  if (witness != all.end()) out["witness"] = witness->id;
  const ExploreCell& cell = generation.classes[row].cells[phase];
  if (!is_many)
    out["count"] = fmt::format("{} of {} cases", grouped(cell.cases[static_cast<std::size_t>(*is.outcome)]),
                               grouped(cell.total()));
  return out;
}

std::string class_words(std::size_t row) {
  std::string out = spaced(class_name(row));
  const std::size_t plus = out.find('+');
  if (plus != std::string::npos) out.replace(plus, 1, ", ");
  return out;
}

bool refused_everywhere(const ExploreClass& one) {
  return one.configurations > 0 && one.refused_configurations == one.configurations &&
         std::ranges::all_of(one.cells, [](const ExploreCell& cell) { return cell.total() == 0; });
}

// Neighbouring phases of a class, without an error, that come to the same in every version are one line.
struct MatrixRow {
  std::size_t row = 0;
  std::vector<std::size_t> phases;
  std::vector<MatrixCell> cells;
  bool has_error = false;
};
void add_rows(const ExploreReport& report, std::size_t row, std::vector<MatrixRow>& out) {
  const std::size_t first = out.size();
  for (std::size_t phase = 0; phase < kExplorePhases.size(); ++phase) {
    MatrixRow next{row, {phase}, {}, false};
    bool occurs = false;
    for (const GenerationExploration& generation : report.generations) {
      next.cells.push_back(cell_of(generation, row, phase));
      occurs = occurs || next.cells.back().outcome;
      next.has_error = next.has_error || (next.cells.back().outcome && is_error(*next.cells.back().outcome));
    }
    if (!occurs) continue;
    const auto same = std::find_if(out.begin() + static_cast<std::ptrdiff_t>(first), out.end(),
                                   [&](const MatrixRow& one) { return !one.has_error && one.cells == next.cells; });
    if (same != out.end())
      same->phases.push_back(phase);
    else
      out.push_back(std::move(next));
  }
}

// One line a class and kind of forward pass, those with an error first; one column a version.
Json matrix_values(const ExploreReport& report, const std::vector<ShownWitness>& all) {
  std::vector<MatrixRow> lines;
  std::map<std::string, std::string> classes_of;  // by the refusal
  for (const std::size_t row : classes_in_order()) {
    const auto never = [&](const GenerationExploration& one) { return refused_everywhere(one.classes[row]); };
    add_rows(report, row, lines);
    for (const GenerationExploration& generation : report.generations)
      if (never(generation)) {
        std::string& classes = classes_of[generation.classes[row].refusal];
        const std::string words = class_words(row);
        if ((classes + ";").find("; " + words + ";") == std::string::npos && !classes.starts_with(words))
          classes += (classes.empty() ? "" : "; ") + words;
      }
  }
  std::ranges::stable_partition(lines, &MatrixRow::has_error);
  Json columns = Json::array(), rows = Json::array(), refusals = Json::array();
  for (const GenerationExploration& generation : report.generations)
    columns.push_back(version_label(report, generation));
  for (const MatrixRow& line : lines) {
    std::string phases;
    for (const std::size_t phase : line.phases)
      phases += (phases.empty() ? "" : ", ") + phase_title(kExplorePhases[phase]);
    Json cells = Json::array();
    for (const GenerationExploration& generation : report.generations)
      cells.push_back(cell_values(generation, line.row, line.phases.front(), line.phases.size() > 1, all)),
          cells.back()["at"] = version_label(report, generation);
    rows.push_back({{"class", class_words(line.row)}, {"phases", phases}, {"cells", std::move(cells)}});
  }
  for (const auto& [refusal, classes] : classes_of) refusals.push_back({{"classes", classes}, {"refusal", refusal}});
  return {{"compact", report.generations.size() > kColumnsInWords},
          {"columns", std::move(columns)},
          {"rows", std::move(rows)},
          {"refused", refusals.empty() ? Json() : Json{{"list", std::move(refusals)}}}};
}

Json version_values(const ExploreReport& report, const GenerationExploration& generation) {
  return {{"name", version_label(report, generation)},
          {"rules", generation.generation},
          {"cases", grouped(generation.cases)},
          {"configurations", fmt::format("{} of {}", grouped(generation.configurations), grouped(generation.space))},
          {"disagree", grouped(generation.count(ExploreOutcome::disagrees))},
          {"overflow", grouped(generation.count(ExploreOutcome::overflow))},
          {"stopped_at", generation.stopped_at ? Json(*generation.stopped_at) : Json()}};
}

// The same drawing as `replay --report`; empty where the witness cannot be run.
Json replayed(const ShownWitness& witness, const SizingRule& rule, std::int64_t drawing_bytes, Json& data) {
  Result<Scenario> scenario = parse_scenario(witness.placed.witness->scenario, witness.id);
  if (!scenario) return {};
  ReplayOptions options;
  options.rule = rule;
  const auto run = replay_for_page(std::move(*scenario), witness.id, options, drawing_bytes);
  if (!run || run->report.steps.empty()) return {};
  return replay_article(*run, witness.id, {4, 4, true}, data);
}

std::string replayed_words(std::size_t errors, std::size_t replays) {
  if (errors == 0) return "None is an error.";
  const std::string shown = replays == 0        ? "not replayed here"
                            : replays == errors ? "replayed here with real bytes"
                                                : fmt::format("the first {} replayed here with real bytes", replays);
  return errors == 1 ? fmt::format("1 is an error, {}.", shown) : fmt::format("{} are errors, {}.", errors, shown);
}

Json witnesses_values(const ExploreReport& report, const std::vector<ShownWitness>& all, const SizingRule& rule,
                      Json& data) {
  const auto errors = static_cast<std::size_t>(
      std::ranges::count_if(all, [](const ShownWitness& at) { return is_error(at.placed.outcome); }));
  const std::size_t replays = report.rule && !rule ? 0 : std::min(errors, kReplaysOnPage);
  const std::int64_t bytes = kDrawingLimit_bytes / static_cast<std::int64_t>(std::max<std::size_t>(replays, 1));
  Json chapters = Json::array();
  for (std::size_t i = 0; i < all.size(); ++i) {
    const ShownWitness& at = all[i];
    const CheckFinding& finding = at.placed.witness->finding;
    Json chapter = look_values(look(at.placed.outcome));
    chapter["id"] = at.id;
    chapter["name"] = fmt::format("{}, {}, {}", version_label(report, *at.placed.generation),
                                  class_words(at.placed.exploring_class), phase_title(finding.phase));
    chapter["ranks"] = at.placed.witness->ranks;
    chapter["finding"] = finding_values(finding);
    chapter["scenario"] = at.placed.witness->scenario;
    if (i < replays) chapter["article"] = replayed(at, rule, bytes, data);
    chapters.push_back(std::move(chapter));
  }
  std::size_t cells = 0;
  for (const PlacedWitness& placed : witnesses(report)) cells += placed.worst ? 1 : 0;
  return {{"replayed", replayed_words(errors, replays)},
          {"left_out", all.size() < cells ? Json(cells - all.size()) : Json()},
          {"chapters", std::move(chapters)}};
}

}  // namespace

std::string explore_page(const ExploreReport& report, const SizingRule& rule) {
  const std::vector<ShownWitness> all = chosen_witnesses(report);
  std::int64_t disagrees = 0, overflow = 0;
  for (const GenerationExploration& generation : report.generations) {
    disagrees += generation.count(ExploreOutcome::disagrees);
    overflow += generation.count(ExploreOutcome::overflow);
  }
  std::string names;
  for (const GenerationExploration& generation : report.generations) {
    if (report.generations.size() > 2 && &generation != &report.generations.front() &&
        &generation != &report.generations.back())
      continue;
    names += (names.empty() ? "" : report.generations.size() > 2 ? " to " : ", ") + version_label(report, generation);
  }
  Page page;
  page.title = fmt::format("a2asim explore: {}", names);
  const std::string kicker = fmt::format("a2asim explore · {} {}{}", report.engine, names,
                                         report.rule ? " · rule " + one_line(*report.rule, 100) : "");
  const std::string cases = fmt::format("Of {} small cases, {} disagree and {} overflow silently.",
                                        grouped(report.cases()), grouped(disagrees), grouped(overflow));
  page.header = disagrees + overflow > 0
                    ? verdict_header(kicker, Tone::bad, disagrees > 0 ? "Disagrees" : "Overflows",
                                     fmt::format("{}. {}", capitalised(errors_in_words(report)), cases))
                    : verdict_header(kicker, Tone::good, "No disagreement found",
                                     fmt::format("All ranks agree, or all refuse, in each of {} small cases.",
                                                 grouped(report.cases())));
  Json data = Json::object();
  page.body = "explore.mustache";
  for (std::size_t at = kExploreOutcomes; at-- > 0;)
    page.values["legend"].push_back(look_values(look(static_cast<ExploreOutcome>(at))));
  page.values["setting"] = setting_values(3, 0, {});
  page.values["matrix"] = matrix_values(report, all);
  for (const GenerationExploration& generation : report.generations)
    page.values["versions"].push_back(version_values(report, generation));
  if (!all.empty()) page.values["witnesses"] = witnesses_values(report, all, rule, data);
  page.data = {{"replays", std::move(data)}};
  return page_html(page);
}

}  // namespace a2asim
