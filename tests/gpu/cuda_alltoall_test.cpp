// The CUDA all-to-all against the host reference: whole slices byte for byte after every call, outputs bit for bit.
#include "gpu_world.h"
#include "model/alltoall/error.h"

namespace a2asim::test {
namespace {

TEST_CASE("slices and outputs equal the reference for every top_k") {
  if (skip_without_device()) return;
  for (int top_k = 1; top_k <= kMaxTopK; ++top_k) {
    CAPTURE(top_k);
    run_rounds(usual_config(5, top_k, 41, 9, 48), static_cast<std::uint64_t>(100 + top_k), 2);
  }
}

TEST_CASE("every number type, wide and narrow rows") {
  if (skip_without_device()) return;
  for (const DataType type : {DataType::bfloat16, DataType::float16, DataType::float32, DataType::float8_e4m3}) {
    for (const std::int64_t hidden : {64, 4, 1}) {
      for (const int top_k : {1, 2, 3, 8, 22}) {
        CAPTURE(static_cast<int>(type));
        CAPTURE(hidden);
        CAPTURE(top_k);
        // An even R keeps the ids' and weights' regions on their boundaries behind narrow rows.
        AllToAllConfig config = usual_config(4, top_k, 32, 8, hidden, type);
        World world({config});
        world.poison(std::byte{0xff});
        Random random(static_cast<std::uint64_t>(hidden * 64 + top_k));
        world.round(draw_inputs(random, config, {8, 0, 5, 7}), {8, 8, 8, 8}, -1, kUsual);
      }
    }
  }
}

TEST_CASE("any number of ranks, experts that do not divide, more tokens than threads") {
  if (skip_without_device()) return;
  run_rounds(usual_config(1, 2, 3, 20, 32), 1, 3);
  run_rounds(usual_config(3, 1, 10, 16, 16), 2, 3);
  run_rounds(usual_config(7, 6, 53, 33, 64), 3, 3);
  run_rounds(usual_config(33, 4, 100, 5, 32), 4, 2);
  run_rounds(usual_config(64, 8, 130, 4, 16), 5, 2);
  run_rounds(usual_config(4, 4, 16, 2500, 16), 6, 2);
  run_rounds(usual_config(2, 2, 8, 64, 20000), 7, 2);
}

TEST_CASE("payloads of any width, up to six") {
  if (skip_without_device()) return;
  AllToAllConfig config = usual_config(4, 2, 8, 16, 24);
  for (const std::vector<std::int64_t>& widths : std::vector<std::vector<std::int64_t>>{
           {48, 8, 8, 16, 2, 1}, {48, 8, 8, 10, 6, 3}, {48, 8, 8}, {48, 8, 8, 4096, 20, 4}}) {
    config.payload_bytes_per_token = widths;
    run_rounds(config, widths.size() + static_cast<std::uint64_t>(widths.back()), 2);
  }
}

TEST_CASE("progress with many tokens and all ranks on one GPU") {
  if (skip_without_device()) return;
  const AllToAllConfig config = usual_config(8, 8, 64, 3000, 8);
  World world({config});
  world.poison(std::byte{0x7f});
  Random random(11);
  world.round(draw_inputs(random, config, {3000, 1, 3000, 2999, 0, 3000, 1025, 1024}),
              std::vector<std::int64_t>(8, 3000), -1, kUsual);
}

TEST_CASE("ranks in separate launches meet by flags") {
  if (skip_without_device()) return;
  if (launches_are_serial()) {
    skip("launches that meet need to run side by side");
    return;
  }
  gpu::CudaOptions options;
  options.devices = {0, 0};
  run_rounds(usual_config(8, 4, 32, 200, 256), 21, 4, options);
  options.devices = {0, 0, 0};
  run_rounds(usual_config(5, 3, 11, 40, 48), 22, 4, options);
  run_few_and_many(options, 23);
}

TEST_CASE("a rank that is masked out") {
  if (skip_without_device()) return;
  for (const int dead : {0, 2, 4}) {
    AllToAllConfig config = usual_config(5, 4, 23, 12, 32);
    config.active_rank_mask = ~(std::uint64_t{1} << dead);
    World world({config});
    world.poison(std::byte{0xff});
    Random random(static_cast<std::uint64_t>(dead));
    for (int round = 0; round < 2; ++round) {
      world.round(draw_inputs(random, config, {12, 7, 12, 0, 3}), std::vector<std::int64_t>(5, 12), -1, kUsual);
    }
  }
}

TEST_CASE("combine with another R than dispatch") {
  if (skip_without_device()) return;
  const AllToAllConfig config = usual_config(3, 2, 9, 16, 32);
  gpu::CudaOptions options;
  options.guard = false;
  World world({config}, options);
  world.poison(std::byte{0x3c});
  Random random(5);
  const auto inputs = draw_inputs(random, config, {4, 6, 2});
  std::vector<DispatchInput> views;
  for (const RankInput& input : inputs) views.push_back(view_of(input, 8));
  World::ok(world.device().dispatch(views));
  World::ok(world.device().experts(kUsual));
  world.reference().dispatch(views);
  world.reference().experts(kUsual);
  std::vector<std::vector<std::byte>> outputs;
  const std::vector<std::int64_t> other = {8, 16, 12};
  World::ok(world.device().combine(other, outputs));
  world.reference().combine(other);
  world.compare_outputs(outputs);
}

// Two ranks; rank 1 derives a smaller R. Chosen so that no two writers touch the same bytes: the result is certain.
TEST_CASE("ranks that disagree, guard off: the same misplaced bytes as on the host") {
  if (skip_without_device()) return;
  AllToAllConfig config = usual_config(2, 1, 4, 64, 256);
  gpu::CudaOptions options;
  options.guard = false;
  World world({config}, options);
  world.poison(std::byte{0xff});
  Random random(9);
  const auto inputs = draw_inputs(random, config, {3, 2});
  world.round(inputs, {64, 32}, -1, kUsual);
}

TEST_CASE("ranks that disagree, guard on: an error that names both") {
  if (skip_without_device()) return;
  AllToAllConfig config = usual_config(4, 2, 8, 64, 64);
  World world({config});
  Random random(10);
  auto inputs = draw_inputs(random, config, {3, 2, 5, 1});
  std::vector<DispatchInput> views;
  for (std::size_t r = 0; r < 4; ++r) views.push_back(view_of(inputs[r], r == 2 ? 16 : 8));
  const auto refused = world.device().dispatch(views);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().message.find("rank 0 has runtime_max_tokens_per_rank 8, rank 2 has 16") != std::string::npos);
  CHECK(all_to_all_errors(refused.error()) == std::vector<AllToAllError>{{.kind = AllToAllErrorKind::differs,
                                                                          .field = AllToAllField::runtime_max,
                                                                          .rank = 0,
                                                                          .peer = 2,
                                                                          .own = 8,
                                                                          .other = 16}});
  // The rounds stayed in step: the next, agreeing one works.
  for (DispatchInput& view : views) view.runtime_max_tokens_per_rank = 8;
  World::ok(world.device().dispatch(views));
  World::ok(world.device().experts(kUsual));
  std::vector<std::vector<std::byte>> outputs;
  const auto combined = world.device().combine(std::vector<std::int64_t>{8, 8, 8, 9}, outputs);
  REQUIRE_FALSE(combined.has_value());
  CHECK(combined.error().message.find("combine: rank 0 has runtime_max_tokens_per_rank 8, rank 3 has 9") !=
        std::string::npos);

  std::vector<AllToAllConfig> configs(4, config);
  configs[3].max_num_tokens = 32;
  World capped(configs);
  const auto cap = capped.device().dispatch(views);
  REQUIRE_FALSE(cap.has_value());
  CHECK(cap.error().message.find("rank 0 has max_num_tokens 64, rank 3 has 32") != std::string::npos);
}

TEST_CASE("input that cannot be right is refused before any write") {
  if (skip_without_device()) return;
  AllToAllConfig config = usual_config(2, 2, 4, 8, 16);
  World world({config});
  Random random(12);
  auto inputs = draw_inputs(random, config, {4, 3});
  const auto refused = [&](std::int64_t r0, std::int64_t r1) {
    const std::vector<DispatchInput> views = {view_of(inputs[0], r0), view_of(inputs[1], r1)};
    const auto result = world.device().dispatch(views);
    CHECK_FALSE(result.has_value());
    world.compare_slices("a refusal");
    return result ? std::string() : result.error().message;
  };
  CHECK(refused(3, 4).find("rank 0: local_num_tokens 4 is not in 0..3") != std::string::npos);
  CHECK(refused(4, 0).find("rank 1: runtime_max_tokens_per_rank is 0") != std::string::npos);
  CHECK(refused(9, 9).find("above max_num_tokens 8") != std::string::npos);
  inputs[1].experts[3] = 4;
  CHECK(refused(4, 4).find("rank 1: expert id 4 of token 1, position 1, is not in 0..3") != std::string::npos);
  inputs[1].experts[3] = -1;
  CHECK(refused(4, 4).find("expert id -1") != std::string::npos);

  AllToAllConfig narrow_first = usual_config(5, 2, 10, 8, 16);
  narrow_first.payload_bytes_per_token = {4, 32};
  narrow_first.expert_id_payload = -1;
  World other({narrow_first});
  auto few = draw_inputs(random, narrow_first, {1, 1, 1, 1, 1});
  std::vector<DispatchInput> views;
  for (const RankInput& input : few) views.push_back(view_of(input, 1));
  const auto result = other.device().dispatch(views);
  REQUIRE_FALSE(result.has_value());
  CHECK(result.error().message.find("payload 1 would start at byte") != std::string::npos);
}

TEST_CASE("a missing rank ends the wait, and the device stays usable") {
  if (skip_without_device()) return;
  const AllToAllConfig config = usual_config(4, 2, 8, 8, 32);
  gpu::CudaOptions options;
  options.local_ranks = {0, 1, 3};
  options.timeout = std::chrono::milliseconds(200);
  auto made = gpu::CudaAllToAll::create(std::span(&config, 1), options);
  REQUIRE(made.has_value());
  Random random(13);
  const auto inputs = draw_inputs(random, config, {4, 3, 2});
  std::vector<DispatchInput> views;
  for (const RankInput& input : inputs) views.push_back(view_of(input, 8));
  const auto late = (*made)->dispatch(views);
  REQUIRE_FALSE(late.has_value());
  CHECK(late.error().message.find("dispatch timed out after 200 ms: rank 0 waits for rank 2 (flag is 0, expected 1); "
                                  "rank 1 waits for rank 2 (flag is 0, expected 1); rank 3 waits for rank 2") !=
        std::string::npos);
  const std::vector<AllToAllError> waits = all_to_all_errors(late.error());
  REQUIRE(waits.size() == 3);
  CHECK(waits[1] ==
        AllToAllError{.kind = AllToAllErrorKind::waits, .rank = 1, .peer = 2, .own = 0, .other = 1, .timeout_ms = 200});
  CHECK_FALSE((*made)->dispatch(views).has_value());
  run_rounds(config, 14, 1);

  options.devices = {0, 0};  // ranks 0 and 1 in one launch, 3 in another: both are heard
  auto apart = gpu::CudaAllToAll::create(std::span(&config, 1), options);
  REQUIRE(apart.has_value());
  const auto both = (*apart)->dispatch(views);
  REQUIRE_FALSE(both.has_value());
  for (const char* wait : {"rank 0 waits for rank 2", "rank 1 waits for rank 2", "rank 3 waits for rank 2"}) {
    CHECK(both.error().message.find(wait) != std::string::npos);
  }
}

TEST_CASE("capture and replay equal the eager calls") {
  if (skip_without_device()) return;
  for (const std::vector<int>& devices : {std::vector<int>{0}, std::vector<int>{0, 0}}) {
    if (devices.size() > 1 && launches_are_serial()) continue;
    const AllToAllConfig config = usual_config(4, 4, 18, 32, 64);
    gpu::CudaOptions options;
    options.devices = devices;
    options.guard = false;
    World world({config}, options);
    run_graphs(world, 15);
    // An eager rank beside three that replay.
    Random random(17);
    const std::vector<GraphId> graphs = {0, kEager, 0, 0};
    const std::vector<std::int64_t> baked = {4, 5, 4, 4};
    const auto inputs = draw_inputs(random, config, {4, 2, 4, 4});
    std::vector<std::vector<std::byte>> outputs;
    World::ok(world.device().replay(graphs, views_of(inputs, 5), outputs));
    std::vector<DispatchInput> views;
    for (std::size_t r = 0; r < 4; ++r) views.push_back(view_of(inputs[r], baked[r]));
    world.reference().dispatch(views);
    world.reference().sanitize(-1);
    world.reference().experts(kUsual);
    world.reference().combine(baked);
    world.compare_slices("replay");
    world.compare_outputs(outputs);
  }
}

TEST_CASE("ranks that replay different captures: the guard names them") {
  if (skip_without_device()) return;
  const AllToAllConfig config = usual_config(2, 2, 4, 32, 64);
  World world({config});
  Random random(16);
  const auto small = draw_inputs(random, config, {4, 4});
  const auto big = draw_inputs(random, config, {16, 16});
  const auto first =
      world.device().capture(std::vector<DispatchInput>{view_of(small[0], 4), view_of(small[1], 4)}, -1, kUsual);
  const auto second =
      world.device().capture(std::vector<DispatchInput>{view_of(big[0], 16), view_of(big[1], 16)}, -1, kUsual);
  REQUIRE(first.has_value());
  REQUIRE(second.has_value());
  std::vector<std::vector<std::byte>> outputs;
  const auto mixed =
      world.device().replay(std::vector<GraphId>{*first, *second},
                            std::vector<DispatchInput>{view_of(small[0], 4), view_of(big[1], 4)}, outputs);
  REQUIRE_FALSE(mixed.has_value());
  CHECK(mixed.error().message.find("rank 0 has runtime_max_tokens_per_rank 4, rank 1 has 16") != std::string::npos);
}

}  // namespace
}  // namespace a2asim::test
