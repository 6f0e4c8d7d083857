#include "model/engines/trtllm/rules/workspace.h"

#include <algorithm>

#include "sim/cluster/replay.h"
#include "sim/scenario/scenario_reader.h"
#include "tests/sim/sim_world.h"
#include "tests/trtllm/trtllm_launch.h"
#include "tools/plan/plan.h"

namespace a2asim {

// By the formula of the one-sided workspace: tables of 22 x 8192 ids, ep x cap rows of 7168 bf16, ids and scales,
// twice.
constexpr std::int64_t kSevenGib = 7534412416;

TEST_CASE("trtllm: the workspace is as large in check as in plan") {
  const auto deployment = test::deploy({.command = "trtllm-serve M --tp_size 32 --ep_size 32 --max_num_tokens 8192 "
                                                   "--enable_attention_dp",
                                        .nvlink_domain = 72});
  const CheckReport report = check_deployment(*deployment);
  REQUIRE(report.capacity.has_value());
  CHECK(report.capacity->workspace_bytes_per_rank == kSevenGib);
  CHECK(report.capacity->max_num_tokens == 8192);
  PlanInputs inputs;
  inputs.generation = find_engine("trtllm").value()->versions().back();
  inputs.model = {256, 8, 7168};
  inputs.ep_sizes = {32};
  inputs.tokens = {8192};
  const auto plan = make_plan(inputs);
  REQUIRE_MESSAGE(plan.has_value(), (plan ? "" : plan.error().message));
  CHECK(plan->points.front().capacity.workspace_bytes_per_rank == kSevenGib);
  CHECK(plan->points.front().problems.empty());
}

TEST_CASE("trtllm: 2048 MiB whatever the tokens, until the workspace is sized") {
  const test::TrtllmLaunch launch{.version = "before9535",
                                  .command =
                                      "trtllm-serve M --tp_size 16 --ep_size 16 --max_num_tokens 8192 "
                                      "--enable_attention_dp",
                                  .nvlink_domain = 72};
  const auto old = test::deploy(launch);
  CHECK(old->capacity->workspace_bytes_per_rank == std::int64_t{2} << 30);
  const CheckReport report = check_deployment(*old);
  CHECK(report.verdict == Verdict::over_capacity);
  CHECK(report.findings.front().fix.find("TRTLLM_MOE_A2A_WORKSPACE_MB") != std::string::npos);
}

TEST_CASE("trtllm: the largest R is one that fits, and the next does not") {
  using namespace trtllm;
  DispatchRequest request;
  request.shape = {8, 8, 8192, 7168};
  request.payloads = payload_bytes(PayloadKind::bf16, 7168, 8);
  request.combine_bytes = 2 * 7168;
  request.workspace_bytes = kDefaultWorkspaceBytes;
  const KernelLimits first_kernels{.max_top_k = 8, .max_payloads = 8, .max_ranks = 64, .aligns_payloads = false};
  CHECK(largest_r(first_kernels, request) == 9339);
  request.workspace_bytes = 0;
  CHECK(largest_r(first_kernels, request) == 0);
}

TEST_CASE("each payload begins at its alignment, and the bytes still come through") {
  AllToAllConfig config = test::config_of(4, 5, 9, 3);  // 18 and 12 bytes a token: nothing ends at 128 by itself
  config.payload_alignment = 128;
  const RegionView view = config.regions(5);
  for (int payload = 0; payload < view.num_payloads(); ++payload) CHECK(view.region(payload) % 128 == 0);
  CHECK(view.region(1) > view.region(0) + 4 * 5 * 18);
  CHECK(config.workspace_bytes() >= view.end());
  config.hidden_size = 8;
  config.payload_bytes_per_token = {16, 12, 12};
  test::World world(std::vector<AllToAllConfig>(4, config));
  world.draw({5, 1, 3, 0});
  REQUIRE(world.round({5, 5, 5, 5}).has_value());
  CHECK(world.judge().findings().empty());
}

TEST_CASE("ids of no expert go nowhere, where the kernels skip them") {
  for (const bool skips : {false, true}) {
    AllToAllConfig config = test::config_of(2, 4);
    config.skips_invalid_ids = skips;
    test::World world(std::vector<AllToAllConfig>(2, config));
    world.draw({2, 2}, 1);
    world.batches[0].expert_ids()[0] = 99;
    REQUIRE(world.sim->dispatch(world.inputs({2, 2})).has_value());
    const bool reported = std::ranges::any_of(world.sim->findings(), [](const Finding& found) {
      return found.kind == FindingKind::expert_id_out_of_range && found.operation == Operation::dispatch;
    });
    CHECK(reported != skips);
  }
}

}  // namespace a2asim
