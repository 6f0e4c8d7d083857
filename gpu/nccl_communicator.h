// Communicator of model/alltoall/alltoall.h over NCCL: the scheduler's all-gather of counts between devices.
//
// NCCL has one rank a device (it refuses two on one GPU); ranks that share a device are folded into its contribution,
// in rank order, and unfolded on receipt. Ranks are spread over the devices of all processes as in CudaAllToAll.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "gpu/device_memory.h"
#include "gpu/nccl_world.h"
#include "model/alltoall/alltoall.h"

namespace a2asim::gpu {

#if defined(A2ASIM_HAS_NCCL)

class NcclCommunicator final : public Communicator {
 public:
  // devices: of this process, distinct; at most world_size in all. group: the other processes, which call too.
  static Result<std::unique_ptr<NcclCommunicator>> create(int world_size, std::span<const int> devices,
                                                          ProcessGroup* group = nullptr);

  std::span<const int> local_ranks() const override { return local_ranks_; }
  Result<std::vector<std::int64_t>> all_gather(std::span<const std::int64_t> rows, int width) override;
  const std::shared_ptr<NcclWorld>& world() const { return world_; }

 private:
  struct Device {
    OwnedStream stream;
    DeviceMemory send, receive;
    std::size_t capacity = 0;  // int64s of the send buffer
  };
  NcclCommunicator() = default;
  Result<void> reserve(std::size_t local_place, std::size_t count);
  Result<void> exchange(std::span<const std::int64_t> rows, std::size_t width);
  Result<std::vector<std::int64_t>> unfold(std::size_t local_place, std::size_t width);
  std::size_t num_places() const { return first_rank_.size() - 1; }
  std::size_t rows_of(std::size_t place) const { return first_rank_[place + 1] - first_rank_[place]; }
  std::size_t most_rows() const;

  std::shared_ptr<NcclWorld> world_;
  std::vector<int> local_ranks_;
  std::vector<std::size_t> first_rank_;  // [places + 1]
  std::vector<Device> devices_;          // by local place
};

#endif

}  // namespace a2asim::gpu
