// check reads integers, replay moves bytes: over launches drawn for every version they must come to one exit code.
//
// Where check finds an error, a replay of that launch and the error's own witness must find one; where it finds none,
// neither may a replay of batches that check searched, within the limits that the command states.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>

#include "model/base/random.h"
#include "model/check/check_search.h"
#include "sim/cluster/replay.h"
#include "sim/scenario/scenario_writer.h"
#include "sim/scenario/witness_steps.h"

namespace a2asim {
namespace {

constexpr int kLaunches = 300;      // of each version
constexpr int kOtherLaunches = 60;  // of engines with many versions of one rule
constexpr int kReplayedSteps = 24;

template <class T>
const T& one_of(Random& random, const std::vector<T>& values) {
  return values[random.below(static_cast<std::uint32_t>(values.size()))];
}

void draw_layout(Random& random, Parallel& parallel) {
  const std::int64_t ranks = one_of<std::int64_t>(random, {1, 2, 2, 4, 4, 8});
  parallel.tp_size = ranks;
  if (random.chance(9, 10)) parallel.ep_size = ranks;
  if (ranks > 1 && random.chance(4, 5)) {
    parallel.enable_dp_attention = true;
    parallel.dp_size = random.chance(2, 3) ? ranks : ranks / 2;
    if (random.chance(1, 3)) parallel.enable_dp_lm_head = true;
    if (random.chance(1, 3)) parallel.moe_dense_tp_size = 1;
  }
}

void draw_limits(Random& random, Parallel& parallel, std::map<std::string, std::string>& env) {
  const std::int64_t replicas = parallel.attn_dp_size();
  if (random.chance(4, 5)) parallel.max_running_requests = replicas * one_of<std::int64_t>(random, {1, 2, 5, 16, 40});
  if (random.chance(4, 5)) parallel.chunked_prefill_size = replicas * one_of<std::int64_t>(random, {1, 3, 16, 64});
  if (random.chance(2, 3)) parallel.max_num_tokens = one_of<std::int64_t>(random, {1, 4, 16, 64, 256});
  if (random.chance(1, 3))
    parallel.disable_cuda_graph = true;
  else if (random.chance(1, 3))
    parallel.cuda_graph_bs = one_of<std::vector<std::int64_t>>(random, {{1, 2}, {4}, {2, 8, 24}});
  else if (random.chance(2, 3))
    parallel.cuda_graph_max_bs = one_of<std::int64_t>(random, {1, 4, 8, 32});
  if (random.chance(1, 12)) env["SGLANG_SCHEDULER_SKIP_ALL_GATHER"] = "1";
}

void draw_work(Random& random, Parallel& parallel) {
  if (random.chance(1, 3)) parallel.disaggregation_mode = random.chance(1, 2) ? "prefill" : "decode";
  if (random.chance(1, 5)) {
    parallel.speculative_algorithm = "EAGLE";
    parallel.speculative_num_steps = random.between(1, 3);
    parallel.speculative_eagle_topk = one_of<std::int64_t>(random, {1, 1, 4});
    parallel.speculative_num_draft_tokens = *parallel.speculative_num_steps + 1;
  }
}

// Graph modes and all-to-alls that a layout can name, of engines that have them.
void draw_others(Random& random, Parallel& parallel, std::map<std::string, std::string>& env) {
  env.clear();
  parallel.max_num_tokens.reset();
  const std::vector<std::string> modes = {"FULL_DECODE_ONLY", "FULL", "PIECEWISE", "FULL_AND_PIECEWISE"};
  if (!parallel.disable_cuda_graph && random.chance(2, 3)) parallel.cuda_graph_mode = one_of(random, modes);
  if (random.chance(1, 3)) parallel.moe_a2a_backend = "allgather_reducescatter";
  if (random.chance(2, 3)) parallel.model_path = "M-NVFP4";
}

Scenario draw_launch(Random& random, const Version& version) {
  Scenario drawn;
  const Engine& engine = engine_of(version);
  Parallel parallel;
  std::map<std::string, std::string> env;
  draw_layout(random, parallel);
  draw_limits(random, parallel, env);
  draw_work(random, parallel);
  parallel.moe_a2a_backend = random.chance(19, 20) ? "flashinfer" : "none";
  const std::vector<std::string> runners = {"flashinfer_cutlass", "flashinfer_cutlass",       "flashinfer_cutlass",
                                            "flashinfer_cutedsl", "flashinfer_trtllm_routed", "auto"};
  parallel.moe_runner_backend = one_of(random, runners);
  drawn.engine = std::string(engine.name);
  drawn.version = std::string(version.name);
  if (&engine != engines().front()) draw_others(random, parallel, env);
  drawn.parallel = parallel;
  drawn.env = std::move(env);
  drawn.launch = launch_text(drawn);
  drawn.env = launch_env(drawn);
  drawn.parallel.reset();
  drawn.name = "drawn";
  drawn.model = {.num_experts = 16, .top_k = 2, .hidden_size = 16, .layers = random.between(1, 2)};
  return drawn;
}

// What check has to say, and the deployment where there is one.
struct Checked {
  std::unique_ptr<Deployment> deployment;
  CheckReport report;
  bool refused = false;
  bool has_error() const { return refused || report.has_error(); }
};

Checked check(const Scenario& launch, const Version& version) {
  DeployOptions options;
  options.version.version = &version;
  for (const auto& [name, value] : launch.env) options.env.set(name, value);
  options.model = ModelShape{launch.model.num_experts, launch.model.top_k, launch.model.hidden_size};
  auto deployed = deploy_command(*launch.launch, options);
  REQUIRE(deployed.has_value());
  Checked out;
  out.refused = deployed->refused.has_value();
  if (out.refused) return out;
  out.deployment = std::move(deployed->deployment);
  out.report = judge_deployment(*out.deployment);
  return out;
}

Step single_step(const Checked& checked) {
  Step step;
  const std::int64_t replicas = checked.deployment ? checked.deployment->topology.attn_dp_size : 1;
  const bool prefills = checked.deployment && !checked.deployment->decode_reachable;
  step.mode = {prefills ? ForwardMode::extend : ForwardMode::decode};
  step.tokens.assign(static_cast<std::size_t>(replicas), 1);
  return step;
}

// Batches that check searched, in any order: what one leaves in the workspace the next may read.
std::vector<Step> searched_steps(Random& random, const Checked& checked) {
  const Deployment& deployment = *checked.deployment;
  std::vector<BatchPattern> patterns = decode_patterns(deployment);
  const std::vector<BatchPattern> prefill = prefill_patterns(deployment);
  patterns.insert(patterns.end(), prefill.begin(), prefill.end());
  const auto ranks = static_cast<std::size_t>(deployment.topology.attn_dp_size);
  std::vector<Step> steps;
  for (int tries = 0; tries < 20 * kReplayedSteps && !patterns.empty() && steps.size() < kReplayedSteps; ++tries) {
    const BatchPattern& pattern = one_of(random, patterns);
    std::vector<RankBatch> batches(ranks, pattern.others);
    batches[random.below(static_cast<std::uint32_t>(ranks))] = pattern.first;
    if (!within_stated_limits(deployment, batches)) continue;
    Step step;
    for (const RankBatch& batch : batches) {
      step.mode.push_back(batch.mode);
      step.tokens.push_back(batch.count);
    }
    steps.push_back(std::move(step));
  }
  if (steps.empty()) steps.push_back(single_step(checked));
  return steps;
}

// Empty: replay finds an error exactly where it should. Otherwise what differs, with the scenario.
std::string difference(const Scenario& scenario, bool error_expected, std::string_view what) {
  const Result<ReplayReport> replayed = replay(scenario, "drawn", {});
  if (!replayed) return fmt::format("{}: replay: {}\n{}", what, replayed.error().message, to_yaml(scenario));
  if (replayed->has_error() == error_expected) return {};
  std::string why = std::string(name(replayed->verdict)) + ": " + replayed->why;
  for (const ReplayedStep& step : replayed->steps)
    for (const Finding& found : step.findings)
      if (found.severity == Severity::error && why.size() < 600) why += "\n  " + describe(found);
  return fmt::format("{}: replay says {}\n{}", what, why, to_yaml(scenario));
}

std::string difference(Scenario launch, const Checked& checked, Random& random) {
  if (!checked.has_error()) {
    launch.steps = checked.deployment->derives_sizes || checked.deployment->uses_flashinfer
                       ? searched_steps(random, checked)
                       : std::vector{single_step(checked)};
    return difference(launch, false, "check finds nothing");
  }
  if (checked.refused) {
    launch.steps = {single_step(checked)};
    return difference(launch, true, "the argument parser refuses");
  }
  for (const CheckFinding& finding : checked.report.findings) {
    if (finding.severity != Severity::error) continue;
    launch.steps = finding.witness ? witness_steps(finding) : std::vector{single_step(checked)};
    const std::string found =
        fmt::format("check finds {} ({}): {}", name(finding.kind), name(finding.phase), finding.message);
    if (launch.steps.empty()) return found + ": its witness cannot be replayed";
    if (std::string wrong = difference(launch, true, found); !wrong.empty()) return wrong;
  }
  return {};
}

}  // namespace

TEST_CASE("check and replay come to one exit code, for drawn launches of every version") {
  int others_with_error = 0;
  for (const Engine* engine : engines())
    for (const Version* version : engine->versions()) {
      const bool is_first = engine == engines().front();
      const int launches = is_first ? kLaunches : kOtherLaunches;
      Random random(20261130);
      int with_error = 0, differing = 0;
      for (int i = 0; i < launches; ++i) {
        const Scenario launch = draw_launch(random, *version);
        const Checked checked = check(launch, *version);
        with_error += checked.has_error() ? 1 : 0;
        const std::string wrong = difference(launch, checked, random);
        if (!wrong.empty() && ++differing <= 3) FAIL_CHECK(fmt::format("{}, launch {}: {}", version->name, i, wrong));
      }
      CAPTURE(version->name);
      CHECK(differing == 0);
      if (!is_first) others_with_error += with_error;
      if (!is_first) continue;  // newer ones of others are refused for little
      CHECK(with_error >= kLaunches / 20);  // both answers are drawn
      CHECK(with_error <= kLaunches * 19 / 20);
    }
  CHECK(others_with_error > 0);
}

}  // namespace a2asim
