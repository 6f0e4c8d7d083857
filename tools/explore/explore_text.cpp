#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>

#include "model/check/check_explain.h"
#include "model/step/engine.h"
#include "tools/explore/explore_formats.h"
#include "tools/program/text.h"

namespace a2asim {
namespace {

std::string_view mark(std::optional<ExploreOutcome> outcome) {
  static constexpr std::array<std::string_view, kExploreOutcomes> kMarks = {"-", ".", "w", "R", "^", "O", "X"};
  return outcome ? kMarks[static_cast<std::size_t>(*outcome)] : "-";
}

std::string cell_text(const ExploreClass& one, const ExploreCell& cell) {
  if (const auto outcome = cell.outcome()) return std::string(name(*outcome));
  return one.refused_configurations == one.configurations ? "rejected" : "-";
}

bool is_never_started(const ExploreClass& one) {
  return one.refused_configurations == one.configurations &&
         std::ranges::all_of(one.cells, [](const ExploreCell& cell) { return cell.total() == 0; });
}

std::string matrix(const GenerationExploration& generation) {
  std::vector<std::vector<std::string>> rows = {{"class of configurations", "number", "rejected"}};
  for (const Phase phase : kExplorePhases) rows[0].emplace_back(name(phase));
  std::map<std::int64_t, std::pair<std::string, std::string>> never;  // by the first refusal: classes, reason
  for (const std::size_t i : classes_in_order()) {
    const ExploreClass& one = generation.classes[i];
    if (one.configurations == 0) continue;
    if (is_never_started(one)) {
      auto known = std::ranges::find_if(never, [&](const auto& entry) { return entry.second.second == one.refusal; });
      if (known == never.end()) known = never.insert({one.refusal_at, {"", one.refusal}}).first;
      known->second.first += (known->second.first.empty() ? "" : ", ") + class_name(i);
      continue;
    }
    rows.push_back({class_name(i), grouped(one.configurations), grouped(one.refused_configurations)});
    for (const ExploreCell& cell : one.cells) rows.back().push_back(cell_text(one, cell));
  }
  std::string out;
  if (rows.size() > 1)
    for (const std::string& line : table(rows, {1, 2})) out += "  " + line + '\n';
  for (const auto& [at, entry] : never) {
    for (const std::string& line : wrap(fmt::format("rejected at the start: {}", entry.first), kTextWidth - 2, 4))
      out += "  " + line + '\n';
    out += "    " + cut(one_line(entry.second), kTextWidth - 4) + '\n';
  }
  return out;
}

std::string with_rule(const ExploreReport& report) {
  if (!report.rule) return "";
  return (report.rule->starts_with("--") ? " with " : " with rule ") + one_line(*report.rule, 60);
}

// "requests [2, 0] -> size [2, 1]"
std::string batch_text(const CheckFinding& finding) {
  const CheckWitness& witness = *finding.witness;
  std::vector<std::string> tokens, sizes;
  for (std::size_t rank = 0; rank < witness.tokens_per_dp_rank.size(); ++rank) {
    tokens.push_back(std::to_string(witness.tokens_per_dp_rank[rank]));
    const std::optional<std::int64_t>& r = witness.runtime_max_tokens_per_rank[rank];
    sizes.push_back(r ? std::to_string(*r) : "error");
  }
  return fmt::format("{} {} -> size {}", finding.phase == Phase::prefill ? "tokens" : "requests", fold_ranks(tokens),
                     fold_ranks(sizes));
}

// "DISAGREES: 90,301 of 417,856 cases ..", the smallest of them, and what cures it.
std::string verdict_lines(const GenerationExploration& generation) {
  const std::int64_t disagrees = generation.count(ExploreOutcome::disagrees);
  const std::int64_t overflow = generation.count(ExploreOutcome::overflow);
  const std::string of = fmt::format("of {} small cases", grouped(generation.cases));
  const std::string overflows = fmt::format("{}{} overflow silently", grouped(overflow), disagrees > 0 ? "" : " " + of);
  if (disagrees + overflow == 0)
    return fmt::format("SAFE: no disagreement and no silent overflow in {} small cases\n", grouped(generation.cases));
  std::string out = disagrees > 0 ? fmt::format("DISAGREES: in {} {}, ranks use different buffer sizes{}\n",
                                                grouped(disagrees), of, overflow > 0 ? "; " + overflows : "")
                                  : fmt::format("OVERFLOWS: {}\n", overflows);
  const ExploreWitness* first = generation.first_error();
  if (first == nullptr) return out;
  const std::string batch = first->finding.witness ? ": " + batch_text(first->finding) : "";
  for (const std::string& words :
       {fmt::format("smallest: {} ranks, {}{}", first->ranks, spaced(name(first->finding.phase)), batch),
        first->finding.fix.empty() ? std::string() : "fix: " + first->finding.fix})
    if (!words.empty())
      for (const std::string& line : wrap(words, kTextWidth - 2, 2)) out += "  " + line + '\n';
  return out;
}

std::string head(const ExploreReport& report, const GenerationExploration& generation) {
  std::int64_t rejected = 0;
  for (const ExploreClass& one : generation.classes) rejected += one.refused_configurations;
  const std::string label = version_label(report, generation);
  std::string out = verdict_lines(generation);
  out += fmt::format("  {} {}{}{}: {} cases on {} of {} configurations, {} rejected{}\n", report.engine, label,
                     label == generation.generation ? "" : " (" + generation.generation + ")", with_rule(report),
                     grouped(generation.cases), grouped(generation.configurations), grouped(generation.space),
                     grouped(rejected),
                     report.shard ? fmt::format(" (shard {}/{})", report.shard->index, report.shard->of) : "");
  if (report.answered)
    for (const std::string& line : wrap(one_line(*report.answered), kTextWidth - 2, 2)) out += "  " + line + '\n';
  if (generation.stopped_at)
    out += fmt::format("  stopped by the budget before configuration {}: the rest is not explored\n",
                       *generation.stopped_at);
  return out;
}

std::string counts(const GenerationExploration& generation) {
  const auto count = [&](ExploreOutcome outcome) { return generation.count(outcome); };
  std::string out;
  for (const auto& [outcome, words] :
       {std::pair(ExploreOutcome::over_cap, "refused by the cap"), std::pair(ExploreOutcome::refused, "rejected"),
        std::pair(ExploreOutcome::wasteful, "wasteful")})
    if (const auto n = count(outcome))
      out += fmt::format("{}{} {}", out.empty() ? "  besides: " : "; ", grouped(n), words);
  return out.empty() ? out : out + '\n';
}

std::string indented_lines(const std::string& text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    out += "    " + text.substr(at, end - at) + '\n';
    at = end + 1;
  }
  return out;
}

std::string witness_lines(const ExploreReport& report, const GenerationExploration& generation) {
  std::vector<std::vector<std::string>> rows;
  for (const PlacedWitness& placed : witnesses(report)) {
    if (placed.generation != &generation || !placed.worst) continue;
    const ExploreWitness& witness = *placed.witness;
    rows.push_back({fmt::format("{} {}", class_name(placed.exploring_class), name(witness.finding.phase)),
                    std::string(name(placed.outcome)), counted(static_cast<std::size_t>(witness.ranks), "rank"),
                    witness.finding.witness ? batch_text(witness.finding) : ""});
  }
  std::string out = rows.empty() ? "" : "  smallest batch of each cell:\n";
  for (const std::string& line : table(rows, {})) out += "    " + cut(line, kTextWidth) + '\n';
  return out;
}

// Classes as lines, versions as columns: the worst of all forward passes.
std::string side_by_side(const ExploreReport& report) {
  constexpr std::size_t kColumnsInWords = 6;
  const bool in_words = report.generations.size() <= kColumnsInWords;
  std::vector<std::vector<std::string>> rows = {{"class of configurations"}};
  std::string columns;
  for (std::size_t at = 0; at < report.generations.size(); ++at) {
    const std::string label = version_label(report, report.generations[at]);
    rows[0].push_back(in_words ? label : std::to_string(at + 1));
    if (!in_words) columns += fmt::format("{}{} {}", at == 0 ? "" : ", ", at + 1, label);
  }
  for (const std::size_t i : classes_in_order()) {
    std::vector<std::string> row = {class_name(i)};
    bool starts = false;
    for (const GenerationExploration& generation : report.generations) {
      const ExploreClass& one = generation.classes[i];
      std::optional<ExploreOutcome> worst;
      for (const ExploreCell& cell : one.cells)
        if (const auto outcome = cell.outcome(); outcome && (!worst || *outcome > *worst)) worst = outcome;
      starts = starts || worst;
      row.push_back(in_words ? worst ? std::string(name(*worst)) : "-" : std::string(mark(worst)));
    }
    if (starts) rows.push_back(std::move(row));
  }
  const bool bad = report.has_error();
  std::string out = bad ? fmt::format("UNSAFE: {}\n", errors_in_words(report))
                        : fmt::format("SAFE: no error in any of {} versions\n", report.generations.size());
  for (const std::string& line : table(rows, {})) out += "  " + line + '\n';
  if (in_words) return out;
  for (const std::string& line : wrap("columns: " + columns, kTextWidth - 2, 2)) out += "  " + line + '\n';
  return out + "  X disagrees, O overflow, ^ over_cap, R rejected, w wasteful, . safe, - does not occur or start\n";
}

}  // namespace

std::string explore_as_text(const ExploreReport& report, const std::string& out) {
  std::string text = report.generations.size() > 1 ? side_by_side(report) : "";
  for (const GenerationExploration& generation : report.generations) {
    if (!text.empty()) text += '\n';
    text += head(report, generation) + matrix(generation) + counts(generation) + witness_lines(report, generation);
    if (const ExploreWitness* first = generation.first_error()) {
      const std::string option = report.rule ? rule_as_option(*report.rule) : "";
      text += fmt::format("  the smallest error, {} ranks; `a2asim replay{}` shows what it does:\n", first->ranks,
                          option.empty() ? "" : " " + option.substr(0, option.find(' ')) + " ..");
      text += indented_lines(first->scenario);
    }
  }
  if (report.generations.size() > 1)
    text += fmt::format("\n{} versions, {} cases\n", report.generations.size(), grouped(report.cases()));
  if (!out.empty()) text += fmt::format("scenarios of all example batches: {}\n", one_line(out));
  return text;
}

}  // namespace a2asim
