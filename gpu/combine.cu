// Combine's entry point, and the wait that goes before it where a peer is on another device.
#include "gpu/combine.cuh"

namespace a2asim::gpu {

int launch_combine_bfloat16(const LaunchArgs& args, int top_k, Stream stream);
int launch_combine_float16(const LaunchArgs& args, int top_k, Stream stream);
int launch_combine_float32(const LaunchArgs& args, int top_k, Stream stream);
int launch_combine_float8_e4m3(const LaunchArgs& args, int top_k, Stream stream);

namespace {

// One block, so that a launch that still has to signal always finds room on a shared device.
__global__ void meet_kernel(const __grid_constant__ LaunchArgs args) { meet_for_combine(args); }

}  // namespace

int launch_meet(const LaunchArgs& args, Stream stream) { return start({1, 256, stream, false}, meet_kernel, args); }

int launch_combine(const LaunchArgs& args, NumberType type, int top_k, Stream stream) {
  switch (type) {
    case NumberType::bfloat16:
      return launch_combine_bfloat16(args, top_k, stream);
    case NumberType::float16:
      return launch_combine_float16(args, top_k, stream);
    case NumberType::float32:
      return launch_combine_float32(args, top_k, stream);
    case NumberType::float8_e4m3:
      return launch_combine_float8_e4m3(args, top_k, stream);
  }
  return cudaErrorInvalidValue;
}

}  // namespace a2asim::gpu
