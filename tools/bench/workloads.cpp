#include "tools/bench/workloads.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

#include "model/base/random.h"
#include "sim/scenario/scenario_reader.h"

namespace a2asim::bench {
namespace {

constexpr ExpertPayloads kPayloads{.hidden_payload = 0, .weight_payload = 2};

template <class T>
T need(Result<T> result) {
  if (!result) stop(result.error().message);
  return std::move(*result);
}

void need(const Result<void>& result) {
  if (!result) stop(result.error().message);
}

}  // namespace

void stop(const std::string& why) {
  std::fprintf(stderr, "a2asim-bench: %s\n", why.c_str());
  std::exit(1);
}

GeometryWorld::GeometryWorld(int ranks, std::string_view generation) : ranks_(static_cast<std::size_t>(ranks)) {
  std::string ones = "1";
  for (int r = 1; r < ranks; ++r) ones += ", 1";
  const std::string text = fmt::format(
      "name: bench\nsglang: {}\n"
      "launch: python3 -m sglang.launch_server --model-path M --tp-size {} --dp-size {} --enable-dp-attention "
      "--moe-a2a-backend flashinfer --moe-runner-backend flashinfer_cutlass --cuda-graph-max-bs 64\n"
      "env: {{SGLANG_FLASHINFER_NUM_MAX_DISPATCH_TOKENS_PER_RANK: \"4096\"}}\n"
      "model: {{num_experts: 256, top_k: 8, hidden_size: 7168}}\n"
      "steps: [{{mode: decode, tokens: [{}]}}]\n",
      generation, ranks, ranks, ones);
  deployed_ = need(deploy(need(parse_scenario(text, "bench")), "bench", {}));
  if (deployed_.verdict != Verdict::agrees) stop("the benchmark's deployment does not start: " + deployed_.why);
  cluster_ = need(Cluster::create(*deployed_.deployment, {}));
  Random random(7);
  for (std::size_t step = 0; step < kSteps; ++step) {
    const bool prefill = step % 4 == 3;
    for (int r = 0; r < ranks; ++r) {
      const bool extends = prefill && random.chance(1, 2);
      batches_.push_back({extends ? ForwardMode::extend : ForwardMode::decode, random.between(0, extends ? 2048 : 96)});
    }
  }
}

Verdict GeometryWorld::step() {
  StepInput input;
  input.batches = std::span(batches_).subspan(next_ * ranks_, ranks_);
  next_ = (next_ + 1) % kSteps;
  const Result<StepOutcome> outcome = cluster_->step(input);
  if (!outcome) stop(outcome.error().message);
  return outcome->verdict;
}

AllToAllWorld::AllToAllWorld(const Shape& shape, Fidelity fidelity) : shape_(shape) {
  config_.ep_size = shape.ranks;
  config_.top_k = shape.top_k;
  config_.num_experts = shape.experts;
  config_.max_num_tokens = shape.tokens;
  config_.hidden_size = shape.hidden;
  config_.payload_bytes_per_token = {2 * shape.hidden, 4 * shape.top_k, 4 * shape.top_k};
  const auto ranks = static_cast<std::size_t>(shape.ranks);
  SimOptions options;
  options.fidelity = fidelity;
  alltoall_ = need(SimAllToAll::create(std::vector<AllToAllConfig>(ranks, config_), options));
  Random random(11);
  for (std::size_t i = 0; i < 2 * ranks; ++i)
    batches_.emplace_back(config_, kPayloads, shape.tokens, RoutingPattern::distinct, random);
  inputs_.resize(2);
  for (std::size_t i = 0; i < 2 * ranks; ++i) inputs_[i / ranks].push_back(batches_[i].input(shape.tokens));
  runtime_max_.assign(ranks, shape.tokens);
  step();  // the first touch of all memory
  step();
  alltoall_->reset_traffic();
  step();
  pairs_ = alltoall_->traffic().rows_sent;
}

void AllToAllWorld::step() {
  need(alltoall_->dispatch(inputs_[round_ % 2]));
  need(alltoall_->sanitize(static_cast<std::int32_t>(config_.num_experts)));
  need(alltoall_->experts(kPayloads));
  need(alltoall_->combine(runtime_max_, outputs_));
  ++round_;
  if (alltoall_->log().count_of(FindingKind::stale) + alltoall_->log().count_of(FindingKind::misplaced) != 0)
    stop("the simulator found a fault in a world without one");
}

std::int64_t AllToAllWorld::bytes_copied() const {
  const std::int64_t row_bytes = config_.combine_bytes_per_token();
  const std::int64_t output_bytes = shape_.ranks * shape_.tokens * row_bytes;
  return pairs_ * (config_.dispatch_bytes_per_token() + row_bytes) + (pairs_ * row_bytes + output_bytes) / 2;
}

}  // namespace a2asim::bench
