#include "model/engines/vllm/rules/deepep.h"

#include <algorithm>
#include <limits>

namespace a2asim::vllm {

std::int64_t deepep_dispatch_bytes(std::int64_t hidden_size) {
  return 16 + std::max(2 * hidden_size, hidden_size + 4 * (hidden_size / 128));  // bf16, or fp8 with scales
}

std::int64_t deepep_combine_bytes(std::int64_t hidden_size) { return 4 * (hidden_size / 128) + 2 * hidden_size; }

std::optional<std::int64_t> deepep_rdma_bytes(std::int64_t max_tokens, std::int64_t hidden_size,
                                              std::int64_t num_experts) {
  using Wide = __int128;
  const Wide dispatch = deepep_dispatch_bytes(hidden_size), combine = deepep_combine_bytes(hidden_size);
  const Wide rows = Wide{num_experts} * max_tokens;
  const Wide send = std::max(max_tokens * dispatch, rows * combine);
  const Wide receive = rows * std::max(dispatch, combine);
  const Wide signals = (Wide{4} * num_experts + 127) / 128 * 128;
  const Wide bytes = (2 * (send + receive + signals) + 128) / 128 * 128;
  if (bytes > std::numeric_limits<std::int64_t>::max()) return std::nullopt;
  return static_cast<std::int64_t>(bytes);
}

std::optional<std::int64_t> deepep_hidden_size(std::int64_t hidden_size) {
  const auto* const found = std::ranges::lower_bound(kDeepEpHiddenSizes, hidden_size);
  return found == kDeepEpHiddenSizes.end() ? std::nullopt : std::optional(*found);
}

DeepEpBuffer deepep_high_throughput_buffer(std::int64_t buffer_bytes, bool crosses_nodes) {
  constexpr std::int64_t kQps = 10;  // half of the 20 SMs
  return crosses_nodes ? DeepEpBuffer{buffer_bytes, buffer_bytes, kQps} : DeepEpBuffer{buffer_bytes, 0, 1};
}

DeepEpBuffer deepep_low_latency_buffer(std::int64_t buffer_bytes, std::int64_t max_tokens, std::int64_t hidden_size,
                                       std::int64_t ep_size, std::int64_t num_experts) {
  const auto rdma = deepep_rdma_bytes(max_tokens, hidden_size, num_experts);
  return {buffer_bytes, rdma.value_or(std::numeric_limits<std::int64_t>::max()), num_experts / ep_size};
}

}  // namespace a2asim::vllm
