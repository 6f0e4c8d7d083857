// FlashInfer's own test grids (tests/comm/test_trtllm_moe_alltoall.py) as parameters. Where its oracle sorts columns,
// rows are compared here in slot order, as far as it is known.
#include <fmt/format.h>

#include "sim/conformance/suite.h"

namespace a2asim::conformance {
namespace {

constexpr std::uint64_t kFlashInferSeed = 0xD5;

struct Shape {
  int ep_size;
  std::int64_t tokens;
  std::int64_t num_experts;
  int top_k;
  std::vector<std::int64_t> payload_bytes;
  int expert_id_payload;
};

std::vector<std::int64_t> growing(std::int64_t dim, const std::vector<std::int64_t>& element_bytes) {
  std::vector<std::int64_t> bytes;
  for (std::size_t i = 0; i < element_bytes.size(); ++i)
    bytes.push_back(dim * static_cast<std::int64_t>(i + 1) * element_bytes[i]);
  return bytes;
}

// Dispatch, sanitize and combine, twice, so that the second round meets the rows of the first.
void check_dispatch(Trial& trial, const Shape& shape, std::int32_t invalid_id, std::uint64_t mask = ~std::uint64_t{0}) {
  AllToAllConfig config;
  config.ep_size = shape.ep_size;
  config.top_k = shape.top_k;
  config.num_experts = shape.num_experts;
  config.max_num_tokens = shape.tokens;  // the grids have ep_size times as much: here it must just fit
  config.payload_bytes_per_token = shape.payload_bytes;
  config.expert_id_payload = shape.expert_id_payload;
  config.active_rank_mask = mask;
  const std::vector<AllToAllConfig> configs(static_cast<std::size_t>(shape.ep_size), config);
  Bench bench = trial.bench(configs);
  if (mask != ~std::uint64_t{0}) trial.need(bench, Capability::rank_mask);
  Random random(kFlashInferSeed);
  const std::vector<std::int64_t> tokens(configs.size(), shape.tokens);
  for (int round = 0; round < 2; ++round) {
    const auto batches = draw(configs, ExpertPayloads{-1, -1}, tokens, RoutingPattern::with_repeats, random);
    const std::string wrong = bench.round(inputs_of(batches, shape.tokens), invalid_id, nullptr);
    trial.check(wrong.empty(), fmt::format("ep {}, {} tokens, top_k {}, round {}: {}", shape.ep_size, shape.tokens,
                                           shape.top_k, round, wrong));
  }
}

struct CombineShape {
  int ep_size;
  std::int64_t tokens, hidden;
  int top_k;
};
constexpr CombineShape kCombine[] = {{4, 16, 4096, 2}, {4, 16, 2880, 4},  {8, 16, 5120, 6},  {8, 16, 7168, 8},
                                     {8, 16, 4096, 8}, {8, 16, 4096, 10}, {8, 16, 4096, 16}, {8, 16, 4096, 22}};

// lora: one more int32 payload.
void check_combine(Trial& trial, const CombineShape& shape, DataType type, bool lora) {
  AllToAllConfig config =
      usual_config(shape.ep_size, shape.tokens, shape.hidden, shape.top_k, shape.ep_size * shape.top_k, type);
  // The grids have [ids, hidden, uint8]; the weights are ours, between them to keep 4-byte addresses.
  config.payload_bytes_per_token = {4 * shape.top_k, shape.hidden * element_bytes(type), 4 * shape.top_k};
  if (lora) config.payload_bytes_per_token.push_back(4);
  config.payload_bytes_per_token.push_back(1);
  config.expert_id_payload = 0;
  const ExpertPayloads payloads{1, 2};
  const std::vector<AllToAllConfig> configs(static_cast<std::size_t>(shape.ep_size), config);
  Bench bench = trial.bench(configs);
  Random random(kFlashInferSeed);
  const std::vector<std::int64_t> tokens(configs.size(), shape.tokens);
  const auto batches = draw(configs, payloads, tokens, RoutingPattern::distinct, random);
  const std::string wrong = bench.round(inputs_of(batches, shape.tokens), -1, &payloads);
  trial.check(wrong.empty(),
              fmt::format("ep {}, hidden {}, top_k {}: {}", shape.ep_size, shape.hidden, shape.top_k, wrong));
}

void single_gpu(Trial& trial) {
  const struct {
    std::int64_t tokens, dim, experts;
    int top_k;
  } grid[] = {{902, 7168, 256, 8}, {10, 288, 128, 4}, {10, 8, 8, 2}};
  for (const auto& row : grid)
    check_dispatch(trial, {1, row.tokens, row.experts, row.top_k, growing(row.dim, {2, 2, 4, 1, 4}), 2}, -3);
}

void multi_rank(Trial& trial) {
  check_dispatch(trial, {2, 5, 2, 1, growing(8, {2, 2, 4, 1, 4}), -1}, -1);
  check_dispatch(trial, {4, 32, 4, 1, growing(32768, {2, 2, 4, 1, 4}), -1}, -1);
  check_dispatch(trial, {8, 16, 8, 1, growing(2048, {2, 2, 4, 1, 4}), -1}, -1);
}

void non_divisible(Trial& trial) {
  check_dispatch(trial, {4, 16, 6, 1, {64}, -1}, -1);
  check_dispatch(trial, {5, 16, 8, 1, {128}, -1}, -1);
  check_dispatch(trial, {3, 16, 10, 1, {32}, -1}, -1);
}

void compact_ep4(Trial& trial) {
  for (const int top_k : {6, 8, 10, 16, 22})
    check_dispatch(trial, {4, 4, 64, top_k, {4 * 256, 128, 4 * 22, 4 * 22}, 2}, -1);
}

// Hidden states as servers send them quantised: NVFP4 is half a byte an element and a scale byte for 16, MXFP8 a byte
// and a scale byte for 32; ids and weights behind them. Every byte counts, the scales' too; then what the experts make
// of such rows comes back.
void quantised_rows(Trial& trial) {
  for (const std::int64_t hidden : {256, 7168}) {
    for (const DispatchType type : {DispatchType::nvfp4, DispatchType::mxfp8}) {
      const TokenPayloads payloads = token_payloads(type, hidden, 8);
      check_dispatch(trial, {4, 12, 64, 8, payloads.bytes, payloads.id_payload}, -1);
      AllToAllConfig config = usual_config(4, 12, hidden, 8, 64);
      config.payload_bytes_per_token = payloads.bytes;
      config.expert_id_payload = payloads.id_payload;
      const std::vector<AllToAllConfig> configs(4, config);
      Bench bench = trial.bench(configs);
      Random random(kFlashInferSeed);
      const auto batches = draw(configs, payloads.experts, {12, 12, 12, 12}, RoutingPattern::distinct, random);
      trial.holds(bench.round(inputs_of(batches, 12), -1, &payloads.experts));
    }
  }
}

void larger_payloads(Trial& trial) {
  for (const std::size_t payloads : {std::size_t{5}, std::size_t{6}})
    check_dispatch(trial, {8, 16, 8, 1, std::vector<std::int64_t>(payloads, 4 * 2048), -1}, -1);
}

void sanitizing(Trial& trial) {
  for (const auto& [ep_size, tokens] : {std::pair<int, std::int64_t>{2, 64}, {4, 32}, {8, 16}})
    check_dispatch(trial, {ep_size, tokens, ep_size, 1, {4, 1}, 0}, -3);
}

void active_rank_mask(Trial& trial) {
  check_dispatch(trial, {4, 16, 4, 1, {4, 64}, 0}, -1, ~(std::uint64_t{1} << 2));
  check_dispatch(trial, {5, 16, 5, 1, {4, 128}, 0}, -1, ~(std::uint64_t{1} << 0));
}

void combine_bfloat16(Trial& trial) {
  for (const CombineShape& shape : kCombine) check_combine(trial, shape, DataType::bfloat16, false);
}

void combine_with_one_more(Trial& trial) {
  check_combine(trial, {8, 16, 7168, 8}, DataType::bfloat16, true);
  check_combine(trial, {4, 16, 4096, 2}, DataType::bfloat16, true);
}

void combine_other_types(Trial& trial) {
  for (const DataType type : {DataType::float16, DataType::float32})
    for (const CombineShape& shape : kCombine) check_combine(trial, {shape.ep_size, 16, 320, shape.top_k}, type, false);
}

void combine_published_odd(Trial& trial) {
  for (const int top_k : {1, 12, 14, 18}) check_combine(trial, {4, 9, 136, top_k}, DataType::bfloat16, false);
}

}  // namespace

std::span<const Case> flashinfer_cases() {
  static const Case list[] = {{"FlashInfer SINGLE_GPU", single_gpu, true},
                              {"FlashInfer MULTI_RANK", multi_rank, true},
                              {"FlashInfer NON_DIVISIBLE", non_divisible},
                              {"FlashInfer COMPACT_EP4", compact_ep4},
                              {"FlashInfer LARGER_PAYLOADS", larger_payloads, true},
                              {"rows of NVFP4 and MXFP8 with their scales", quantised_rows},
                              {"FlashInfer SANITIZE", sanitizing},
                              {"FlashInfer ACTIVE_RANK_MASK", active_rank_mask},
                              {"FlashInfer COMBINE bfloat16", combine_bfloat16, true},
                              {"FlashInfer COMBINE with one more payload", combine_with_one_more, true},
                              {"combine in float16 and float32", combine_other_types},
                              {"combine in the shapes without a tree", combine_published_odd}};
  return list;
}

}  // namespace a2asim::conformance
