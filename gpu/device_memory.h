// CUDA's error codes as Results, and owners of device memory, streams and graphs.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include "model/base/result.h"

namespace a2asim::gpu {

inline Result<void> cuda_result(int code, const char* what) {
  if (code == cudaSuccess) return {};
  return fail(ErrorKind::runtime_error,
              std::string("CUDA: ") + what + ": " + cudaGetErrorString(static_cast<cudaError_t>(code)));
}

struct DeviceFree {
  void operator()(std::byte* memory) const { cudaFree(memory); }
};
using DeviceMemory = std::unique_ptr<std::byte, DeviceFree>;

// On the current device; not cleared.
inline Result<DeviceMemory> allocate_device(std::int64_t bytes) {
  void* memory = nullptr;
  const int code = cudaMalloc(&memory, static_cast<std::size_t>(bytes));
  if (code != cudaSuccess) {
    static_cast<void>(cudaGetLastError());  // an allocation that fails leaves the device usable
    return fail(ErrorKind::runtime_error,
                "CUDA: cannot allocate " + std::to_string(bytes) +
                    " bytes of device memory: " + cudaGetErrorString(static_cast<cudaError_t>(code)) +
                    "; use fewer ranks or a smaller max_num_tokens");
  }
  return DeviceMemory(static_cast<std::byte*>(memory));
}

struct StreamDestroy {
  void operator()(cudaStream_t stream) const { cudaStreamDestroy(stream); }
};
using OwnedStream = std::unique_ptr<std::remove_pointer_t<cudaStream_t>, StreamDestroy>;

struct GraphExecDestroy {
  void operator()(cudaGraphExec_t graph) const { cudaGraphExecDestroy(graph); }
};
using OwnedGraphExec = std::unique_ptr<std::remove_pointer_t<cudaGraphExec_t>, GraphExecDestroy>;

}  // namespace a2asim::gpu
