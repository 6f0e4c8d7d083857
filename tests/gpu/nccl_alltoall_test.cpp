// The two-sided baselines: the same slices and outputs by ncclSend and ncclRecv, and the same sums by all-gather and
// reduce-scatter.
#if defined(A2ASIM_HAS_NCCL)
#include "gpu/nccl_alltoall.h"

#include <cmath>

#include "gpu_world.h"

namespace a2asim::test {
namespace {

Result<std::unique_ptr<AllToAll>> make(const AllToAllConfig& config, gpu::TwoSided way, int gpus) {
  std::vector<int> devices;
  for (int device = 0; device < gpus; ++device) devices.push_back(device);
  auto made = gpu::NcclAllToAll::create(std::span(&config, 1), way, devices);
  if (!made) return tl::unexpected(made.error());
  return std::unique_ptr<AllToAll>(std::move(*made));
}

std::vector<int> numbers_of_gpus() {
  std::vector<int> all;
  const int usable = gpu::usable_devices().value_or(0);
  for (const int gpus : {1, 2, 4, 8}) {
    if (gpus <= usable) all.push_back(gpus);
  }
  return all;
}

TEST_CASE("two-sided: send and receive leave the same slices and outputs") {
  if (skip_without_device()) return;
  for (const int gpus : numbers_of_gpus()) {
    CAPTURE(gpus);
    for (const AllToAllConfig& config : {usual_config(8, 4, 32, 60, 256), usual_config(8, 3, 11, 20, 48)}) {
      World world({config}, make(config, gpu::TwoSided::send_recv, gpus));
      run_rounds(world, 51, 3);
    }
    World world({usual_config(8, 4, 18, 32, 64)}, make(usual_config(8, 4, 18, 32, 64), gpu::TwoSided::send_recv, gpus));
    run_graphs(world, 52);
  }
}

TEST_CASE("two-sided: ranks that disagree on R are served all the same") {
  if (skip_without_device()) return;
  for (const int gpus : numbers_of_gpus()) {
    if (gpus < 2) continue;
    const AllToAllConfig config = usual_config(gpus, 1, gpus, 64, 64);
    auto made = make(config, gpu::TwoSided::send_recv, gpus);
    REQUIRE_MESSAGE(made.has_value(), (made ? std::string() : made.error().message));
    Random random(53);
    const auto inputs = draw_inputs(random, config, std::vector<std::int64_t>(static_cast<std::size_t>(gpus), 5));
    std::vector<DispatchInput> views = views_of(inputs, 8);
    std::vector<std::int64_t> runtime_max(views.size(), 8);
    views[1].runtime_max_tokens_per_rank = runtime_max[1] = 32;
    std::vector<std::vector<std::byte>> outputs;
    World::ok((*made)->dispatch(views));
    World::ok((*made)->experts(kUsual));
    World::ok((*made)->combine(runtime_max, outputs));
    HostReference reference(std::vector<AllToAllConfig>(static_cast<std::size_t>(gpus), config));
    reference.dispatch(views_of(inputs, 8));
    reference.experts(kUsual);
    reference.combine(std::vector<std::int64_t>(views.size(), 8));
    for (int rank = 0; rank < gpus; ++rank)
      CHECK(difference(outputs[static_cast<std::size_t>(rank)], reference.output(rank)) == "");
  }
}

TEST_CASE("two-sided: all-gather and reduce-scatter give the same sums but for rounding") {
  if (skip_without_device()) return;
  for (const int gpus : numbers_of_gpus()) {
    CAPTURE(gpus);
    const AllToAllConfig config = usual_config(gpus, 4, 4 * gpus, 33, 64, DataType::float32);
    auto made = make(config, gpu::TwoSided::all_gather, gpus);
    REQUIRE_MESSAGE(made.has_value(), (made ? std::string() : made.error().message));
    Random random(54);
    const auto ranks = static_cast<std::size_t>(gpus);
    auto inputs = draw_inputs(random, config, std::vector<std::int64_t>(ranks, 20));
    for (RankInput& input : inputs) {  // random bits are no numbers to compare sums of
      for (std::size_t i = 0; i + 4 <= input.payloads[0].size(); i += 4) {
        const float value = static_cast<float>(random.between(-1000, 1000)) / 250.0F;
        std::memcpy(input.payloads[0].data() + i, &value, 4);
      }
    }
    HostReference reference(std::vector<AllToAllConfig>(ranks, config));
    reference.dispatch(views_of(inputs, 33));
    reference.experts(kUsual);
    reference.combine(std::vector<std::int64_t>(ranks, 33));
    std::vector<std::vector<std::byte>> outputs;
    World::ok((*made)->dispatch(views_of(inputs, 33)));
    World::ok((*made)->sanitize(-1));
    World::ok((*made)->experts(kUsual));
    World::ok((*made)->combine(std::vector<std::int64_t>(ranks, 33), outputs));
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      const auto& wanted = reference.output(static_cast<int>(rank));
      REQUIRE(outputs[rank].size() == wanted.size());
      double largest_error = 0;
      for (std::size_t i = 0; i + 4 <= wanted.size(); i += 4) {
        float a = 0, b = 0;
        std::memcpy(&a, outputs[rank].data() + i, 4);
        std::memcpy(&b, wanted.data() + i, 4);
        largest_error = std::max(largest_error, std::abs(static_cast<double>(a) - static_cast<double>(b)));
      }
      CHECK(largest_error < 1e-4);
    }
    // Other sizes on one rank are refused: everybody's rows are gathered with one R.
    if (gpus < 2) continue;
    std::vector<DispatchInput> views = views_of(inputs, 33);
    views[1].runtime_max_tokens_per_rank = 32;
    const auto refused = (*made)->dispatch(views);
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().message.find("rank 0 and rank 1 have different") != std::string::npos);
  }
  CHECK_FALSE(make(usual_config(2, 1, 2, 4, 8), gpu::TwoSided::all_gather, 1).has_value());
}

TEST_CASE("two-sided: calls out of turn and inputs that do not fit are refused, and the next round works") {
  if (skip_without_device()) return;
  const AllToAllConfig config = usual_config(2, 1, 4, 8, 16);
  for (const gpu::TwoSided way : {gpu::TwoSided::send_recv, gpu::TwoSided::all_gather}) {
    if (way == gpu::TwoSided::all_gather && gpu::usable_devices().value_or(0) < 2) continue;
    auto made = make(config, way, way == gpu::TwoSided::all_gather ? 2 : 1);
    REQUIRE_MESSAGE(made.has_value(), (made ? std::string() : made.error().message));
    Random random(55);
    const auto inputs = draw_inputs(random, config, {3, 4});
    std::vector<std::vector<std::byte>> outputs;
    const std::vector<std::int64_t> sizes(2, 8);
    const Error early = {ErrorKind::assertion_error, "combine before dispatch"};
    const auto combined = [&](const std::vector<std::int64_t>& with) { return (*made)->combine(with, outputs); };
    CHECK(combined(sizes) == tl::unexpected(early));
    CHECK(combined({}) == tl::unexpected(early));
    std::vector<DispatchInput> views = views_of(inputs, 8);
    const auto too_few = (*made)->dispatch(std::span(views).first(1));
    REQUIRE_FALSE(too_few.has_value());
    CHECK(too_few.error().message == "1 inputs for 2 local ranks");
    CHECK(combined(sizes) == tl::unexpected(early));
    World::ok((*made)->dispatch(views));
    World::ok((*made)->experts(kUsual));
    for (const std::vector<std::int64_t>& other : {std::vector<std::int64_t>{}, {8}, {8, 7}, {8, 8, 8}}) {
      const auto refused = combined(other);
      REQUIRE_FALSE(refused.has_value());
      CHECK(refused.error().kind == ErrorKind::bad_input);
    }
    World::ok(combined(sizes));
    CHECK(combined(sizes) == tl::unexpected(early));
    CHECK(outputs.size() == 2);
  }
}

}  // namespace
}  // namespace a2asim::test
#endif
