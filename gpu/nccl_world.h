// NCCL's communicators, one a place, and the windows through which places reach each other's memory.
//
// NCCL's own calls wait for as long as it takes; here each has a limit. NVLink multicast stays off: nothing here needs
// it, and a GPU that other programs share has to be reset when it goes wrong.
#pragma once

#if defined(A2ASIM_HAS_NCCL)
#include <nccl.h>

#include <chrono>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "gpu/device_memory.h"
#include "gpu/group/placement.h"

namespace a2asim::gpu {

class ProcessGroup;

Result<void> nccl_result(ncclResult_t code, const char* what);

class NcclWorld {
 public:
  // Made once for these places and kept as long as the program runs: it takes a second, and many all-to-alls use it.
  static Result<std::shared_ptr<NcclWorld>> get(const Placement& placement, ProcessGroup* group,
                                                std::chrono::milliseconds limit);

  const Placement& placement() const { return placement_; }
  int device(std::size_t local_place) const { return placement_.places[placement_.first_local + local_place].device; }
  ncclComm_t comm(std::size_t local_place) const { return comms_[local_place]; }
  bool is_broken() const { return broken_; }

  // Runs a call of NCCL's that may wait for other processes, on a thread of its own; what it uses must stay alive.
  Result<void> bounded(const char* what, std::function<ncclResult_t()> call);
  // One call a local place in one group, and its launch.
  Result<void> grouped(const char* what, const std::function<ncclResult_t(std::size_t local_place)>& call);

 private:
  NcclWorld() = default;
  Result<void> connect(ProcessGroup* group);

  Placement placement_;
  std::chrono::milliseconds limit_{0};
  std::vector<ncclComm_t> comms_;  // by local place
  bool broken_ = false;
};

// Memory of `bytes` at every place, registered as a symmetric window.
class NcclWindows {
 public:
  // Only where loads and stores reach every place; an error otherwise.
  static Result<std::unique_ptr<NcclWindows>> create(std::shared_ptr<NcclWorld> world, std::int64_t bytes);
  ~NcclWindows();
  NcclWindows(const NcclWindows&) = delete;
  NcclWindows& operator=(const NcclWindows&) = delete;

  // [local place][place]: the place's memory as the local place's device addresses it.
  const std::vector<std::vector<std::byte*>>& bases() const { return bases_; }
  // Nobody uses it any more: peers' mappings first, then, when all have done that, the memory.
  void unmap();

 private:
  NcclWindows() = default;
  struct Registered;
  Result<void> resolve(std::size_t local_place);

  std::shared_ptr<NcclWorld> world_;
  std::shared_ptr<Registered> memory_;
  std::vector<std::vector<std::byte*>> bases_;
};

// A kernel that asks NCCL's device API for the addresses: pointers[place], device memory. Returns a cudaError_t.
int launch_window_addresses(ncclWindow_t window, int num_places, void** pointers, cudaStream_t stream);

}  // namespace a2asim::gpu
#endif
