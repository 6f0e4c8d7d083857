// DeepEP's buffers as vLLM asks for them (vllm/distributed/device_communicators/all2all.py) and DeepEP's own formula of
// the low-latency one (csrc/config.hpp, LowLatencyLayout).
#pragma once

#include <array>
#include <cstdint>
#include <optional>

namespace a2asim::vllm {

// get_low_latency_rdma_size_hint. num_experts: physical, redundant ones included; the number of ranks does not enter.
// Nothing: it does not fit int64.
std::optional<std::int64_t> deepep_rdma_bytes(std::int64_t max_tokens, std::int64_t hidden_size,
                                              std::int64_t num_experts);
// Bytes that a token takes on its way there and back.
std::int64_t deepep_dispatch_bytes(std::int64_t hidden_size);
std::int64_t deepep_combine_bytes(std::int64_t hidden_size);

// Buffer's host assertion: num_rdma_bytes / 16 < INT_MAX.
constexpr bool deepep_accepts(std::int64_t rdma_bytes) { return rdma_bytes / 16 < (std::int64_t{1} << 31) - 1; }

// Hidden sizes that the low-latency kernels are compiled for; a smaller one is rounded up to the next.
inline constexpr std::array<std::int64_t, 8> kDeepEpHiddenSizes = {2048, 2560, 3072, 4096, 5120, 6144, 7168, 8192};
std::optional<std::int64_t> deepep_hidden_size(std::int64_t hidden_size);  // nothing: above the largest

struct DeepEpBuffer {
  std::int64_t nvl_bytes = 0;
  std::int64_t rdma_bytes = 0;
  std::int64_t num_qps_per_rank = 0;
};
// buffer_bytes: VLLM_DEEPEP_BUFFER_SIZE_MB. crosses_nodes: and not told to act as if it did not.
DeepEpBuffer deepep_high_throughput_buffer(std::int64_t buffer_bytes, bool crosses_nodes);
DeepEpBuffer deepep_low_latency_buffer(std::int64_t buffer_bytes, std::int64_t max_tokens, std::int64_t hidden_size,
                                       std::int64_t ep_size, std::int64_t num_experts);

}  // namespace a2asim::vllm
