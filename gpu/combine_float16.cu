#include "gpu/combine.cuh"

namespace a2asim::gpu {

int launch_combine_float16(const LaunchArgs& args, int top_k, const CombineStart& how) {
  return combine_of_type<NumberType::float16>(args, top_k, how);
}

}  // namespace a2asim::gpu
