// TensorRT-LLM's iteration: the counts of all ranks are gathered, a graph is agreed on or not, the step is cut into
// chunks. A decision is of the first chunk; later ones have the same R, or one less.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/engines/trtllm/deployment.h"
#include "model/step/decider.h"

namespace a2asim::trtllm {

class TrtllmDecider final : public Decider {
 public:
  TrtllmDecider(const TrtllmPart& part, const Deployment& deployment) : part_(part), deployment_(deployment) {}

  std::span<const RankDecision> decide(std::span<const RankBatch> batches, GraphChoice graph,
                                       std::span<const RankFault> faults) override;
  std::span<const std::int64_t> counts() const override { return counts_; }
  std::optional<std::span<const std::int64_t>> dp_global(std::size_t ep_rank) const override;
  // Of the first chunk in which ranks may differ: one that is empty on some of them.
  std::vector<std::int64_t> gather_sizes(std::size_t ep_rank) const override;
  bool gathers_by_list() const override { return false; }  // each patches its own entry

 private:
  void count(std::span<const RankBatch> batches, std::span<const RankFault> faults);
  void list_of_rank(std::size_t rank, std::span<const RankFault> faults, std::span<const std::int64_t> before);
  std::vector<GraphChoiceOfRank> graphs(std::span<const RankBatch> batches, GraphChoice graph) const;
  void decide_eager(std::size_t rank, RankDecision& decision);
  StepPlan plan(std::size_t rank) const;

  const TrtllmPart& part_;
  const Deployment& deployment_;
  std::vector<std::int64_t> counts_;
  std::vector<Counts> lists_;  // as each rank has it
  std::vector<RankDecision> decisions_;
};

}  // namespace a2asim::trtllm
