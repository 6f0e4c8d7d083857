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
      return {"✓", "fine", "safe", "all ranks derive one size, and it fits"};
    case ExploreOutcome::wasteful:
      return {"○", "note", "wasteful", "right, but the size is at least four times the rows of the fullest rank"};
    case ExploreOutcome::refused:
      return {"■", "note", "rejected", "every rank refuses, with an error"};
    case ExploreOutcome::over_cap:
      return {"▲", "note", "over the cap", "every rank refuses, because the size exceeds the cap"};
    case ExploreOutcome::overflow:
      return {"◆", "error", "overflows", "a rank has more rows than the size, and nothing checks it"};
    case ExploreOutcome::disagrees:
      return {"✕", "error", "disagrees", "ranks derive different sizes, or some refuse while others wait"};
  }
  return {};
}

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

Json cell_values(const GenerationExploration& generation, std::size_t row, std::size_t phase,
                 const std::vector<ShownWitness>& all) {
  const ExploreClass& one = generation.classes[row];
  const ExploreCell& cell = one.cells[phase];
  const auto outcome = cell.outcome();
  if (!outcome) return {{one.refused_configurations == one.configurations ? "never" : "none", true}};
  const auto witness = std::ranges::find_if(all, [&](const ShownWitness& at) {
    return at.placed.generation == &generation && at.placed.exploring_class == row &&
           at.placed.witness->finding.phase == kExplorePhases[phase];
  });
  const std::int64_t count = cell.cases[static_cast<std::size_t>(*outcome)];
  Json how = look_values(look(*outcome));
  how["witness"] = witness == all.end() ? "" : witness->id;
  how["share"] = count == cell.total() ? "all" : grouped(count) + " of";
  how["total"] = grouped(cell.total());
  return {{"look", std::move(how)}};
}

std::string class_words(std::size_t row) {
  std::string out = spaced(class_name(row));
  const std::size_t plus = out.find('+');
  if (plus != std::string::npos) out.replace(plus, 1, ", ");
  return out;
}

bool never_starts(const ExploreClass& one) {
  return one.configurations > 0 && one.refused_configurations == one.configurations &&
         std::ranges::all_of(one.cells, [](const ExploreCell& cell) { return cell.total() == 0; });
}

void add_matrix(const GenerationExploration& generation, const std::vector<ShownWitness>& all, Json& values) {
  std::map<std::string, std::string> classes_of;  // by the refusal
  for (const Phase phase : kExplorePhases) values["phases"].push_back(phase_title(phase));
  Json rows = Json::array(), refusals = Json::array();
  for (const std::size_t row : classes_in_order()) {
    const ExploreClass& one = generation.classes[row];
    if (never_starts(one)) {
      std::string& classes = classes_of[one.refusal];
      classes += (classes.empty() ? "" : "; ") + class_words(row);
    } else if (one.configurations > 0) {
      Json cells = Json::array();
      for (std::size_t phase = 0; phase < kExplorePhases.size(); ++phase)
        cells.push_back(cell_values(generation, row, phase, all));
      rows.push_back({{"class", class_words(row)}, {"number", grouped(one.configurations)}, {"cells", cells}});
    }
  }
  for (const auto& [refusal, classes] : classes_of) refusals.push_back({{"classes", classes}, {"refusal", refusal}});
  values["rows"] = std::move(rows);
  values["refused"] = refusals.empty() ? Json() : Json{{"list", std::move(refusals)}};
}

Json generation_values(const GenerationExploration& generation, const std::vector<ShownWitness>& all) {
  Json out = {{"name", generation.generation},
              {"cases", grouped(generation.cases)},
              {"configurations", grouped(generation.configurations)},
              {"space", grouped(generation.space)},
              {"disagree", grouped(generation.count(ExploreOutcome::disagrees))},
              {"overflow", grouped(generation.count(ExploreOutcome::overflow))},
              {"stopped_at", generation.stopped_at ? Json(*generation.stopped_at) : Json()}};
  add_matrix(generation, all, out);
  return out;
}

// Classes of configurations as lines, versions as columns; a cell is the worst of all kinds of forward passes.
Json overview_values(const ExploreReport& report) {
  if (report.generations.size() < 2) return {};
  Json columns = Json::array(), rows = Json::array();
  for (const GenerationExploration& generation : report.generations) columns.push_back(generation.generation);
  for (std::size_t row = 0; row < kExploreClasses; ++row) {
    Json cells = Json::array();
    bool occurs = false;
    for (const GenerationExploration& generation : report.generations) {
      const ExploreClass& one = generation.classes[row];
      std::optional<ExploreOutcome> worst;
      for (const ExploreCell& cell : one.cells)
        if (const auto outcome = cell.outcome(); outcome && (!worst || *outcome > *worst)) worst = outcome;
      occurs = occurs || one.configurations > 0;
      Json cell = worst ? look_values(look(*worst))
                        : Json{{"tone", "absent"},
                               {"mark", one.configurations > 0 ? "■" : "·"},
                               {"title", one.configurations > 0 ? "does not start" : "does not occur"}};
      cell["at"] = generation.generation;
      cells.push_back(std::move(cell));
    }
    if (occurs) rows.push_back({{"class", class_words(row)}, {"cells", std::move(cells)}});
  }
  return {{"columns", std::move(columns)}, {"rows", std::move(rows)}};
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
    chapter["name"] = fmt::format("{}, {}, {}", at.placed.generation->generation,
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
    names += (names.empty() ? "" : report.generations.size() > 2 ? ".." : ", ") + generation.generation;
  }
  Page page;
  page.title = fmt::format("a2asim explore: {}", names);
  const std::string kicker = fmt::format("a2asim explore · {} {}{}", report.engine, names,
                                         report.rule ? " · rule " + one_line(*report.rule, 100) : "");
  page.header = disagrees + overflow > 0
                    ? verdict_header(kicker, Tone::bad, disagrees > 0 ? "Disagrees" : "Overflows",
                                     fmt::format("Of {} small cases {} disagree and {} overflow silently.",
                                                 grouped(report.cases()), grouped(disagrees), grouped(overflow)))
                    : verdict_header(kicker, Tone::good, "No disagreement found",
                                     fmt::format("All ranks agree, or all refuse, in each of {} small cases.",
                                                 grouped(report.cases())));
  Json data = Json::object();
  page.body = "explore.mustache";
  for (std::size_t at = kExploreOutcomes; at-- > 0;)
    page.values["legend"].push_back(look_values(look(static_cast<ExploreOutcome>(at))));
  page.values["setting"] = setting_values(3, 0, {});
  page.values["overview"] = overview_values(report);
  for (const GenerationExploration& generation : report.generations)
    page.values["generations"].push_back(generation_values(generation, all));
  if (!all.empty()) page.values["witnesses"] = witnesses_values(report, all, rule, data);
  page.data = {{"replays", std::move(data)}};
  return page_html(page);
}

}  // namespace a2asim
