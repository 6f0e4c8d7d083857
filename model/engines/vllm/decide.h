// A step of vLLM: every replica proposes its count, all agree on the list, each runs a graph or eagerly, and its ranks
// give dispatch the largest entry.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "model/engines/vllm/deployment.h"
#include "model/step/decider.h"

namespace a2asim::vllm {

class VllmDecider final : public Decider {
 public:
  // beside: the command of the second half of the replicas, where nodes have commands of their own.
  VllmDecider(const VllmPart& vllm, const Deployment& deployment, const VllmPart* beside = nullptr);

  std::span<const RankDecision> decide(std::span<const RankBatch> batches, GraphChoice graph,
                                       std::span<const RankFault> faults) override;
  std::span<const std::int64_t> counts() const override { return counts_; }
  std::optional<std::span<const std::int64_t>> dp_global(std::size_t ep_rank) const override;
  std::vector<std::int64_t> gather_sizes(std::size_t ep_rank) const override;

 private:
  const VllmPart& part_of(std::size_t dp_rank) const {
    return beside_ != nullptr && dp_rank >= dp_ranks_ / 2 ? *beside_ : vllm_;
  }
  ScheduledRank scheduled(const RankBatch& batch, std::int64_t width) const;
  void run_v1(bool eager);
  void run_v2(bool eager);
  void decide_rank(std::size_t ep_rank, const RankBatch& batch, const RankFault* fault);
  // The list as an expert-parallel rank sees it, with what a fault makes of it.
  std::span<std::int64_t> list_of(std::size_t ep_rank, const RankFault* fault);
  void size(std::size_t ep_rank, RankDecision& out);

  const VllmPart& vllm_;
  const VllmPart* beside_;
  const Deployment& deployment_;
  std::size_t dp_ranks_, ranks_per_replica_;
  std::vector<Candidates> candidates_;  // this and the next: one, or one a replica
  std::vector<StepInputs> inputs_, eager_inputs_;
  std::vector<ScheduledRank> scheduled_;
  std::vector<ScheduledRankV2> scheduled_v2_;
  std::vector<Proposal> proposals_;
  std::vector<DecidedRank> decided_;
  std::vector<Candidate> decided_v2_;
  std::vector<std::int64_t> counts_, list_, previous_list_;
  std::vector<std::int64_t> lists_;  // [ep rank, dp rank]
  std::vector<RankDecision> decisions_;
  bool any_extends_ = false, any_work_ = false;
};

}  // namespace a2asim::vllm
