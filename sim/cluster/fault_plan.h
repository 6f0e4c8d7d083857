// What a scenario says about one step: its batches, its faults, and what it wants of CUDA graphs.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/step/topology.h"
#include "sim/cluster/cluster.h"
#include "sim/scenario/scenario.h"

namespace a2asim {

// Batches are of data-parallel ranks, faults name expert-parallel ranks.
class FaultPlan {
 public:
  FaultPlan(const Scenario& scenario, const Topology& topology);

  // Fills all of `input` for a step of the file; its spans point into this object until the next call.
  void apply(std::int64_t step, const Step& wanted, StepInput& input);
  // After that step of the cluster: bad_input with the place in the file, if a rank that must replay a graph cannot
  // (`graph: true`, replay_rank). Otherwise such a step would be eager, and would show nothing of what it was written
  // for.
  Result<void> check_replays(std::string_view file, std::int64_t step, const Step& wanted, const StepInput& input,
                             const Cluster& cluster) const;
  // Work of the step that is on no rank that takes part, where nobody is left to wait for it.
  static std::int64_t lost_work(const StepInput& input, const StepOutcome& outcome);

 private:
  bool add(const Fault& fault, StepInput& input);
  template <class Change>
  void for_ranks(const Fault& fault, Change change);

  const Scenario& scenario_;
  std::size_t dp_ranks_;
  std::int64_t ranks_per_replica_;
  std::vector<RankBatch> batches_;
  std::vector<RankFault> faults_;
};

}  // namespace a2asim
