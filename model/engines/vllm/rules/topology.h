// How vLLM lays its ranks out, and which all-to-all kernels a mixture-of-experts layer then uses
// (FusedMoEParallelConfig, ParallelConfig.use_sequence_parallel_moe).
#pragma once

#include <cstdint>
#include <string_view>

namespace a2asim::vllm {

struct ParallelSizes {
  std::int64_t tp = 1, pp = 1, dp = 1;
  std::int64_t pcp = 1;  // prefill context parallelism
  std::int64_t dcp = 1;  // decode context parallelism, inside tp
  bool operator==(const ParallelSizes&) const = default;

  std::int64_t flat() const { return dp * pcp * tp; }
};

// One rank of a pipeline stage as an expert layer sees it.
struct MoeRank {
  std::int64_t tp_size = 1, tp_rank = 0, dp_size = 1, dp_rank = 0, ep_size = 1, ep_rank = 0;
};
MoeRank moe_rank(const ParallelSizes& sizes, bool enable_expert_parallel, std::int64_t dp_rank, std::int64_t pcp_rank,
                 std::int64_t tp_rank);

enum class Kernels : std::uint8_t {
  none,  // the layer is not expert-parallel over several replicas: no all-to-all
  naive,
  allgather_reducescatter,
  pplx,
  deepep_high_throughput,
  deepep_low_latency,
  deepep_v2,
  mori,
  nixl_ep,
  flashinfer_two_sided,
  flashinfer_one_sided,
};

struct KernelRules {
  bool by_sequence_parallel = false;            // #47070: the all-to-all also without data parallelism
  bool by_pcp = false;                          // #46570
  std::string_view sequence_parallel_backends;  // words; empty: the version has no sequence-parallel experts
  bool sequence_parallel_needs_dp = true;
};

bool uses_sequence_parallel(const KernelRules& rules, std::string_view backend, bool enable_expert_parallel,
                            const ParallelSizes& sizes);
bool uses_all2all(const KernelRules& rules, bool enable_expert_parallel, bool sequence_parallel,
                  const ParallelSizes& sizes);
Kernels kernels_of(std::string_view backend);  // by the backend's name; none: not a name of any version

// Experts of each rank: the first num_experts % ep_size ranks get one more.
constexpr std::int64_t local_experts(std::int64_t num_experts, std::int64_t ep_size, std::int64_t ep_rank) {
  return num_experts / ep_size + (ep_rank < num_experts % ep_size ? 1 : 0);
}

}  // namespace a2asim::vllm
