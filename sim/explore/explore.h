// Exploring: every batch of every configuration of a bounded space, in order of size, judged by integers alone.
//
// A case is one batch on one configuration. The answer is the safety matrix (class of configurations x phase) with
// counts, and for each kind of trouble the first case that shows it, which is a smallest one. It depends on nothing but
// generation, rule, shard and budget in cases: not on threads or time.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "model/check/check.h"
#include "sim/explore/explore_space.h"

namespace a2asim {

// What became of a case; a cell of the matrix shows the last of these that occurs in it.
enum class ExploreOutcome : std::uint8_t {
  unused,     // no rank enters the all-to-all
  safe,       // all ranks derive one R, and it fits
  wasteful,   // safe, and R is at least four times the rows of the fullest rank
  refused,    // every rank refuses with an error: a note
  over_cap,   // the same, because R exceeds the cap
  overflow,   // a rank has more rows than R, and nothing checks it
  disagrees,  // ranks derive different R, or some refuse while the others wait for them
};
inline constexpr std::size_t kExploreOutcomes = 7;
std::string_view name(ExploreOutcome outcome);  // "safe", "disagrees", ..
constexpr bool is_error(ExploreOutcome outcome) { return outcome >= ExploreOutcome::overflow; }

inline constexpr std::array<Phase, 4> kExplorePhases = {Phase::eager_decode, Phase::graph_decode, Phase::verify,
                                                        Phase::prefill};

// The first case with an outcome. Compared by its place in the order of size. The batch that it shows is that case's
// with every count as small as the outcome allows.
struct ExploreWitness {
  std::int64_t configuration = 0;
  std::int64_t batch = 0;
  std::int64_t needed = 0;  // the largest R wanted, or rows, of all batches of the phase on the configuration
  std::int64_t ranks = 0;   // of the configuration: tp_size
  CheckFinding finding;     // with the reasons in words, and the batch
  std::string scenario;     // YAML for `replay`

  bool comes_before(const ExploreWitness& other) const {
    return configuration != other.configuration ? configuration < other.configuration : batch < other.batch;
  }
};

struct ExploreCell {
  std::array<std::int64_t, kExploreOutcomes> cases{};
  std::array<std::optional<ExploreWitness>, kExploreOutcomes> witness;  // from wasteful on

  std::int64_t total() const;
  std::optional<ExploreOutcome> outcome() const;  // the worst; nothing without a case
};

struct ExploreClass {
  std::int64_t configurations = 0;
  std::int64_t refused_configurations = 0;  // at the start, or at their first decode or prefill
  std::int64_t refusal_at = -1;             // the first of them, and what it says
  std::string refusal;
  std::array<ExploreCell, kExplorePhases.size()> cells;
};

struct GenerationExploration {
  std::string generation;
  std::int64_t space = 0;           // configurations of the whole space
  std::int64_t configurations = 0;  // of these, how many were explored here
  std::int64_t cases = 0;
  std::optional<std::int64_t> stopped_at;  // the configuration before which a stop from outside came
  std::array<ExploreClass, kExploreClasses> classes;

  // The smallest case that is an error, of launches without a rare setting (ExploreExtra) where they have one.
  const ExploreWitness* first_error() const;
  std::int64_t count(ExploreOutcome outcome) const;
};

// Of the scenario of a witness, and of its file.
std::string witness_name(std::string_view generation, std::size_t exploring_class, Phase phase, ExploreOutcome outcome);

// Adds what another shard found. bad_input when they are not of one generation and space, or count more than
// kMostCases.
inline constexpr std::int64_t kMostCases = std::int64_t{1} << 53;  // exact in every reader of JSON
Result<void> add(GenerationExploration& into, const GenerationExploration& part);

struct ExploreOptions {
  SizingRule rule;                           // of the user's own; called from several threads
  std::optional<std::int64_t> budget_cases;  // the first so many of the whole order
  std::int64_t shard = 0;                    // takes the configurations whose ordinal is `shard` modulo `shards`
  std::int64_t shards = 1;
  int threads = 1;
  // Called after every few configurations, by one thread at a time; false stops. done and all count configurations.
  std::function<bool(std::int64_t done, std::int64_t all)> on_progress;
};

GenerationExploration explore(const Version& generation, const ExploreOptions& options);

}  // namespace a2asim
