// An all-to-all over several processes as if all ranks were local: every process makes the same calls with the inputs
// of all ranks, each drives the ranks that live on its devices, and results go round. For validation and tests, which
// know the whole world; a server would drive CudaAllToAll with its own ranks.
#pragma once

#include <memory>
#include <vector>

#include "gpu/cuda_alltoall.h"
#include "gpu/group/process_group.h"

namespace a2asim::gpu {

class ReplicatedAllToAll final : public AllToAll {
 public:
  // options.group is needed.
  static Result<std::unique_ptr<ReplicatedAllToAll>> create(std::span<const AllToAllConfig> configs,
                                                            const CudaOptions& options);

  using AllToAll::combine;
  std::string_view backend() const override { return "cuda"; }
  std::span<const int> local_ranks() const override { return ranks_; }
  Capabilities capabilities() const override { return own_->capabilities(); }
  Result<void> dispatch(std::span<const DispatchInput> inputs) override;
  Result<void> sanitize(std::int32_t invalid_expert_id) override;
  Result<void> experts(const ExpertPayloads& payloads) override;
  Result<void> give_results(int rank, std::span<const std::byte> rows) override;
  Result<void> combine(std::span<const std::int64_t> runtime_max_tokens_per_rank,
                       std::vector<std::vector<std::byte>>& outputs) override;
  Result<GraphId> capture(std::span<const DispatchInput> inputs, std::int32_t invalid_expert_id,
                          const ExpertPayloads& payloads) override;
  Result<void> replay(std::span<const GraphId> graphs, std::span<const DispatchInput> inputs,
                      std::vector<std::vector<std::byte>>& outputs) override;
  // From the process where the rank lives.
  Result<std::vector<std::byte>> read_slice(int rank) override;
  SliceView slice_view(int rank) const override;
  Result<void> poison(std::byte value) override { return own_->poison(value); }

  void set_active_rank_mask(std::uint64_t mask) { own_->set_active_rank_mask(mask); }
  Result<void> check_red_zones() { return group_->agree(own_->check_red_zones()); }
  const std::string& peer_memory() const { return own_->peer_memory(); }

 private:
  ReplicatedAllToAll() = default;
  // Those of this process, of what is given for all ranks that are driven.
  template <class T>
  Result<std::vector<T>> pick(std::span<const T> all) const;
  Result<void> gather_outputs(std::vector<std::vector<std::byte>>& own,
                              std::vector<std::vector<std::byte>>& outputs) const;

  ProcessGroup* group_ = nullptr;
  std::unique_ptr<CudaAllToAll> own_;
  std::vector<int> ranks_;  // that are driven, by anybody
  std::vector<std::int64_t> runtime_max_;  // of each in the last dispatch
};

}  // namespace a2asim::gpu
