// What the benchmarks run: worlds of a given shape, stepped as often as the timer asks.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "sim/alltoall/batch_data.h"
#include "sim/cluster/cluster.h"
#include "sim/cluster/replay_setup.h"
#include "sim/alltoall/sim_alltoall.h"

namespace a2asim::bench {

// Ends the program with one line: a benchmark without its world has nothing to say.
[[noreturn]] void stop(const std::string& why);

// A cluster at geometry fidelity, tp == dp == ranks, with CUDA graphs, on a cycle of drawn batches: three of four steps
// decode, the others prefill on some ranks. step() is one scheduler iteration, from the batches to the verdict.
class GeometryWorld {
 public:
  explicit GeometryWorld(int ranks, std::string_view generation = "pr30450");
  Verdict step();

 private:
  static constexpr std::size_t kSteps = 256;
  ScenarioDeployment deployed_;
  std::unique_ptr<Cluster> cluster_;
  std::size_t ranks_;
  std::size_t next_ = 0;
  std::vector<RankBatch> batches_;  // [kSteps, ranks]
};

struct Shape {
  int ranks = 8;
  std::int64_t tokens = 128;  // a rank; R and the cap as well
  std::int64_t experts = 256;
  int top_k = 8;
  std::int64_t hidden = 64;  // of bfloat16
};

// All ranks' dispatch, sanitize, experts and combine over the simulated memory, with every check of the simulator on.
// Contents alternate between steps, so that a stale row would be seen.
class AllToAllWorld {
 public:
  AllToAllWorld(const Shape& shape, Fidelity fidelity);
  void step();

  std::int64_t pairs() const { return pairs_; }  // (token, distinct destination) of one step
  // What a step copies, as memcpy counts (a byte read and a byte written): rows into receive regions, rows through the
  // experts, and half of what combine reads and writes.
  std::int64_t bytes_copied() const;

 private:
  Shape shape_;
  AllToAllConfig config_;
  std::unique_ptr<SimAllToAll> alltoall_;
  std::vector<TokenBatch> batches_;                 // two a rank
  std::vector<std::vector<DispatchInput>> inputs_;  // [2][ranks]
  std::vector<std::int64_t> runtime_max_;
  std::vector<std::vector<std::byte>> outputs_;
  std::int64_t pairs_ = 0;
  std::size_t round_ = 0;
};

}  // namespace a2asim::bench
