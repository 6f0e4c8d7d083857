#include "tools/report/explore_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "sim/scenario/scenario_reader.h"
#include "tools/report/html.h"
#include "tools/report/page.h"
#include "tools/report/parts.h"
#include "tools/report/replay_page.h"
#include "tools/program/text.h"

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

std::string cell_html(const GenerationExploration& generation, std::size_t row, std::size_t phase,
                      const std::vector<ShownWitness>& all) {
  const ExploreClass& one = generation.classes[row];
  const ExploreCell& cell = one.cells[phase];
  const auto outcome = cell.outcome();
  if (!outcome)
    return one.refused_configurations == one.configurations
               ? "<span class=\"cell note\"><span aria-hidden=\"true\">■</span> does not start</span>"
               : "<span class=\"cell absent\">does not occur</span>";
  const OutcomeLook how = look(*outcome);
  const auto witness = std::ranges::find_if(all, [&](const ShownWitness& at) {
    return at.placed.generation == &generation && at.placed.exploring_class == row &&
           at.placed.witness->finding.phase == kExplorePhases[phase];
  });
  const std::string title(how.title);
  const std::string words = witness == all.end() ? title : fmt::format("<a href=\"#{}\">{}</a>", witness->id, title);
  const std::int64_t count = cell.cases[static_cast<std::size_t>(*outcome)];
  const std::string share = count == cell.total() ? "all " : grouped(count) + " of ";
  return fmt::format(
      "<span class=\"cell {}\"><span aria-hidden=\"true\">{}</span> {}</span><br><span class=\"only\">{}{}</span>",
      how.tone, how.mark, words, share, grouped(cell.total()));
}

std::string class_words(std::size_t row) {
  std::string out = class_name(row);
  std::ranges::replace(out, '_', ' ');
  const std::size_t plus = out.find('+');
  if (plus != std::string::npos) out.replace(plus, 1, ", ");
  return out;
}

bool never_starts(const ExploreClass& one) {
  return one.configurations > 0 && one.refused_configurations == one.configurations &&
         std::ranges::all_of(one.cells, [](const ExploreCell& cell) { return cell.total() == 0; });
}

std::string matrix(const GenerationExploration& generation, const std::vector<ShownWitness>& all) {
  HtmlTable table;
  table.caption =
      "A cell says the worst of its cases, and how many of its cases are so; a bad cell links to its smallest "
      "witness below";
  table.head = {"class of configurations", "number"};
  table.numbers = {1};
  table.less = {1};
  for (const Phase phase : kExplorePhases) table.head.push_back(phase_title(phase));
  for (std::size_t row = 0; row < kExploreClasses; ++row) {
    const ExploreClass& one = generation.classes[row];
    if (one.configurations == 0 || never_starts(one)) continue;
    table.rows.push_back({html_text(class_words(row)), grouped(one.configurations)});
    for (std::size_t phase = 0; phase < kExplorePhases.size(); ++phase)
      table.rows.back().push_back(cell_html(generation, row, phase, all));
  }
  std::string refusals;
  std::map<std::string, std::string> classes_of;  // by the refusal
  for (std::size_t row = 0; row < kExploreClasses; ++row) {
    const ExploreClass& one = generation.classes[row];
    if (!never_starts(one)) continue;
    std::string& classes = classes_of[one.refusal];
    classes += (classes.empty() ? "" : "; ") + class_words(row);
  }
  for (const auto& [refusal, classes] : classes_of)
    refusals += fmt::format("<li>{}: {}</li>\n", html_text(classes), html_text(refusal));
  return html_table(table) +
         (refusals.empty() ? "" : "<p>Classes that SGLang refuses at the start:</p>\n<ul>\n" + refusals + "</ul>\n");
}

std::string outcome_legend() {
  std::string out = "<ul class=\"legend\" aria-label=\"Legend\">\n";
  for (std::size_t at = kExploreOutcomes; at-- > 0;) {
    const OutcomeLook how = look(static_cast<ExploreOutcome>(at));
    out += fmt::format("<li><span class=\"cell {}\"><span aria-hidden=\"true\">{}</span> {}</span> {}</li>\n", how.tone,
                       how.mark, how.title, how.words);
  }
  return out + "</ul>\n";
}

std::string generation_section(const GenerationExploration& generation, const std::vector<ShownWitness>& all) {
  const std::int64_t disagrees = generation.count(ExploreOutcome::disagrees);
  const std::int64_t overflow = generation.count(ExploreOutcome::overflow);
  std::string words =
      fmt::format("{} cases on {} of {} configurations: {} disagree, {} overflow silently.", grouped(generation.cases),
                  grouped(generation.configurations), grouped(generation.space), grouped(disagrees), grouped(overflow));
  if (generation.stopped_at)
    words += fmt::format(" Stopped by the budget before configuration {}: the rest is not explored.",
                         *generation.stopped_at);
  return section("g-" + generation.generation, "SGLang " + generation.generation,
                 paragraph(words) + matrix(generation, all));
}

// The same drawing as `replay --report`; empty where the witness cannot be run.
std::string replayed(const ShownWitness& witness, const SizingRule& rule, std::int64_t drawing_bytes, Json& data) {
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

std::string chapters(const ExploreReport& report, const std::vector<ShownWitness>& all, const SizingRule& rule,
                     Json& data) {
  const auto errors = static_cast<std::size_t>(
      std::ranges::count_if(all, [](const ShownWitness& at) { return is_error(at.placed.outcome); }));
  const std::size_t replays = report.rule && !rule ? 0 : std::min(errors, kReplaysOnPage);
  const std::int64_t bytes = kDrawingLimit_bytes / static_cast<std::int64_t>(std::max<std::size_t>(replays, 1));
  std::vector<Chapter> list;
  for (std::size_t i = 0; i < all.size(); ++i) {
    const ShownWitness& at = all[i];
    const CheckFinding& finding = at.placed.witness->finding;
    const OutcomeLook how = look(at.placed.outcome);
    const std::string name = fmt::format("{}, {}, {}", at.placed.generation->generation,
                                         class_words(at.placed.exploring_class), phase_title(finding.phase));
    std::string html = fmt::format("<h3>{} {}: {}</h3>\n", how.mark, html_text(name), how.title) +
                       finding_html(finding) +
                       code_block("The scenario, for a2asim replay", at.placed.witness->scenario);
    if (i < replays) html += replayed(at, rule, bytes, data);
    list.push_back({at.id, name, fmt::format("{}, {} ranks", how.title, at.placed.witness->ranks), std::move(html)});
  }
  std::string out = paragraph("The smallest case of each cell. " + replayed_words(errors, replays));
  std::size_t cells = 0;
  for (const PlacedWitness& placed : witnesses(report)) cells += placed.worst ? 1 : 0;
  if (all.size() < cells)
    out += paragraph(fmt::format("{} more witnesses are left out; --out writes all of them.", cells - all.size()));
  return out + chapters_html("Witness", list);
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
  const std::string kicker =
      fmt::format("a2asim explore · SGLang {}{}", names, report.rule ? " · rule " + one_line(*report.rule, 100) : "");
  page.header = disagrees + overflow > 0
                    ? verdict_header(kicker, Tone::bad, disagrees > 0 ? "Disagrees" : "Overflows",
                                     fmt::format("Of {} small cases {} disagree and {} overflow silently.",
                                                 grouped(report.cases()), grouped(disagrees), grouped(overflow)))
                    : verdict_header(kicker, Tone::good, "No disagreement found",
                                     fmt::format("All ranks agree, or all refuse, in each of {} small cases.",
                                                 grouped(report.cases())));
  Json data = Json::object();
  page.body =
      section("how", "How to read the matrix",
              paragraph("Every small configuration of SGLang was walked, and on each every small batch: do all ranks "
                        "derive one size of the all-to-all, and does it fit? A line is a class of configurations, a "
                        "column a kind of forward pass.") +
                  outcome_legend() + setting_words(3, 0, {}));
  for (const GenerationExploration& generation : report.generations) page.body += generation_section(generation, all);
  if (!all.empty()) page.body += section("witnesses", "Witnesses", chapters(report, all, rule, data));
  page.data = {{"replays", std::move(data)}};
  return page_html(page);
}

}  // namespace a2asim
