// Starting kernels: grid sizes that fit the device, and programmatic dependent launch.
#pragma once

#include <cuda_runtime.h>

#include <climits>

#include "gpu/launch.h"

namespace a2asim::gpu {

struct LaunchShape {
  dim3 blocks;
  int threads = 0;
  Stream stream = nullptr;
  bool overlaps_previous = false;  // the kernel calls wait_for_previous_kernel
  std::size_t shared_bytes = 0;    // dynamic
  LaunchShape(int blocks_x, int threads, Stream stream, bool overlaps)
      : blocks(static_cast<unsigned>(blocks_x)), threads(threads), stream(stream), overlaps_previous(overlaps) {}
  LaunchShape(dim3 blocks, int threads, Stream stream, bool overlaps)
      : blocks(blocks), threads(threads), stream(stream), overlaps_previous(overlaps) {}
};

inline int device_attribute(cudaDeviceAttr attribute) {
  int device = 0, value = 0;
  if (cudaGetDevice(&device) != cudaSuccess) return 0;
  return cudaDeviceGetAttribute(&value, attribute, device) == cudaSuccess ? value : 0;
}

template <class... Parameters, class... Arguments>
int start(const LaunchShape& shape, void (*kernel)(Parameters...), const Arguments&... arguments) {
  cudaLaunchAttribute overlap = {};
  overlap.id = cudaLaunchAttributeProgrammaticStreamSerialization;
  overlap.val.programmaticStreamSerializationAllowed = 1;
  cudaLaunchConfig_t config = {};
  config.gridDim = shape.blocks;
  config.blockDim = dim3(static_cast<unsigned>(shape.threads));
  config.dynamicSmemBytes = shape.shared_bytes;
  config.stream = shape.stream;
  config.attrs = &overlap;
  // Devices before 9.0 do not know it, and their kernels do not wait (protocol.cuh).
  const bool overlaps = shape.overlaps_previous && device_attribute(cudaDevAttrComputeCapabilityMajor) >= 9;
  config.numAttrs = overlaps ? 1 : 0;
  return cudaLaunchKernelEx(&config, kernel, arguments...);
}

template <class... Parameters>
int load(void (*kernel)(Parameters...)) {
  cudaFuncAttributes loaded;
  return cudaFuncGetAttributes(&loaded, kernel);
}

inline int multiprocessors() { return device_attribute(cudaDevAttrMultiProcessorCount); }

// How many blocks of this kernel the current device holds at once.
template <class... Parameters>
int resident_blocks(void (*kernel)(Parameters...), int threads, std::size_t shared_bytes = 0) {
  int per_multiprocessor = 0;
  if (cudaOccupancyMaxActiveBlocksPerMultiprocessor(&per_multiprocessor, kernel, threads, shared_bytes) != cudaSuccess)
    return 0;
  return per_multiprocessor * multiprocessors();
}

}  // namespace a2asim::gpu
