#include "model/engines/vllm/rules/topology.h"

#include <algorithm>

#include "model/base/words.h"

namespace a2asim::vllm {
namespace {

struct Named {
  std::string_view name;
  Kernels kernels;
};
constexpr Named kBackends[] = {
    {"naive", Kernels::naive},
    {"allgather_reducescatter", Kernels::allgather_reducescatter},
    {"pplx", Kernels::pplx},
    {"deepep_high_throughput", Kernels::deepep_high_throughput},
    {"deepep_low_latency", Kernels::deepep_low_latency},
    {"deepep_v2", Kernels::deepep_v2},
    {"mori", Kernels::mori},
    {"mori_high_throughput", Kernels::mori},
    {"mori_low_latency", Kernels::mori},
    {"nixl_ep", Kernels::nixl_ep},
    {"flashinfer_all2allv", Kernels::flashinfer_two_sided},
    {"flashinfer_nvlink_two_sided", Kernels::flashinfer_two_sided},
    {"flashinfer_nvlink_one_sided", Kernels::flashinfer_one_sided},
};

}  // namespace

MoeRank moe_rank(const ParallelSizes& sizes, bool enable_expert_parallel, std::int64_t dp_rank, std::int64_t pcp_rank,
                 std::int64_t tp_rank) {
  const std::int64_t flat = sizes.flat();
  const std::int64_t flat_rank = (dp_rank * sizes.pcp + pcp_rank) * sizes.tp + tp_rank;
  if (enable_expert_parallel && flat > 1) return {1, 0, sizes.dp, dp_rank, flat, flat_rank};
  return {flat, flat_rank, sizes.dp, dp_rank, 1, 0};
}

bool uses_sequence_parallel(const KernelRules& rules, std::string_view backend, bool enable_expert_parallel,
                            const ParallelSizes& sizes) {
  const auto backends = split_words(rules.sequence_parallel_backends);
  return enable_expert_parallel && sizes.tp > 1 && (sizes.dp > 1 || !rules.sequence_parallel_needs_dp) &&
         std::ranges::find(backends, backend) != backends.end();
}

bool uses_all2all(const KernelRules& rules, bool enable_expert_parallel, bool sequence_parallel,
                  const ParallelSizes& sizes) {
  if (!enable_expert_parallel || sizes.flat() <= 1) return false;
  return sizes.dp > 1 || (rules.by_pcp && sizes.pcp > 1) || (rules.by_sequence_parallel && sequence_parallel);
}

Kernels kernels_of(std::string_view backend) {
  const auto* const found = std::ranges::find(kBackends, backend, &Named::name);
  return found == std::end(kBackends) ? Kernels::none : found->kernels;
}

}  // namespace a2asim::vllm
