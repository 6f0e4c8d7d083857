// A device that refuses to capture, which no real one does on demand.
#include "tests/fake_gpu/fake_gpu.h"
#include "tests/gpu/gpu_world.h"

namespace a2asim::test {
namespace {

TEST_CASE("a capture that one device refuses leaves the others ready for the next round") {
  gpu::CudaOptions options;
  options.devices = {0, 1};
  options.timeout = std::chrono::milliseconds(2'000);
  const AllToAllConfig config = usual_config(4, 2, 8, 16, 32);
  World world({config}, options);
  Random random(71);
  const std::vector<std::int64_t> sizes(4, 16);
  const auto inputs = draw_inputs(random, config, {16, 16, 16, 16});
  for (const int refuses : {1, 0}) {
    fake::refuse_captures_on(refuses);
    const auto refused = world.device().capture(views_of(inputs, 16), -1, kUsual);
    fake::refuse_captures_on(-1);
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().message.find("beginning a capture") != std::string::npos);
    world.round(inputs, sizes, -1, kUsual);
  }
}

}  // namespace
}  // namespace a2asim::test
