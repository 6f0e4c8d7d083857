// One process with several GPUs, by peer access and by NCCL's windows; ranks per GPU one and more.
#include "gpu_world.h"

namespace a2asim::test {
namespace {

// One entry a way to reach peer memory and a number of GPUs that are there; none: skipped, with the reason.
std::vector<gpu::CudaOptions> several_gpus() {
  std::vector<gpu::CudaOptions> all;
  const int usable = gpu::usable_devices().value_or(0);
  for (const int gpus : {2, 4, 8}) {
    if (gpus > usable) continue;
    for (const gpu::PeerMemory way : {gpu::PeerMemory::peer, gpu::PeerMemory::nccl}) {
#if !defined(A2ASIM_HAS_NCCL)
      if (way == gpu::PeerMemory::nccl) continue;
#endif
      gpu::CudaOptions options;
      options.peer_memory = way;
      for (int device = 1; device < gpus; ++device) options.devices.push_back(device);
      all.push_back(options);
    }
  }
  if (all.empty()) {
    skip("needs 2 GPUs, there are " + std::to_string(usable));
  } else if (launches_are_serial()) {
    skip("launches that meet need to run side by side");
    all.clear();
  }
  return all;
}

std::string words(const gpu::CudaOptions& options) {
  return std::to_string(options.devices.size()) + " GPUs, " + std::string(name(options.peer_memory));
}

TEST_CASE("several GPUs: slices and outputs equal the reference") {
  for (const gpu::CudaOptions& options : several_gpus()) {
    CAPTURE(words(options));
    run_rounds(usual_config(8, 4, 32, 200, 256), 31, 3, options);
    run_rounds(usual_config(5, 3, 11, 40, 48), 32, 2, options);
    run_rounds(usual_config(2, 1, 2, 16, 8), 33, 2, options);
    run_rounds(usual_config(64, 8, 128, 12, 64), 34, 2, options);
    for (const DataType type : {DataType::float16, DataType::float32, DataType::float8_e4m3}) {
      run_rounds(usual_config(8, 6, 40, 12, 160, type), 35, 1, options);
    }
  }
}

TEST_CASE("several GPUs: one rank a GPU, few tokens in one kernel and many in three") {
  for (const gpu::CudaOptions& options : several_gpus()) {
    CAPTURE(words(options));
    run_few_and_many(options, 42);
  }
}

TEST_CASE("several GPUs: many rounds in a row") {
  for (const gpu::CudaOptions& options : several_gpus()) {
    CAPTURE(words(options));
    const AllToAllConfig config = usual_config(8, 8, 256, 64, 1024);
    World world({config}, options);
    world.poison(std::byte{0xff});
    Random random(36);
    const auto inputs = draw_inputs(random, config, {64, 0, 7, 64, 1, 50, 33, 64});
    for (int round = 0; round < 30; ++round) world.round(inputs, std::vector<std::int64_t>(8, 64), -1, kUsual);
  }
}

TEST_CASE("several GPUs: capture and replay equal the eager calls") {
  for (const gpu::CudaOptions& options : several_gpus()) {
    CAPTURE(words(options));
    World world({usual_config(4, 4, 18, 32, 64)}, options);
    run_graphs(world, 37);
  }
}

TEST_CASE("several GPUs: a rank that is masked out") {
  for (const gpu::CudaOptions& options : several_gpus()) {
    for (const int dead : {0, 3, 4}) {
      CAPTURE(words(options));
      AllToAllConfig config = usual_config(5, 4, 23, 12, 32);
      config.active_rank_mask = ~(std::uint64_t{1} << dead);
      World world({config}, options);
      world.poison(std::byte{0xff});
      Random random(38);
      for (int round = 0; round < 2; ++round) {
        world.round(draw_inputs(random, config, {12, 7, 12, 0, 3}), std::vector<std::int64_t>(5, 12), -1, kUsual);
      }
    }
  }
}

TEST_CASE("several GPUs: the guard names two ranks of different GPUs, and the next round works") {
  for (const gpu::CudaOptions& options : several_gpus()) {
    CAPTURE(words(options));
    const AllToAllConfig config = usual_config(8, 2, 16, 64, 64);
    World world({config}, options);
    Random random(39);
    const auto inputs = draw_inputs(random, config, std::vector<std::int64_t>(8, 5));
    std::vector<DispatchInput> views = views_of(inputs, 8);
    views[7].runtime_max_tokens_per_rank = 16;
    const auto refused = world.device().dispatch(views);
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().message.find("rank 0 has runtime_max_tokens_per_rank 8, rank 7 has 16") != std::string::npos);
    views[7].runtime_max_tokens_per_rank = 8;
    World::ok(world.device().dispatch(views));
  }
}

TEST_CASE("several GPUs: a missing rank ends the wait of all others") {
  for (gpu::CudaOptions options : several_gpus()) {
    CAPTURE(words(options));
    const AllToAllConfig config = usual_config(8, 2, 8, 8, 32);
    options.local_ranks = {0, 1, 2, 3, 4, 5, 7};
    options.timeout = std::chrono::milliseconds(200);
    auto made = gpu::CudaAllToAll::create(std::span(&config, 1), options);
    REQUIRE_MESSAGE(made.has_value(), (made ? std::string() : made.error().message));
    Random random(40);
    const auto inputs = draw_inputs(random, config, std::vector<std::int64_t>(7, 3));
    const auto late = (*made)->dispatch(views_of(inputs, 8));
    REQUIRE_FALSE(late.has_value());
    for (const int rank : options.local_ranks) {
      CHECK(late.error().message.find("rank " + std::to_string(rank) + " waits for rank 6") != std::string::npos);
    }
    made->reset();
    options.local_ranks.clear();
    run_rounds(config, 41, 1, options);
  }
}

}  // namespace
}  // namespace a2asim::test
