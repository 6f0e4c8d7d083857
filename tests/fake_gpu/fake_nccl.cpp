// NCCL between the devices of one process, on host memory: what a group holds is done when it ends.
#if defined(A2ASIM_HAS_NCCL)
#include <nccl.h>
#include <nccl_device.h>

#include <map>
#include <vector>

#include "gpu/nccl_world.h"
#include "tests/fake_gpu/fake_gpu.h"

struct ncclComm {
  int rank = 0, size = 1;
};

namespace {

// A window that one rank registers.
struct Operation {
  ncclComm_t comm;
  void* memory = nullptr;
  ncclWindow_t* window = nullptr;
};

thread_local int depth = 0;
thread_local std::vector<Operation> operations;
std::map<ncclWindow_t, std::vector<void*>>& windows() {
  static auto& one = *new std::map<ncclWindow_t, std::vector<void*>>;
  return one;
}

ncclResult_t run_group() {
  std::map<int, std::vector<Operation>> by_rank;
  for (const Operation& one : operations) by_rank[one.comm->rank].push_back(one);
  const std::size_t calls = by_rank.empty() ? 0 : by_rank.begin()->second.size();
  for (std::size_t call = 0; call < calls; ++call) {
    std::vector<void*> memory;
    for (const auto& [rank, list] : by_rank) {
      if (list[0].comm->size != static_cast<int>(by_rank.size()) || list.size() != calls) return ncclInvalidUsage;
      memory.push_back(list[call].memory);
    }
    for (const auto& [rank, list] : by_rank) {
      *list[call].window = new ncclWindow_vidmem;
      windows()[*list[call].window] = memory;
    }
  }
  return ncclSuccess;
}

ncclResult_t add_operation(Operation one) {
  operations.push_back(one);
  if (depth > 0) return ncclSuccess;
  const ncclResult_t code = run_group();
  operations.clear();
  return code;
}

}  // namespace

namespace a2asim::gpu {

int launch_window_addresses(ncclWindow_t window, int num_places, void** pointers, cudaStream_t stream) {
  fake::enqueue(stream, [=] {
    for (int place = 0; place < num_places; ++place)
      pointers[place] = windows()[window][static_cast<std::size_t>(place)];
  });
  return cudaSuccess;
}

}  // namespace a2asim::gpu

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  *version = NCCL_VERSION_CODE;
  return ncclSuccess;
}
ncclResult_t ncclGetUniqueId(ncclUniqueId*) { return ncclSuccess; }
const char* ncclGetErrorString(ncclResult_t) { return "an error"; }
const char* ncclGetLastError(ncclComm_t) { return ""; }
ncclResult_t ncclCommInitRank(ncclComm_t* comm, int size, ncclUniqueId, int rank) {
  *comm = new ncclComm{rank, size};
  return ncclSuccess;
}
ncclResult_t ncclGroupStart() {
  ++depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  if (--depth > 0) return ncclSuccess;
  const ncclResult_t code = run_group();
  operations.clear();
  return code;
}
ncclResult_t ncclMemAlloc(void** memory, size_t bytes) {
  return cudaMalloc(memory, bytes) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}
ncclResult_t ncclMemFree(void* memory) {
  return cudaFree(memory) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}
ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* memory, size_t, ncclWindow_t* window, int) {
  return add_operation({comm, memory, window});
}
ncclResult_t ncclCommWindowDeregister(ncclComm_t, ncclWindow_t window) {
  windows().erase(window);
  delete window;
  return ncclSuccess;
}
ncclResult_t ncclDevCommCreate(ncclComm_t comm, const ncclDevCommRequirements_t*, ncclDevComm_t* made) {
  made->lsaSize = comm->size;
  return ncclSuccess;
}
ncclResult_t ncclDevCommDestroy(ncclComm_t, const ncclDevComm_t*) { return ncclSuccess; }

}  // extern "C"
#endif
