// What explore says of an exploration made by hand: its first lines for each outcome, and the matrix.
#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "sim/explore/explore.h"
#include "tools/explore/explore_formats.h"

namespace a2asim {
namespace {

constexpr std::size_t kEager = 0, kPrefill = 3;

GenerationExploration explored(std::vector<std::pair<ExploreOutcome, std::int64_t>> counts) {
  GenerationExploration out;
  out.generation = "pr30450";
  out.space = 4000;
  out.configurations = 2000;
  out.classes[0].configurations = 2000;
  out.classes[0].refused_configurations = 7;
  for (const auto& [outcome, count] : counts) {
    out.classes[0].cells[kEager].cases[static_cast<std::size_t>(outcome)] = count;
    out.cases += count;
  }
  return out;
}

ExploreReport report_of(std::vector<GenerationExploration> generations) {
  ExploreReport out;
  out.generations = std::move(generations);
  out.engine = "sglang";
  return out;
}

// The first line, and the one that counts.
std::string first_lines(const ExploreReport& report, std::size_t lines = 2) {
  const std::string text = explore_as_text(report, "");
  std::size_t end = 0;
  for (; lines > 0; --lines) end = text.find('\n', end) + 1;
  return text.substr(0, end);
}

}  // namespace

TEST_CASE("explore text: the first line says what is wrong in how many cases") {
  using enum ExploreOutcome;
  const auto first_line = [](std::vector<std::pair<ExploreOutcome, std::int64_t>> counts) {
    return first_lines(report_of({explored(std::move(counts))}), 1);
  };
  CHECK(first_line({{safe, 1200}}) == "SAFE: no disagreement and no silent overflow in 1,200 small cases\n");
  CHECK(first_line({{safe, 1000}, {disagrees, 1}}) ==
        "DISAGREES: in 1 of 1,001 small cases, ranks use different buffer sizes\n");
  CHECK(first_line({{safe, 1000}, {disagrees, 1500}, {overflow, 20}}) ==
        "DISAGREES: in 1,500 of 2,520 small cases, ranks use different buffer sizes; 20 overflow silently\n");
  CHECK(first_line({{safe, 1000}, {overflow, 20}}) == "OVERFLOWS: 20 of 1,020 small cases overflow silently\n");
  CHECK(first_line({{over_cap, 3}, {refused, 3}, {wasteful, 3}}) ==
        "SAFE: no disagreement and no silent overflow in 9 small cases\n");
}

TEST_CASE("explore text: what was explored, with rule, shard and where it stopped") {
  ExploreReport report = report_of({explored({{ExploreOutcome::safe, 1200}})});
  const std::string safe = "SAFE: no disagreement and no silent overflow in 1,200 small cases\n";
  const std::string label = "  sglang v0.5.16 (pr30450)",
                    cases = ": 1,200 cases on 2,000 of 4,000 configurations, 7 rejected";
  CHECK(first_lines(report) == safe + label + cases + "\n");
  report.shard = Shard{1, 4};
  CHECK(first_lines(report) == safe + label + cases + " (shard 1/4)\n");
  report.shard.reset();
  report.rule = "python3 rule.py";
  CHECK(first_lines(report) == safe + label + " with rule python3 rule.py" + cases + "\n");
  report.rule = "--sglang-source DIR";
  CHECK(first_lines(report) == safe + label + " with --sglang-source DIR" + cases + "\n");
  report.answered = "the kinds";
  report.generations[0].stopped_at = 12;
  CHECK(first_lines(report, 4) ==
        safe + label + " with --sglang-source DIR" + cases +
            "\n  the kinds\n  stopped by the budget before configuration 12: the rest is not explored\n");
}

TEST_CASE("explore text: the matrix has the worst of each cell, and what else was counted") {
  using enum ExploreOutcome;
  GenerationExploration one = explored({{safe, 5}, {wasteful, 1000}, {over_cap, 2}, {refused, 3}});
  one.classes[0].cells[kPrefill].cases[static_cast<std::size_t>(unused)] = 4;
  one.classes[1].configurations = one.classes[1].refused_configurations = 30;
  one.classes[1].refusal_at = 5;
  one.classes[1].refusal = "no such layout";
  const std::string text = explore_as_text(report_of({one}), "out/dir");
  CHECK(text.find("  besides: 2 refused by the cap; 3 rejected; 1,000 wasteful\n") != std::string::npos);
  CHECK(text.find("  rejected at the start: " + class_name(1) + "\n    no such layout\n") != std::string::npos);
  const std::size_t row = text.find("  " + class_name(0) + "  ");
  REQUIRE(row != std::string::npos);
  const std::string line = text.substr(row, text.find('\n', row) - row);
  CHECK(line.find("2,000         7  over_cap      -             -       unused") != std::string::npos);
  CHECK(text.ends_with("scenarios of all example batches: out/dir\n"));
  CHECK(text.find("smallest batch") == std::string::npos);
}

TEST_CASE("explore text: several versions stand side by side, in words up to six, then as marks") {
  using enum ExploreOutcome;
  GenerationExploration good = explored({{safe, 5}}), bad = explored({{disagrees, 1500}});
  bad.generation = "pr29461";
  const std::string two = explore_as_text(report_of({bad, good}), "");
  CHECK(two.starts_with("UNSAFE: an error in 1 of 2 versions; none in v0.5.16\n  class of configurations"));
  CHECK(two.find("  disagrees  safe\n") != std::string::npos);
  CHECK(two.ends_with("\n2 versions, 1,505 cases\n"));
  CHECK(two.find("columns: ") == std::string::npos);
  const std::string all_safe = explore_as_text(report_of({good, good}), "");
  CHECK(all_safe.starts_with("SAFE: no error in any of 2 versions\n"));
  const std::string seven = explore_as_text(report_of({bad, good, good, good, good, good, good}), "");
  CHECK(seven.find("  X  .  .  .  .  .  .\n") != std::string::npos);
  CHECK(seven.find("\n  columns: 1 pr29461, 2 v0.5.16, 3 v0.5.16, ") != std::string::npos);
  CHECK(seven.find(
            "\n  X disagrees, O overflow, ^ over_cap, R rejected, w wasteful, . safe, - does not occur or start\n") !=
        std::string::npos);
  CHECK(explore_as_text(report_of({bad, good, good, good, good, good}), "").find("columns: ") == std::string::npos);
}

}  // namespace a2asim
