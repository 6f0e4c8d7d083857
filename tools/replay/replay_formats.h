// A ReplayReport for people (text) and for programs (JSON).
#pragma once

#include <array>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sim/cluster/replay.h"

namespace a2asim {

struct ReplayTextStyle {
  bool verbose = false;  // every step and every kept finding
  bool colour = false;
  bool digest = false;  // a last line with the digest
};

// What a file expects, and whether it was so; nothing: the file says nothing, or --sglang was given.
struct Expectation {
  Expect wanted;
  std::string differs;  // empty: as expected
};

// The verdict first, then the steps that show it, the chain behind the first bad token, and the waste.
std::string replay_as_text(const ReplayReport& report, const std::optional<Expectation>& expectation,
                           const ReplayTextStyle& style);

// The parts that the report draws as a page too.

// What every rank saw and chose, in the words of kRankColumns; equal ranks are one group, in the order of their first.
inline constexpr std::array<std::string_view, 7> kRankColumns = {"mode", "tokens", "view",  "path",
                                                                 "rows", "R",      "branch"};
inline constexpr std::size_t kColumnOfR = 5;
struct RankGroup {
  std::vector<std::string> cells;
  std::vector<std::size_t> ranks;
};
std::vector<RankGroup> rank_groups(const ReplayedStep& step);
// As lines of text, at most so many groups.
std::vector<std::string> rank_table(const ReplayedStep& step, std::size_t most);
// "3 agrees, 1 corrupt": of several files, the gravest first.
std::string verdict_counts(std::span<const Verdict> verdicts);
std::string_view verdict_in_words(const ReplayReport& report);
bool is_output(const Finding& found);
// "4 tokens can be wrong under some order of the slots, ..: rank 0: 1..3; rank 2: 0"; empty: none can.
std::string tokens_in_doubt(const ReplayedStep& step);
// The row behind a bad output, or nullptr.
const Finding* row_behind(const ReplayedStep& step, const Finding& output);

// Of one file: the steps that are done, and how far the one in progress is.
std::string progress_words(std::string_view file, const ReplayProgress& progress);

// One object; the keys are in tools/docs/json.md.
nlohmann::ordered_json replay_as_json(const ReplayReport& report, const std::optional<Expectation>& expectation);

}  // namespace a2asim
