// What the kernels of dispatch share: where a token's rows go, and the copying of a row to all its destinations.
//
// A row is read once and written to all its destinations.
#pragma once

#include "gpu/launch_config.cuh"
#include "gpu/vector.cuh"

namespace a2asim::gpu {

// An id out of range is noted in the state, the smallest (rank, token, position) of all.
__device__ inline void note_bad_expert(const LaunchArgs& args, const RankArgs& rank, int token, int position) {
  const auto where = static_cast<unsigned long long>(rank.rank) << 48 | static_cast<unsigned long long>(token) << 8 |
                     static_cast<unsigned long long>(position);
  atomicMin(reinterpret_cast<unsigned long long*>(&args.state->bad_expert), where);
}

__device__ inline bool is_expert(const RankArgs& rank, int expert) {
  return static_cast<unsigned>(expert) < static_cast<unsigned>(rank.num_experts);
}

__device__ inline int rank_of_expert(const LaunchArgs& args, const RankArgs& rank, int expert) {
  return static_cast<int>(target_rank_in<std::uint32_t>(static_cast<std::uint32_t>(expert),
                                                        static_cast<std::uint32_t>(rank.num_experts),
                                                        static_cast<std::uint32_t>(args.ep_size)));
}

// Tells a destination how many rows it gets: before the flag, so that nothing but the flag is left to be sent then.
__device__ inline void announce(const LaunchArgs& args, const RankArgs& rank, int to, int total) {
  const WorkspaceLayout at = layout_of(args, rank);
  words(args.slices[rank.rank], at.send_counters)[to] = total;
  if (is_active(rank.active_rank_mask, to)) words(args.slices[to], at.recv_counters)[rank.rank] = total;
}

// Where a token's rows go.
struct Destinations {
  int count;
  unsigned long long row[kMaxTopK][kMaxPayloads];  // [destination][payload]: address of the row
};

// The rank of a top-k entry's expert, as distinct_targets of routing.h has it.
struct Target {
  int to = -1;           // -1: no rank
  bool carries = false;  // the first position with this rank: its row is the one that is sent
};

// One warp, lane j for position j.
__device__ inline Target target_of(const LaunchArgs& args, const RankArgs& rank, int expert, bool refused) {
  Target target;
  if (is_expert(rank, expert) && !refused) {
    target.to = rank_of_expert(args, rank, expert);
    if (!is_active(rank.active_rank_mask, target.to)) target.to = -1;
  }
  const unsigned earlier_lanes = (1u << threadIdx.x % kWarpSize) - 1;
  const unsigned same = __match_any_sync(kFullWarp, target.to);
  target.carries = target.to >= 0 && (same & earlier_lanes) == 0;
  return target;
}

// The same warp: the token's destinations, and its rows of the top-k tables.
__device__ inline void keep_destinations(const LaunchArgs& args, const RankArgs& rank, int token, const Target& target,
                                         int slot, bool refused, Destinations& found) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const unsigned carriers = __ballot_sync(kFullWarp, target.carries);
  if (lane == 0) found.count = __popc(carriers);
  if (target.carries) {
    // Peers before the rank itself: their rows have the longer way.
    const unsigned peers = __ballot_sync(carriers, target.to != rank.rank);
    const bool is_peer = target.to != rank.rank;
    const int index = is_peer ? __popc(peers & ((1u << lane) - 1)) : __popc(peers);
    const std::int64_t row = rank.row_number(rank.rank, slot);
    for (int p = 0; p < rank.num_payloads; ++p) {
      found.row[index][p] = reinterpret_cast<unsigned long long>(args.slices[target.to] + rank.row(p, row));
    }
  }
  if (lane >= rank.top_k || refused) return;
  const WorkspaceLayout at = layout_of(args, rank);
  const std::int64_t entry = static_cast<std::int64_t>(token) * rank.top_k + lane;
  words(args.slices[rank.rank], at.topk_target_ranks)[entry] = target.carries ? target.to : -1;
  words(args.slices[rank.rank], at.topk_send_indices)[entry] = target.carries ? slot : -1;
}

__device__ inline int expert_of_lane(const RankArgs& rank, int token) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  return lane < rank.top_k ? rank.token_selected_experts[static_cast<std::int64_t>(token) * rank.top_k + lane] : -1;
}

__device__ inline bool was_refused(const LaunchArgs& args) {
  return *const_cast<volatile std::uint64_t*>(&args.state->bad_expert) != kNoBadExpert;
}

// One vector of a token's rows, on its way from the source to every destination.
struct Vector {
  int payload;
  int offset_bytes;
  int width_bytes;
  uint4 value;
};

__device__ inline Vector load_vector_of(const RankArgs& rank, int token, int vector) {
  int p = 0;
  while (p + 1 < rank.num_payloads && vector >= rank.payloads[p + 1].first_vector) ++p;
  const PayloadArgs& payload = rank.payloads[p];
  const int offset = (vector - payload.first_vector) * payload.width_bytes;
  const std::byte* from = payload.source + static_cast<std::int64_t>(token) * payload.bytes_per_token + offset;
  return {p, offset, payload.width_bytes, load_vector(from, payload.width_bytes)};
}

// Streaming stores: what is written here is more than the cache holds, and nobody reads it before the next kernel.
__device__ inline void store_to_all(const Destinations& to, const Vector& vector) {
  if (vector.width_bytes == 16) {
#pragma unroll 4
    for (int d = 0; d < to.count; ++d) {
      __stcs(reinterpret_cast<uint4*>(to.row[d][vector.payload] + static_cast<unsigned>(vector.offset_bytes)),
             vector.value);
    }
  } else {
    for (int d = 0; d < to.count; ++d) {
      store_vector(reinterpret_cast<std::byte*>(to.row[d][vector.payload]) + vector.offset_bytes, vector.value,
                   vector.width_bytes);
    }
  }
}

// The copying of a block that has a token; each thread has fetched its first vectors already.
template <int kAhead>
__device__ void send_rows(const RankArgs& rank, int token, const Destinations& destinations,
                          const Vector (&ahead)[kAhead]) {
  const int threads = static_cast<int>(blockDim.x);
  int next = static_cast<int>(threadIdx.x);
#pragma unroll
  for (int i = 0; i < kAhead; ++i, next += threads) {
    if (next < rank.num_vectors) store_to_all(destinations, ahead[i]);
  }
  for (; next < rank.num_vectors; next += threads) store_to_all(destinations, load_vector_of(rank, token, next));
}

// Route, send and finish in one kernel (dispatch_few.cu).
bool has_few_tokens(const LaunchArgs& args);
int load_dispatch_few();
int launch_dispatch_few(const LaunchArgs& args, int most_vectors, Stream stream);

}  // namespace a2asim::gpu
