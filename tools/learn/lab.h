// Where lessons get their numbers: small deployments, run on the simulated cluster on the spot.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/step/decider.h"
#include "sim/cluster/replay.h"

namespace a2asim {

// What all lessons are run on. `rule` is for tests: with another rule a lesson must say something else.
struct Lab {
  std::vector<std::int64_t> tokens = {3, 1, 0, 5};  // requests of each data-parallel rank
  SizingRule rule;                                  // in place of each version's own; empty in the program

  std::size_t busiest() const;                  // the rank with the most requests
  std::vector<std::int64_t> reordered() const;  // the same counts, one more for each rank, in reverse: for questions
};
// Versions that several lessons compare.
inline constexpr std::string_view kStaticCap = "pr27945";     // every rank uses the cap, and graphs bake it
inline constexpr std::string_view kBucketOfEach = "pr29461";  // graphs bake the rows of each rank
inline constexpr std::string_view kOneBucket = "pr30450";     // one bucket for all

inline constexpr std::size_t kLabRanks = 4;
inline constexpr std::int64_t kLabMaxTokens = 15;  // of a rank: what pictures have room for

// After dispatch: what every slot of a rank's receive buffer holds, as the rank itself reads it, by its own R.
struct ReceiveBuffer {
  int rank = 0;
  std::int64_t runtime_max_tokens_per_rank = 0;
  std::vector<std::vector<RowView>> slots;  // [source][slot]
  std::vector<std::int64_t> received;       // [source]: the receive counter
  std::size_t wrong() const;
};

// A token and the experts that its router chose.
struct RoutedToken {
  int rank = 0;
  std::int64_t token = 0;
  std::vector<std::int32_t> experts;
};

struct Experiment {
  ReplayReport report;
  std::vector<std::vector<ReceiveBuffer>> buffers;  // [step that was not stopped][rank], of the first layer
  std::vector<RoutedToken> tokens;                  // of the first of these steps

  const ReplayedStep& step(std::size_t at = 0) const { return report.steps.at(at); }
  bool ran() const { return !report.steps.empty() && !step().outcome.stopped; }
  std::vector<std::optional<std::int64_t>> sizes(std::size_t at = 0) const;  // R of every rank
  bool agrees(std::size_t at = 0) const;                                     // all ranks have one R
};

// Four ranks with data-parallel attention and eager decode; the collapse is what #27945 is about.
Parallel lab_parallel();
Parallel collapsed(Parallel parallel);
Parallel with_graphs(Parallel parallel);  // of the same buckets in every lesson
Scenario lab_scenario(Parallel parallel, std::vector<Step> steps);
Step decode_step(std::vector<std::int64_t> tokens);

// version: of the scenario's engine, whose rules run. The scenario is one of ours, so that an error is a defect of the
// program.
Experiment run(const Lab& lab, const Scenario& scenario, std::string_view version);
// The deployment behind it, for what is fixed before the first step.
std::unique_ptr<Deployment> deployment_of(const Lab& lab, const Scenario& scenario, std::string_view version);

// --- words and pictures
std::string listed(const std::vector<std::int64_t>& numbers);                 // "[3, 1, 0, 5]"
std::string listed(const std::vector<std::optional<std::int64_t>>& numbers);  // "-" for a rank without
// "all ranks use R = 5", "ranks use different sizes, R = [3, 1, 1, 5]".
std::string sizes_in_words(const Experiment& experiment, std::size_t at = 0);
// One line a source: "2.0" is token 0 of rank 2, "." a slot that nobody wrote, "!" stands behind a wrong one. Marks
// that are not said elsewhere are explained below the picture, if they are in it.
std::vector<std::string> picture_of(const ReceiveBuffer& buffer);
// One strip of a receive buffer as two ranks divide it, a column a slot: the number of a source stands on its first
// slot. Below, where a row of the last source goes astray.
std::vector<std::string> two_sizes(std::int64_t reader, std::int64_t writer);
// "####......  12 of 64": how much of a whole is in use.
std::string bar(std::int64_t part, std::int64_t whole);

}  // namespace a2asim
