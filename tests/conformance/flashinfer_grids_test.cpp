// FlashInfer's own test grids (tests/comm/test_trtllm_moe_alltoall.py) as parameters. Where its oracle sorts columns,
// rows are compared here in slot order.
#include <string>
#include <vector>

#include "tests/conformance/round.h"

namespace a2asim::conformance {
namespace {

constexpr std::uint64_t kSeed = 0xD5;

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

// Dispatch and sanitize, twice, so that the second round meets the rows of the first.
void check_dispatch(const Backend& backend, const Shape& shape, std::int32_t invalid_id,
                    std::uint64_t mask = ~std::uint64_t{0}) {
  AllToAllConfig config;
  config.ep_size = shape.ep_size;
  config.top_k = shape.top_k;
  config.num_experts = shape.num_experts;
  config.max_num_tokens = shape.tokens;  // the grids have ep_size times as much: here it must just fit
  config.payload_bytes_per_token = shape.payload_bytes;
  config.expert_id_payload = shape.expert_id_payload;
  config.active_rank_mask = mask;
  CAPTURE(config.ep_size);
  CAPTURE(shape.tokens);
  CAPTURE(config.top_k);
  const std::vector<AllToAllConfig> configs(static_cast<std::size_t>(shape.ep_size), config);
  Pair pair(backend, configs);
  Random random(kSeed);
  for (int round = 0; round < 2; ++round) {
    std::vector<TokenBatch> batches;
    for (const AllToAllConfig& one : configs) {
      batches.emplace_back(one, ExpertPayloads{-1, -1}, shape.tokens, RoutingPattern::with_repeats, random);
    }
    pair.round(batches, shape.tokens, invalid_id, nullptr);
  }
}

struct CombineShape {
  int ep_size;
  std::int64_t tokens, hidden;
  int top_k;
};
const std::vector<CombineShape> kCombine = {{4, 16, 4096, 2}, {4, 16, 2880, 4},  {8, 16, 5120, 6},  {8, 16, 7168, 8},
                                            {8, 16, 4096, 8}, {8, 16, 4096, 10}, {8, 16, 4096, 16}, {8, 16, 4096, 22}};

// lora: one more int32 payload.
void check_combine(const Backend& backend, const CombineShape& shape, DataType type, bool lora) {
  AllToAllConfig config;
  config.ep_size = shape.ep_size;
  config.top_k = shape.top_k;
  config.num_experts = shape.ep_size * shape.top_k;
  config.max_num_tokens = shape.tokens;
  config.combine_type = type;
  config.hidden_size = shape.hidden;
  // The grids have [ids, hidden, uint8]; the weights are ours, between them to keep 4-byte addresses.
  config.payload_bytes_per_token = {4 * shape.top_k, shape.hidden * element_bytes(type), 4 * shape.top_k};
  if (lora) config.payload_bytes_per_token.push_back(4);
  config.payload_bytes_per_token.push_back(1);
  config.expert_id_payload = 0;
  const ExpertPayloads payloads{1, 2};
  CAPTURE(config.top_k);
  const std::vector<AllToAllConfig> configs(static_cast<std::size_t>(shape.ep_size), config);
  Pair pair(backend, configs);
  Random random(kSeed);
  std::vector<TokenBatch> batches;
  for (const AllToAllConfig& one : configs) {
    batches.emplace_back(one, payloads, shape.tokens, RoutingPattern::distinct, random);
  }
  pair.round(batches, shape.tokens, -1, &payloads);
}

}  // namespace

CONFORMANCE_TEST("FlashInfer SINGLE_GPU") {
  const struct {
    std::int64_t tokens, dim, experts;
    int top_k;
  } grid[] = {{902, 7168, 256, 8}, {10, 288, 128, 4}, {10, 8, 8, 2}};
  for (const auto& row : grid) {
    check_dispatch(backend, {1, row.tokens, row.experts, row.top_k, growing(row.dim, {2, 2, 4, 1, 4}), 2}, -3);
  }
}

CONFORMANCE_TEST("FlashInfer MULTI_RANK") {
  check_dispatch(backend, {2, 5, 2, 1, growing(8, {2, 2, 4, 1, 4}), -1}, -1);
  check_dispatch(backend, {4, 32, 4, 1, growing(32768, {2, 2, 4, 1, 4}), -1}, -1);
  check_dispatch(backend, {8, 16, 8, 1, growing(2048, {2, 2, 4, 1, 4}), -1}, -1);
}

CONFORMANCE_TEST("FlashInfer NON_DIVISIBLE") {
  check_dispatch(backend, {4, 16, 6, 1, {64}, -1}, -1);
  check_dispatch(backend, {5, 16, 8, 1, {128}, -1}, -1);
  check_dispatch(backend, {3, 16, 10, 1, {32}, -1}, -1);
}

CONFORMANCE_TEST("FlashInfer COMPACT_EP4") {
  for (const int top_k : {6, 8, 10, 16, 22}) {
    check_dispatch(backend, {4, 4, 64, top_k, {4 * 256, 128, 4 * 22, 4 * 22}, 2}, -1);
  }
}

CONFORMANCE_TEST("FlashInfer LARGER_PAYLOADS") {
  for (const std::size_t payloads : {std::size_t{5}, std::size_t{6}}) {
    check_dispatch(backend, {8, 16, 8, 1, std::vector<std::int64_t>(payloads, 4 * 2048), -1}, -1);
  }
}

CONFORMANCE_TEST("FlashInfer SANITIZE") {
  for (const auto& [ep_size, tokens] : {std::pair<int, std::int64_t>{2, 64}, {4, 32}, {8, 16}}) {
    check_dispatch(backend, {ep_size, tokens, ep_size, 1, {4, 1}, 0}, -3);
  }
}

CONFORMANCE_TEST("FlashInfer ACTIVE_RANK_MASK") {
  check_dispatch(backend, {4, 16, 4, 1, {4, 64}, 0}, -1, ~(std::uint64_t{1} << 2));
  check_dispatch(backend, {5, 16, 5, 1, {4, 128}, 0}, -1, ~(std::uint64_t{1} << 0));
}

CONFORMANCE_TEST("FlashInfer COMBINE bfloat16") {
  for (const CombineShape& shape : kCombine) check_combine(backend, shape, DataType::bfloat16, false);
}

CONFORMANCE_TEST("FlashInfer COMBINE with one more payload") {
  check_combine(backend, {8, 16, 7168, 8}, DataType::bfloat16, true);
  check_combine(backend, {4, 16, 4096, 2}, DataType::bfloat16, true);
}

CONFORMANCE_TEST("combine in float16 and float32") {
  for (const DataType type : {DataType::float16, DataType::float32}) {
    for (const CombineShape& shape : kCombine)
      check_combine(backend, {shape.ep_size, 16, 320, shape.top_k}, type, false);
  }
}

CONFORMANCE_TEST("combine in the shapes without a tree") {
  for (const int top_k : {1, 3, 12, 14, 18}) check_combine(backend, {4, 9, 136, top_k}, DataType::bfloat16, false);
}

}  // namespace a2asim::conformance
