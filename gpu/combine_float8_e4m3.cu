#include "gpu/combine.cuh"

namespace a2asim::gpu {

int launch_combine_float8_e4m3(const LaunchArgs& args, int top_k, const CombineStart& how) {
  return combine_of_type<NumberType::float8_e4m3>(args, top_k, how);
}

}  // namespace a2asim::gpu
