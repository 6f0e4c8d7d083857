// What `explore` and `merge` print, and how shards are read back.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "sim/explore/explore.h"

namespace a2asim {

// A part of an exploration: configurations whose ordinal is `index` modulo `of`.
struct Shard {
  std::int64_t index = 0;
  std::int64_t of = 1;
  bool operator==(const Shard&) const = default;
};

inline constexpr std::int64_t kMostShards = 1'000'000;

struct ExploreReport {
  std::vector<GenerationExploration> generations;  // oldest first
  std::string engine;                              // whose versions they are
  std::optional<std::string> rule;                 // of --rule-cmd, or the whole option that names a checkout
  std::optional<std::string> answered;             // of a checkout: which kinds it answers
  std::optional<std::int64_t> budget_cases;        // of each generation
  std::optional<Shard> shard;

  std::int64_t cases() const;
  bool has_error() const;
};

// "--rule-cmd 'python3 rule.py'", "--sglang-source DIR".
std::string rule_as_option(const std::string& rule);
// "v0.5.13", the first release with these rules; "pr29461", where no release has them.
std::string version_label(const ExploreReport& report, const GenerationExploration& generation);
bool has_error(const GenerationExploration& generation);
// "an error in 3 of 5 versions; none in v0.5.14, v0.5.16"; of one version: "some launches are unsafe in v0.5.13".
std::string errors_in_words(const ExploreReport& report);

// A witness of a cell of the matrix, with its place there.
struct PlacedWitness {
  const GenerationExploration* generation = nullptr;
  std::size_t exploring_class = 0;
  ExploreOutcome outcome = ExploreOutcome::safe;
  bool worst = false;  // of its cell
  const ExploreWitness* witness = nullptr;
};
// By generation; classes without a rare setting (ExploreExtra) come first.
std::vector<PlacedWitness> witnesses(const ExploreReport& report);
// The classes of the matrix in that order.
std::vector<std::size_t> classes_in_order();

// The name of the file in which a witness is written with --out.
std::string file_name(const PlacedWitness& placed);

// The matrix of each generation, one line for each bad cell, and the smallest error as a scenario.
// out: where the scenarios were written, or empty.
std::string explore_as_text(const ExploreReport& report, const std::string& out);
// One object; the keys are in tools/docs/json.md.
std::string explore_as_json(const ExploreReport& report);
std::string explore_as_sarif(const ExploreReport& report);

// What explore_as_json wrote. `file` names the text in the error (bad_input, one line).
Result<ExploreReport> read_explore_json(const std::string& text, const std::string& file);

// Prints, writes scenario files and gives the exit code: the end of both commands.
struct ExploreOutput {
  std::string format = "text";
  std::optional<std::string> directory;
  std::optional<std::string> page;  // the path, and the page to write there
  std::string html;
  std::vector<std::string> inputs;  // that no output may replace
};
struct Io;
Result<int> deliver(const ExploreReport& report, const ExploreOutput& output, Io& io);

}  // namespace a2asim
