// Inputs on their way to the kernels: the memory that holds ids, payloads, routes and outputs of each rank.
#include <algorithm>

#include "gpu/cuda_alltoall.h"
#include "gpu/launch.h"
#include "model/base/check_invariant.h"

namespace a2asim::gpu {
namespace {

// Staging regions of one rank: ids, payloads, output, each on a boundary that any vector divides.
constexpr std::int64_t staged(std::int64_t bytes) { return (bytes + 255) / 256 * 256; }

}  // namespace

// Grows only. A graph holds the addresses, so growing drops the graphs; they are recorded again from their plans.
Result<void> CudaAllToAll::reserve_staging(std::size_t local, std::int64_t tokens) {
  A2ASIM_INVARIANT(local < staging_.size() && tokens >= 0, "the rank is driven here");
  Staging& staging = staging_[local];
  if (staging.memory != nullptr && tokens <= staging.capacity_tokens) return {};
  const AllToAllConfig& config = config_of(local);
  const std::int64_t capacity = std::max<std::int64_t>(tokens, 1);
  const std::int64_t route_bytes = (capacity + kRouteGroup_tokens - 1) / kRouteGroup_tokens * config.ep_size *
                                   static_cast<std::int64_t>(sizeof(RouteGroup));
  std::int64_t bytes =
      staged(capacity * config.top_k * 4) + staged(capacity * config.combine_bytes_per_token()) + staged(route_bytes);
  for (const std::int64_t payload : config.payload_bytes_per_token) bytes += staged(capacity * payload);
  const int id = device_of(local_ranks_[local]);
  if (auto ok = cuda_result(cudaSetDevice(id), "cudaSetDevice"); !ok) return ok;
  graphs_.clear();
  staging = {};
  auto memory = allocate_device(bytes);
  if (!memory) return tl::unexpected(memory.error());
  staging.memory = std::move(*memory);
  staging.capacity_tokens = capacity;
  std::byte* at = staging.memory.get();
  staging.at.token_selected_experts = reinterpret_cast<std::int32_t*>(at);
  at += staged(capacity * config.top_k * 4);
  for (std::size_t p = 0; p < config.payload_bytes_per_token.size(); ++p) {
    staging.at.payloads[p] = at;
    at += staged(capacity * config.payload_bytes_per_token[p]);
  }
  staging.at.routes = reinterpret_cast<RouteGroup*>(at);
  at += staged(route_bytes);
  staging.at.output = at;
  return {};
}

Result<void> CudaAllToAll::stage_rank(std::size_t local, const DispatchInput& input) {
  A2ASIM_INVARIANT(input.payloads.size() == config_of(local).payload_bytes_per_token.size(), "inputs were checked");
  if (auto ok = reserve_staging(local, input.local_num_tokens); !ok) return ok;
  const int id = device_of(local_ranks_[local]);
  if (auto ok = cuda_result(cudaSetDevice(id), "cudaSetDevice"); !ok) return ok;
  const auto copy = [&](const void* to, std::span<const std::byte> from) -> Result<void> {
    if (from.empty()) return {};
    // The staging memory is ours to write; StagedRank is the kernels' read-only view of it.
    return cuda_result(cudaMemcpy(const_cast<void*>(to), from.data(), from.size(), cudaMemcpyHostToDevice),
                       "copying inputs");
  };
  const StagedRank& at = staging_[local].at;
  A2ASIM_INVARIANT(input.local_num_tokens <= staging_[local].capacity_tokens, "staging was reserved");
  if (auto ok = copy(at.token_selected_experts, std::as_bytes(input.token_selected_experts)); !ok) return ok;
  for (std::size_t p = 0; p < input.payloads.size(); ++p) {
    if (auto ok = copy(at.payloads[p], input.payloads[p]); !ok) return ok;
  }
  // A row that combine leaves out must not look like the last round's.
  const std::int64_t bytes = staging_[local].capacity_tokens * config_of(local).combine_bytes_per_token();
  const int cleared = cudaMemset(at.output, 0xff, static_cast<std::size_t>(bytes));
  if (auto ok = cuda_result(cleared, "clearing outputs"); !ok) return ok;
  // The kernels run on streams that do not wait for the default one, on which these copies went.
  return cuda_result(cudaStreamSynchronize(nullptr), "copying inputs");
}

Result<void> CudaAllToAll::stage(std::span<const DispatchInput> inputs) {
  auto plans = check_inputs(inputs);
  if (!plans) return tl::unexpected(plans.error());
  for (std::size_t local = 0; local < inputs.size(); ++local) {
    if (!is_active(local)) continue;
    if (auto ok = stage_rank(local, inputs[local]); !ok) return ok;
  }
  plans_ = std::move(*plans);
  return {};
}

}  // namespace a2asim::gpu
