// Which rank owns an expert, and which copies a token sends. Shared by host and device code like workspace.h.
//
// FlashInfer: compute_target_rank_id (moeAlltoAllKernels.cu). One copy per distinct destination rank, the sender's own
// rank included; the first position in top-k order carries it. Slots within (source, destination) are given in token
// order here, on CPU and GPU alike (FlashInfer's atomic counter leaves the order open), so that receive buffers can be
// compared byte for byte.
#pragma once

#include <cstdint>

#include "model/alltoall/host_device.h"

namespace a2asim {

inline constexpr int kMaxTopK = 32;  // what this project's own kernels accept; FlashInfer's limits are in capacity.h

// Experts per rank: the first (num_experts % ep_size) ranks own one more (from FlashInfer v0.6.17; before, num_experts
// must be divisible). Meant for 0 <= expert < num_experts and num_experts >= ep_size. FlashInfer does not check the
// expert: other ids give the rank that its C division gives, which may be negative or >= ep_size (out of bounds there).
// Kernels, whose ids are checked, use the 32-bit form: division in 64 bits is slow there.
template <class Integer>
A2ASIM_HOST_DEVICE constexpr Integer target_rank_in(Integer expert, Integer num_experts, Integer ep_size) {
  const Integer base = num_experts / ep_size;
  const Integer remainder = num_experts % ep_size;
  if (remainder == 0) return expert / base;
  const Integer split = remainder * (base + 1);
  return expert < split ? expert / (base + 1) : remainder + (expert - split) / base;
}

A2ASIM_HOST_DEVICE constexpr int target_rank(std::int64_t expert, std::int64_t num_experts, int ep_size) {
  return static_cast<int>(target_rank_in<std::int64_t>(expert, num_experts, ep_size));
}

A2ASIM_HOST_DEVICE constexpr std::int64_t first_expert(int rank, std::int64_t num_experts, int ep_size) {
  const std::int64_t base = num_experts / ep_size;
  const std::int64_t remainder = num_experts % ep_size;
  return rank * base + (rank < remainder ? rank : remainder);
}

A2ASIM_HOST_DEVICE constexpr std::int64_t num_local_experts(int rank, std::int64_t num_experts, int ep_size) {
  return num_experts / ep_size + (rank < num_experts % ep_size ? 1 : 0);
}

// Destinations of one token: targets[j] = rank of expert j if j is the first position with that rank, else -1.
// experts: top_k global expert ids, each in [0, num_experts). Returns the number of distinct destinations.
A2ASIM_HOST_DEVICE constexpr int distinct_targets(const std::int32_t* experts, int top_k, std::int64_t num_experts,
                                                  int ep_size, std::int32_t* targets) {
  std::uint64_t seen = 0;  // ep_size <= kMaxRanks = 64
  int count = 0;
  for (int j = 0; j < top_k; ++j) {
    const int rank = target_rank(experts[j], num_experts, ep_size);
    const std::uint64_t bit = std::uint64_t{1} << rank;
    targets[j] = (seen & bit) != 0 ? -1 : rank;
    count += (seen & bit) != 0 ? 0 : 1;
    seen |= bit;
  }
  return count;
}

}  // namespace a2asim
