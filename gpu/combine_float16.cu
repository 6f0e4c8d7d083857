#include "gpu/combine.cuh"

namespace a2asim::gpu {

int launch_combine_float16(const LaunchArgs& args, int top_k, Stream stream) {
  return combine_of_type<NumberType::float16>(args, top_k, stream);
}

}  // namespace a2asim::gpu
