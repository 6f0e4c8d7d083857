// NCCL between the devices of one process, on host memory: what a group holds is done when it ends.
#if defined(A2ASIM_HAS_NCCL)
#include <nccl.h>
#include <nccl_device.h>

#include <cstring>
#include <functional>
#include <map>
#include <vector>

#include "gpu/nccl_world.h"
#include "model/alltoall/number_types.h"
#include "tests/fake_gpu/fake_gpu.h"

struct ncclComm {
  int rank = 0, size = 1;
};

namespace {

enum class What { send, receive, all_gather, reduce_scatter, all_to_all, window };

struct Operation {
  What what;
  ncclComm_t comm;
  const void* from = nullptr;
  void* to = nullptr;
  std::size_t count = 0;
  ncclDataType_t type = ncclInt8;
  int peer = 0;
  cudaStream_t stream = nullptr;
  ncclWindow_t* window = nullptr;
};

thread_local int depth = 0;
thread_local std::vector<Operation> operations;
std::map<ncclWindow_t, std::vector<void*>>& windows() {
  static auto& one = *new std::map<ncclWindow_t, std::vector<void*>>;
  return one;
}

std::size_t bytes_of(ncclDataType_t type) {
  return type == ncclInt64 ? 8 : type == ncclFloat32 ? 4 : type == ncclBfloat16 || type == ncclFloat16 ? 2 : 1;
}

template <class Number>
void add(const std::vector<const Operation*>& all, const Operation& own) {
  using Storage = typename Number::Storage;
  std::vector<Storage> sums(own.count);
  for (std::size_t i = 0; i < own.count; ++i) {
    float sum = 0;
    for (const Operation* one : all)
      sum += Number::load(
          static_cast<const Storage*>(one->from)[static_cast<std::size_t>(own.comm->rank) * own.count + i]);
    sums[i] = Number::store(sum);
  }
  std::memcpy(own.to, sums.data(), own.count * sizeof(Storage));
}

// One collective call, [rank].
void collective(const std::vector<const Operation*>& all) {
  const Operation& first = *all[0];
  const std::size_t bytes = first.count * bytes_of(first.type);
  std::vector<std::vector<char>> given;
  for (const Operation* one : all) {
    const std::size_t size = bytes * (one->what == What::all_to_all ? all.size() : 1);
    given.emplace_back(static_cast<const char*>(one->from), static_cast<const char*>(one->from) + size);
  }
  for (const Operation* one : all) {
    const auto own = static_cast<std::size_t>(one->comm->rank);
    for (std::size_t r = 0; r < all.size(); ++r) {
      char* to = static_cast<char*>(one->to) + r * bytes;
      if (one->what == What::all_gather) std::memcpy(to, given[r].data(), bytes);
      if (one->what == What::all_to_all) std::memcpy(to, given[r].data() + own * bytes, bytes);
    }
  }
  if (first.what != What::reduce_scatter) return;
  std::vector<std::vector<char>> inputs;
  std::vector<Operation> copies;
  for (const Operation* one : all) {
    const char* from = static_cast<const char*>(one->from);
    inputs.emplace_back(from, from + bytes * all.size());
    copies.push_back(*one);
  }
  std::vector<const Operation*> unharmed;
  for (std::size_t r = 0; r < all.size(); ++r) {
    copies[r].from = inputs[r].data();
    unharmed.push_back(&copies[r]);
  }
  for (const Operation* one : all) {
    if (one->type == ncclFloat32) add<a2asim::Float32>(unharmed, *one);
    if (one->type == ncclBfloat16) add<a2asim::Bfloat16>(unharmed, *one);
  }
}

ncclResult_t run_group() {
  std::map<const ncclComm*, std::vector<const Operation*>> by_comm;
  std::map<std::pair<int, int>, std::vector<const Operation*>> sends, receives;
  for (const Operation& one : operations) {
    if (one.stream != nullptr) cudaStreamSynchronize(one.stream);
    if (one.what == What::send)
      sends[{one.comm->rank, one.peer}].push_back(&one);
    else if (one.what == What::receive)
      receives[{one.peer, one.comm->rank}].push_back(&one);
    else
      by_comm[one.comm].push_back(&one);
  }
  for (const auto& [pair, list] : receives) {
    const auto& from = sends[pair];
    if (from.size() != list.size()) return ncclInvalidUsage;
    for (std::size_t i = 0; i < list.size(); ++i) {
      if (from[i]->count != list[i]->count) return ncclInvalidArgument;
      std::memcpy(list[i]->to, from[i]->from, list[i]->count * bytes_of(list[i]->type));
    }
    sends.erase(pair);
  }
  if (!sends.empty()) return ncclInvalidUsage;
  const std::size_t calls = by_comm.empty() ? 0 : by_comm.begin()->second.size();
  for (std::size_t call = 0; call < calls; ++call) {
    std::vector<const Operation*> all(by_comm.size());
    for (const auto& [comm, list] : by_comm) {
      if (comm->size != static_cast<int>(by_comm.size()) || list.size() != calls) return ncclInvalidUsage;
      all[static_cast<std::size_t>(comm->rank)] = list[call];
    }
    if (all[0]->what != What::window) {
      collective(all);
      continue;
    }
    std::vector<void*> memory;
    for (const Operation* one : all) memory.push_back(one->to);
    for (const Operation* one : all) {
      *one->window = new ncclWindow_vidmem;
      windows()[*one->window] = memory;
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
ncclResult_t ncclCommAbort(ncclComm_t) { return ncclSuccess; }
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
ncclResult_t ncclSend(const void* from, size_t count, ncclDataType_t type, int peer, ncclComm_t comm,
                      cudaStream_t stream) {
  return add_operation({What::send, comm, from, nullptr, count, type, peer, stream, nullptr});
}
ncclResult_t ncclRecv(void* to, size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) {
  return add_operation({What::receive, comm, nullptr, to, count, type, peer, stream, nullptr});
}
ncclResult_t ncclAllGather(const void* from, void* to, size_t count, ncclDataType_t type, ncclComm_t comm,
                           cudaStream_t stream) {
  return add_operation({What::all_gather, comm, from, to, count, type, 0, stream, nullptr});
}
ncclResult_t ncclAlltoAll(const void* from, void* to, size_t count, ncclDataType_t type, ncclComm_t comm,
                          cudaStream_t stream) {
  return add_operation({What::all_to_all, comm, from, to, count, type, 0, stream, nullptr});
}
ncclResult_t ncclReduceScatter(const void* from, void* to, size_t count, ncclDataType_t type, ncclRedOp_t,
                               ncclComm_t comm, cudaStream_t stream) {
  return add_operation({What::reduce_scatter, comm, from, to, count, type, 0, stream, nullptr});
}
ncclResult_t ncclMemAlloc(void** memory, size_t bytes) {
  return cudaMalloc(memory, bytes) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}
ncclResult_t ncclMemFree(void* memory) {
  return cudaFree(memory) == cudaSuccess ? ncclSuccess : ncclUnhandledCudaError;
}
ncclResult_t ncclCommWindowRegister(ncclComm_t comm, void* memory, size_t bytes, ncclWindow_t* window, int) {
  return add_operation({What::window, comm, nullptr, memory, bytes, ncclInt8, 0, nullptr, window});
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
