// From what a rank asks for to what the kernels are told: every check that can be made before anything is written.
#pragma once

#include <cstdint>

#include "gpu/launch.h"
#include "model/alltoall/alltoall.h"

namespace a2asim::gpu {

// What one rank's calls depend on besides contents; what a captured graph has baked in.
struct RankPlan {
  std::int64_t num_tokens = 0;
  std::int64_t runtime_max_tokens_per_rank = 0;          // dispatch's, sanitize's, experts'
  std::int64_t combine_runtime_max_tokens_per_rank = 0;  // combine's, normally the same
};

// Device memory of one rank's inputs and output.
struct StagedRank {
  const std::int32_t* token_selected_experts = nullptr;
  const std::byte* payloads[kMaxPayloads] = {};
  RouteGroup* routes = nullptr;
  std::byte* output = nullptr;
};

// Refused, as FlashInfer does or should: R not in 1..max_num_tokens, more tokens than R or than the tables hold, spans
// of the wrong size, an expert id out of range, a payload whose receive region is not aligned to its vectors.
Result<RankPlan> check_dispatch(const AllToAllConfig& config, int rank, const DispatchInput& input);

Result<void> check_combine(const AllToAllConfig& config, int rank, std::int64_t runtime_max_tokens_per_rank);

Result<ExpertArgs> expert_args(const AllToAllConfig& config, int rank, const ExpertPayloads& payloads);

// runtime_max_tokens_per_rank of the result is dispatch's; for combine the caller puts combine's.
RankArgs rank_args(const AllToAllConfig& config, int rank, const RankPlan& plan, const StagedRank& staged);

// The largest of 16, 8, 4, 2, 1 that divides bytes.
constexpr std::int32_t vector_width_bytes(std::int64_t bytes) {
  std::int32_t width = 16;
  while (bytes % width != 0) width /= 2;
  return width;
}

}  // namespace a2asim::gpu
