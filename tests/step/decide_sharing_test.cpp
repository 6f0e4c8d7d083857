// Ranks that follow the first of their kind come to what they would have worked out by themselves.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "model/step/decider.h"
#include "model/base/random.h"
#include "model/engines/sglang/generation.h"
#include "sim/cluster/replay_setup.h"
#include "sim/scenario/scenario_reader.h"

namespace a2asim {
namespace {

constexpr std::string_view kFlags[] = {
    "--tp-size 4 --dp-size 4 --enable-dp-attention",
    "--tp-size 8 --dp-size 4 --enable-dp-attention",
    "--tp-size 8 --dp-size 4 --enable-dp-attention --disable-cuda-graph",
    "--tp-size 4 --dp-size 4 --enable-dp-attention --enable-dp-lm-head --moe-dense-tp-size 1",
    "--tp-size 4 --dp-size 4 --enable-dp-attention --speculative-algorithm EAGLE --speculative-num-steps 3 "
    "--speculative-eagle-topk 1 --speculative-num-draft-tokens 4",
};

std::unique_ptr<Deployment> deployment(const Generation& generation, std::string_view flags) {
  const std::string text =
      "name: test\nsglang: " + std::string(generation.name) +
      "\nlaunch: python3 -m sglang.launch_server --model-path M --moe-a2a-backend flashinfer --moe-runner-backend "
      "flashinfer_cutlass --cuda-graph-max-bs 16 " +
      std::string(flags) +
      "\nenv: {SGLANG_FLASHINFER_NUM_MAX_DISPATCH_TOKENS_PER_RANK: \"40\"}\n"
      "model: {num_experts: 64, top_k: 8, hidden_size: 64}\n"
      "steps: [{mode: decode, tokens: [1, 1, 1, 1]}]\n";
  const auto scenario = parse_scenario(text, "test");
  REQUIRE_MESSAGE(scenario.has_value(), scenario.error().message);
  auto made = deploy(*scenario, "test", {});
  REQUIRE_MESSAGE(made.has_value(), made.error().message);
  return std::move(made->deployment);
}

// Modes differ between ranks, counts often are equal.
std::vector<RankBatch> draw(Random& random, std::size_t ranks, bool speculates) {
  constexpr ForwardMode kModes[] = {ForwardMode::decode, ForwardMode::decode, ForwardMode::extend, ForwardMode::mixed,
                                    ForwardMode::idle};
  std::vector<RankBatch> batches;
  const bool decodes = random.chance(1, 2);
  for (std::size_t r = 0; r < ranks; ++r) {
    ForwardMode mode = decodes ? ForwardMode::decode : kModes[random.below(5)];
    if (mode == ForwardMode::decode && speculates) mode = ForwardMode::target_verify;
    batches.push_back({mode, mode == ForwardMode::idle ? 0 : random.between(0, random.chance(1, 2) ? 2 : 20)});
  }
  return batches;
}

void check_equal(const RankDecision& a, const RankDecision& b) {
  CHECK(a.participates == b.participates);
  CHECK(a.replay == b.replay);
  CHECK(a.is_extend == b.is_extend);
  CHECK(a.mode == b.mode);
  CHECK(a.bucket == b.bucket);
  CHECK(a.rows == b.rows);
  CHECK(a.real_rows == b.real_rows);
  CHECK(a.sizing.runtime_max_tokens_per_rank == b.sizing.runtime_max_tokens_per_rank);
  CHECK(a.sizing.dispatched_rows == b.sizing.dispatched_rows);
  CHECK(a.sizing.has_dummy_token == b.sizing.has_dummy_token);
  CHECK(a.sizing.branch == b.sizing.branch);
  CHECK(a.exceeds_cap == b.exceeds_cap);
  CHECK(a.raised == b.raised);
}

void check_steps(const Deployment& deployment) {
  const auto ranks = static_cast<std::size_t>(deployment.topology.attn_dp_size);
  const auto ep_ranks = static_cast<std::size_t>(deployment.topology.tp_size);
  const std::vector<RankFault> no_fault(ep_ranks);  // nothing goes wrong, but every rank works by itself
  const auto sharing = deployment.make_decider(), alone = deployment.make_decider();
  Random random(5);
  for (int step = 0; step < 60; ++step) {
    const auto batches = draw(random, ranks, deployment.speculates);
    constexpr GraphChoice kChoices[] = {GraphChoice::engine, GraphChoice::eager, GraphChoice::replay};
    const GraphChoice graph = kChoices[random.chance(1, 4) ? random.below(3) : 0];
    const auto shared = sharing->decide(batches, graph);
    const auto own = alone->decide(batches, graph, no_fault);
    REQUIRE(shared.size() == own.size());
    for (std::size_t r = 0; r < shared.size(); ++r) check_equal(shared[r], own[r]);
    for (std::size_t r = 0; r < ep_ranks; ++r) {
      const auto list = sharing->dp_global(r), own_list = alone->dp_global(r);
      REQUIRE(list.has_value() == own_list.has_value());
      if (list) CHECK(std::vector(list->begin(), list->end()) == std::vector(own_list->begin(), own_list->end()));
    }
  }
}

}  // namespace

TEST_CASE("decide: ranks that share a decision decide as they would alone") {
  int checked = 0;
  for (const Generation& generation : generations()) {
    for (const std::string_view flags : kFlags) {
      CAPTURE(generation.name);
      CAPTURE(flags);
      const auto deployed = deployment(generation, flags);
      if (deployed == nullptr || !deployed->uses_flashinfer) continue;
      check_steps(*deployed);
      ++checked;
    }
  }
  CHECK(checked > 20);
}

}  // namespace a2asim
