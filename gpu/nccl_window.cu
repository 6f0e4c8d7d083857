// The addresses behind a window, by NCCL's device API.
#if defined(A2ASIM_HAS_NCCL)
#include <nccl.h>
#include <nccl_device.h>

#include "gpu/launch_config.cuh"

namespace a2asim::gpu {
namespace {

__global__ void window_addresses_kernel(ncclWindow_t window, int num_places, void** pointers) {
  const int place = static_cast<int>(threadIdx.x);
  if (place < num_places) pointers[place] = ncclGetPeerPointer(window, 0, place);
}

}  // namespace

int launch_window_addresses(ncclWindow_t window, int num_places, void** pointers, cudaStream_t stream) {
  constexpr int threads = 64;  // kMaxRanks: there are no more places than ranks
  if (num_places > threads) return cudaErrorInvalidValue;
  return start({1, threads, stream, false}, window_addresses_kernel, window, num_places, pointers);
}

}  // namespace a2asim::gpu
#endif
