// A step at geometry fidelity allocates nothing: counted by replacing the global operator new of this program.
#include <doctest/doctest.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <new>
#include <string>
#include <vector>

#include "model/base/random.h"
#include "sim/cluster/cluster.h"
#include "sim/cluster/replay_setup.h"
#include "sim/scenario/scenario_reader.h"

namespace {

std::atomic<std::int64_t> allocations{0};

void* counted(std::size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  if (void* memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}

}  // namespace

void* operator new(std::size_t bytes) { return counted(bytes); }
void* operator new[](std::size_t bytes) { return counted(bytes); }
// Some libraries take memory by this one and give it back by the usual delete (stable_sort's buffer).
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return std::malloc(bytes == 0 ? 1 : bytes);
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace a2asim {
namespace {

// tp == dp == 8; the collapse makes some generations disagree, so that steps with findings are counted as well.
ScenarioDeployment deployment(std::string_view generation, std::string_view flags) {
  const std::string text =
      "name: test\nsglang: " + std::string(generation) +
      "\nlaunch: python3 -m sglang.launch_server --model-path M --tp-size 8 --dp-size 8 --enable-dp-attention "
      "--moe-a2a-backend flashinfer --moe-runner-backend flashinfer_cutlass --cuda-graph-max-bs 32 " +
      std::string(flags) +
      "\nenv: {SGLANG_FLASHINFER_NUM_MAX_DISPATCH_TOKENS_PER_RANK: \"256\"}\n"
      "model: {num_experts: 64, top_k: 8, hidden_size: 64}\n"
      "steps: [{mode: decode, tokens: [1, 1, 1, 1, 1, 1, 1, 1]}]\n";
  const auto scenario = parse_scenario(text, "test");
  REQUIRE_MESSAGE(scenario.has_value(), scenario.error().message);
  auto made = deploy(*scenario, "test", {});
  REQUIRE_MESSAGE(made.has_value(), made.error().message);
  return std::move(*made);
}

std::int64_t allocations_of_steps(Cluster& cluster) {
  std::vector<std::vector<RankBatch>> steps;
  Random random(3);
  for (int step = 0; step < 64; ++step) {
    std::vector<RankBatch> batches;
    for (int r = 0; r < 8; ++r) {
      const bool extends = step % 4 == 3 && random.chance(1, 2);
      batches.push_back({extends ? ForwardMode::extend : ForwardMode::decode, random.between(0, extends ? 200 : 48)});
    }
    steps.push_back(std::move(batches));
  }
  std::int64_t counted_here = 0;
  for (const auto& batches : steps) {
    StepInput input;
    input.batches = batches;
    const std::int64_t before = allocations.load();
    const auto outcome = cluster.step(input);
    const std::int64_t after = allocations.load();
    REQUIRE(outcome.has_value());
    // What a rank raises is a text.
    const auto raises = [](const RankDecision& decision) { return decision.raised.has_value(); };
    if (std::ranges::none_of(cluster.decisions(), raises)) counted_here += after - before;
  }
  return counted_here;
}

}  // namespace

TEST_CASE("allocation: the counter sees a vector") {
  const std::int64_t before = allocations.load();
  const std::vector<int> some(100);
  CHECK(allocations.load() > before);
}

TEST_CASE("allocation: a step at geometry fidelity allocates nothing") {
  for (const std::string_view generation : {"pr14668", "pr25685", "pr29461", "pr30450", "pr35758"}) {
    for (const std::string_view flags : {"", "--enable-dp-lm-head --moe-dense-tp-size 1"}) {
      CAPTURE(generation);
      CAPTURE(flags);
      const ScenarioDeployment deployed = deployment(generation, flags);
      REQUIRE(deployed.deployment != nullptr);
      auto cluster = Cluster::create(*deployed.deployment, {});
      REQUIRE_MESSAGE(cluster.has_value(), cluster.error().message);
      CHECK(allocations_of_steps(**cluster) == 0);
    }
  }
}

}  // namespace a2asim
