// Communicator of model/alltoall.h over NCCL: the scheduler's all-gather of counts between devices.
//
// NCCL has one rank a device (it refuses two on one GPU); ranks that share a device are folded into its contribution,
// in rank order, and unfolded on receipt. Ranks are spread over the devices as in CudaAllToAll: equal consecutive
// blocks. All devices belong to this process.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "model/alltoall.h"

namespace a2asim::gpu {

class NcclCommunicator final : public Communicator {
 public:
  // world_size ranks, all local; devices: distinct CUDA ordinals, at most world_size.
  static Result<std::unique_ptr<NcclCommunicator>> create(int world_size, std::span<const int> devices);
  ~NcclCommunicator() override;

  std::span<const int> local_ranks() const override { return local_ranks_; }
  Result<std::vector<std::int64_t>> all_gather(std::span<const std::int64_t> rows, int width) override;

 private:
  struct Device;
  NcclCommunicator();
  Result<void> exchange(std::span<const std::int64_t> rows, std::size_t width);
  std::size_t rows_of_device(std::size_t device) const { return first_rank_[device + 1] - first_rank_[device]; }
  std::size_t most_rows() const;

  std::vector<int> local_ranks_;
  std::vector<std::size_t> first_rank_;  // [devices + 1]
  std::vector<std::unique_ptr<Device>> devices_;
};

}  // namespace a2asim::gpu
