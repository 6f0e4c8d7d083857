// Combine's entry point, and the wait that goes before it where launches share a device.
#include "gpu/combine.cuh"

namespace a2asim::gpu {

int launch_combine_bfloat16(const LaunchArgs& args, int top_k, const CombineStart& how);
int launch_combine_float16(const LaunchArgs& args, int top_k, const CombineStart& how);
int launch_combine_float32(const LaunchArgs& args, int top_k, const CombineStart& how);
int launch_combine_float8_e4m3(const LaunchArgs& args, int top_k, const CombineStart& how);

namespace {

// One block, so that a launch that still has to signal always finds room on a shared device.
__global__ void meet_kernel(const __grid_constant__ LaunchArgs args) {
  wait_for_previous_kernel();
  meet_for_combine(args);
  begin_next_round(args, static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x));
}

}  // namespace

int launch_meet(const LaunchArgs& args, Stream stream) { return start({1, 256, stream, true}, meet_kernel, args); }

namespace {

int start_combine_of(const LaunchArgs& args, NumberType type, int top_k, const CombineStart& how) {
  switch (type) {
    case NumberType::bfloat16:
      return launch_combine_bfloat16(args, top_k, how);
    case NumberType::float16:
      return launch_combine_float16(args, top_k, how);
    case NumberType::float32:
      return launch_combine_float32(args, top_k, how);
    case NumberType::float8_e4m3:
      return launch_combine_float8_e4m3(args, top_k, how);
  }
  return cudaErrorInvalidValue;
}

}  // namespace

int launch_combine(const LaunchArgs& args, NumberType type, int top_k, Stream stream) {
  return start_combine_of(args, type, top_k, {stream, false});
}

int load_combine(const LaunchArgs& args, NumberType type, int top_k) {
  const int meet = load(meet_kernel);
  return meet != cudaSuccess ? meet : start_combine_of(args, type, top_k, {nullptr, true});
}

}  // namespace a2asim::gpu
