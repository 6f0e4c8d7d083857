// CUDA's runtime on host memory, so that the host side of gpu/ runs where there is no GPU: several devices, several
// processes, streams that run side by side, graphs, IPC handles. Linked in place of libcudart. Kernels are plain loops
// in fake_kernels.cpp. A2ASIM_FAKE_GPUS says how many devices there are; default 2.
//
// What it cannot show: anything about kernels, memory models, or what drivers do.
#pragma once

#include <cuda_runtime_api.h>

#include <functional>

namespace a2asim::fake {

// In stream order, on the stream's own thread; while the stream is captured: into the graph.
void enqueue(cudaStream_t stream, std::function<void()> work);

// Captures that begin while this device is the current one are refused; -1: none are.
void refuse_captures_on(int device);

}  // namespace a2asim::fake
