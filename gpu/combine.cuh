// Combine: every token's partial sums, read from its destinations and added in a fixed order.
//
// Included by one .cu file a number type, so that they compile side by side. The shape of the sum is
// model/alltoall/reduction.h's. Its trees for 6, 10 and 22 are the balanced tree of the next power of two whose last
// positions hold the identity of addition, -0.0: so a handful of kernels serves every top_k. A position without a copy
// counts as +0.0.
#pragma once

#include "gpu/launch_config.cuh"
#include "gpu/numbers.cuh"
#include "gpu/vector.cuh"
#include "model/alltoall/reduction.h"

namespace a2asim::gpu {

constexpr bool sums_as_tree(int top_k) { return top_k == 1 || has_tree_shape(top_k); }

// Takes subnormal numbers for zero and gives none, as reduction.h has it.
__device__ inline float add_flushed_rn(float a, float b) {
  float sum;
  asm("add.rn.ftz.f32 %0, %1, %2;" : "=f"(sum) : "f"(a), "f"(b));
  return sum;
}

template <int kPositions, bool kTree>
__device__ inline float sum_of(float (&value)[kPositions]) {
  if constexpr (kTree) {
#pragma unroll
    for (int stride = 1; stride < kPositions; stride *= 2) {
#pragma unroll
      for (int i = 0; i + stride < kPositions; i += 2 * stride) value[i] = add_flushed_rn(value[i], value[i + stride]);
    }
  } else {
#pragma unroll
    for (int i = 1; i < kPositions; ++i) value[0] = add_flushed_rn(value[0], value[i]);
  }
  return value[0];
}

// What a thread holds of one row: kWidth bytes, in words of 32 bits (a narrow element in the low bits).
template <int kWidth>
struct RowPiece {
  std::uint32_t word[kWidth < 4 ? 1 : kWidth / 4];
};

template <class T>
__device__ inline T load_as(const std::byte* from) {
  return *reinterpret_cast<const T*>(from);
}

// Never through the cache for constants: a peer may still write these rows when the kernel starts.
template <int kWidth>
__device__ inline RowPiece<kWidth> load_piece(const std::byte* from) {
  if constexpr (kWidth == 16) {
    const uint4 value = load_as<uint4>(from);
    return {{value.x, value.y, value.z, value.w}};
  } else if constexpr (kWidth == 4) {
    return {{load_as<std::uint32_t>(from)}};
  } else if constexpr (kWidth == 2) {
    return {{load_as<std::uint16_t>(from)}};
  } else {
    static_assert(kWidth == 1);
    return {{load_as<std::uint8_t>(from)}};
  }
}

template <int kWidth>
__device__ inline void store_piece(std::byte* to, const RowPiece<kWidth>& piece) {
  if constexpr (kWidth == 16) {
    *reinterpret_cast<uint4*>(to) = make_uint4(piece.word[0], piece.word[1], piece.word[2], piece.word[3]);
  } else {
    store_vector(to, make_uint4(piece.word[0], 0, 0, 0), kWidth);
  }
}

// alone: there is one position, so nothing is added.
template <NumberType kType, int kWidth, int kPositions, bool kTree>
__device__ inline RowPiece<kWidth> reduce(const RowPiece<kWidth> (&rows)[kPositions], bool alone) {
  using Element = Number<kType>;
  if (kType == NumberType::float32 && alone) return rows[0];
  RowPiece<kWidth> result;
#pragma unroll
  for (int w = 0; w < static_cast<int>(sizeof(result.word) / 4); ++w) {
    float sum[Element::per_word];
#pragma unroll
    for (int e = 0; e < Element::per_word; ++e) {
      float value[kPositions];
#pragma unroll
      for (int j = 0; j < kPositions; ++j) value[j] = Element::unpack(rows[j].word[w], e);
      sum[e] = alone ? value[0] : sum_of<kPositions, kTree>(value);
    }
    result.word[w] = Element::pack(sum);
  }
  return result;
}

// The token a block sums next, and where its partial sums lie.
struct Parts {
  int local;  // -1: no more work
  int token;
  int part;                        // of its row
  unsigned present;                // bit j: position j has a copy
  const std::byte* row[kMaxTopK];  // [position]
};

// One warp, lane j for position j. Items are the parts of the tokens' rows. Returns the local rank.
__device__ inline int find_parts(const LaunchArgs& args, int item, int parts_of_row, Parts& found) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int number = item / parts_of_row;
  const int local = local_rank_of(args, number);
  const RankArgs& rank = args.ranks[local];
  const int token = number - args.first_token[local];
  int to = -1, slot = -1;
  if (lane < rank.top_k) {
    const WorkspaceLayout at = layout_of(args, rank);
    std::byte* own = args.slices[rank.rank];
    const std::int64_t entry = static_cast<std::int64_t>(token) * rank.top_k + lane;
    to = words(own, at.topk_target_ranks)[entry];
    slot = words(own, at.topk_send_indices)[entry];
  }
  if (to >= 0) {
    found.row[lane] = args.slices[to] + rank.combine_row(rank.row_number(rank.rank, slot));
  }
  const unsigned present = __ballot_sync(kFullWarp, to >= 0);
  if (lane == 0) {
    found.present = present;
    found.local = local;
    found.token = token;
    found.part = item % parts_of_row;
  }
  return local;
}

// Trees over wide rows have a kernel of exactly top_k positions; the others are padded.
template <int kWidth, bool kTree>
inline constexpr bool kIsPadded = kWidth != 16 || !kTree;

template <NumberType kType, int kWidth, int kPositions, bool kTree>
__device__ inline void add_parts(const RankArgs& rank, const Parts& parts, int parts_of_row, int adding_threads) {
  std::byte* output = rank.output + static_cast<std::int64_t>(parts.token) * rank.combine_bytes_per_token;
  const unsigned present = parts.present;
  const int top_k = rank.top_k;
  const int part_bytes = adding_threads * kWidth;
  for (int at = parts.part * part_bytes + static_cast<int>(threadIdx.x) * kWidth; at < rank.combine_bytes_per_token;
       at += parts_of_row * part_bytes) {
    RowPiece<kWidth> rows[kPositions];
#pragma unroll
    for (int j = 0; j < kPositions; ++j) {
      const std::uint32_t absent = kIsPadded<kWidth, kTree> && j >= top_k ? Number<kType>::negative_zeros : 0u;
      for (std::uint32_t& word : rows[j].word) word = absent;
      if ((present >> j & 1) != 0) rows[j] = load_piece<kWidth>(parts.row[j] + at);
    }
    store_piece<kWidth>(output + at, reduce<kType, kWidth, kPositions, kTree>(rows, top_k == 1));
  }
}

// Combine's round is the one after dispatch's. The slice gets its number when nobody reads the old one any more.
struct NextRound {
  const LaunchArgs& args;
  __device__ std::int32_t operator()(const RankArgs& rank) const { return *round_in_slice(args, rank) + 1; }
};

// Threads of one warp or block; step: how many.
__device__ inline void begin_next_round(const LaunchArgs& args, int first, int step) {
  for (int i = first; i < args.num_local_ranks; i += step) *round_in_slice(args, args.ranks[i]) += 1;
}

// All threads of one block: the local ranks' own data is complete (the kernel before this one has ended).
__device__ inline void meet_for_combine(const LaunchArgs& args) {
  signal_peers(args, Round::combine, false, NextRound{args});
  wait_for_peers(args, Round::combine, NextRound{args});
  __syncthreads();
}

// One warp: waits for the flags of this rank's peers alone; a block of its own compares their records. False: too late.
__device__ inline bool wait_for_flags(const LaunchArgs& args, const RankArgs& rank) {
  const std::uint64_t start = wall_time_ns();
  const std::int32_t expected = NextRound{args}(rank);
  const std::int32_t* flags = words(args.slices[rank.rank], flags_offset(args, Round::combine));
  bool arrived = true;
  for (int peer = static_cast<int>(threadIdx.x) % kWarpSize; peer < args.ep_size; peer += kWarpSize) {
    if (!is_active(rank.active_rank_mask, peer) || args.local_index[peer] >= 0) continue;
    arrived &= wait_for_peer(args, rank.rank, peer, start, [&] { return load_acquire(flags + peer) == expected; });
  }
  return __all_sync(kFullWarp, arrived) != 0;
}

struct CombineStart {
  Stream stream = nullptr;
  bool only_load = false;
};

// Blocks that wait for another launch must not take all of the device that it needs: where launches share one, a kernel
// of one block waits ahead of the adding. Elsewhere the adding blocks look for the flags themselves.
__host__ __device__ inline bool meets_ahead(const LaunchArgs& args) {
  return args.has_remote_ranks != 0 && args.shares_device != 0;
}
int launch_meet(const LaunchArgs& args, Stream stream);

constexpr int kMaxCombineThreads = 512;

// When all blocks have drawn their last item and know the round, the next launch's start is set. One warp a block.
__device__ inline void count_block(const LaunchArgs& args) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  bool is_last = false;
  if (lane == 0) {
    __threadfence();
    is_last = atomicAdd(&args.state->done_blocks, 1u) == gridDim.x - 1;
    if (is_last) args.state->done_blocks = args.state->next_combine = 0;
  }
  if (__any_sync(kFullWarp, is_last) == 0 || meets_ahead(args)) return;
  begin_next_round(args, lane, kWarpSize);
}

// The last warp of a block scouts: it draws items and finds their parts, one step ahead of the warps that add. Of few
// tokens every row is shared out to several blocks. The first block meets the peers.
template <NumberType kType, int kWidth, int kPositions, bool kTree>
__global__ void __launch_bounds__(kMaxCombineThreads)
    combine_kernel(const __grid_constant__ LaunchArgs args, int parts_of_row) {
  __shared__ Parts parts[2];
  const int first_adding = meets_ahead(args) ? 0 : 1;
  int number = static_cast<int>(blockIdx.x) - first_adding;
  if (number < 0) {
    wait_for_previous_kernel();
    meet_for_combine(args);
    if (threadIdx.x < kWarpSize) count_block(args);
    return;
  }
  const int adding_blocks = static_cast<int>(gridDim.x) - first_adding;
  const int adding_threads = static_cast<int>(blockDim.x) - kWarpSize;
  const bool scouts = static_cast<int>(threadIdx.x) >= adding_threads;
  const int num_items = args.first_token[args.num_local_ranks] * parts_of_row;
  const bool draws = adding_blocks < num_items;
  TicketCounter tickets(&args.state->next_combine, adding_blocks);
  // Local ranks, by bit, all of whose peers have signalled.
  std::uint64_t met = args.has_remote_ranks == 0 || meets_ahead(args) ? ~std::uint64_t{0} : 0;
  if (scouts) wait_for_previous_kernel();
  for (int step = 0;; ++step) {
    Parts& found = parts[step % 2];
    if (scouts && number < num_items) {
      if (draws) tickets.ask();
      const int local = find_parts(args, number, parts_of_row, found);
      if (!is_active(met, local)) {
        met |= wait_for_flags(args, args.ranks[local]) ? std::uint64_t{1} << local : ~std::uint64_t{0};
      }
      number = draws ? tickets.answer() : num_items;
    } else if (scouts) {
      count_block(args);
      found.local = -1;
    }
    __syncthreads();
    if (found.local < 0) break;
    if (!scouts)
      add_parts<kType, kWidth, kPositions, kTree>(args.ranks[found.local], found, parts_of_row, adding_threads);
  }
}

template <NumberType kType, int kWidth, int kPositions, bool kTree>
int start_combine(const LaunchArgs& args, const CombineStart& how) {
  int vectors = 0;
  for (int i = 0; i < args.num_local_ranks; ++i) {
    vectors = max(vectors, args.ranks[i].combine_bytes_per_token / kWidth);
  }
  const int tokens = max(1, args.first_token[args.num_local_ranks]);
  const auto kernel = combine_kernel<kType, kWidth, kPositions, kTree>;
  if (how.only_load) return load(kernel);
  // More positions need more registers, so fewer threads.
  constexpr int most_threads = kPositions > 8 ? 256 : 448;
  const int resident = resident_blocks(kernel, threads_for(vectors, most_threads) + kWarpSize);
  if (resident <= 0) return cudaErrorLaunchOutOfResources;
  const int meeting_blocks = meets_ahead(args) ? 0 : 1;
  const int room = max(1, resident - meeting_blocks);
  const int parts_of_row = max(1, min(room / tokens, (vectors + 127) / 128));
  const int threads = threads_for((vectors + parts_of_row - 1) / parts_of_row, most_threads) + kWarpSize;
  if (meets_ahead(args)) {
    const int met = launch_meet(args, how.stream);
    if (met != cudaSuccess) return met;
  }
  const int adding = min(tokens * parts_of_row, room);
  return start({adding + meeting_blocks, threads, how.stream, true}, kernel, args, parts_of_row);
}

template <NumberType kType>
int combine_of_type(const LaunchArgs& args, int top_k, const CombineStart& how) {
  constexpr int element_bytes = 4 / Number<kType>::per_word;
  bool wide = true;
  for (int i = 0; i < args.num_local_ranks; ++i) wide = wide && args.ranks[i].combine_bytes_per_token % 16 == 0;
  if (!wide) {
    return sums_as_tree(top_k) ? start_combine<kType, element_bytes, 32, true>(args, how)
                               : start_combine<kType, element_bytes, 32, false>(args, how);
  }
  if (!sums_as_tree(top_k)) {
    return top_k <= 16 ? start_combine<kType, 16, 16, false>(args, how)
                       : start_combine<kType, 16, 32, false>(args, how);
  }
  switch (top_k) {
    case 1:
      return start_combine<kType, 16, 1, true>(args, how);
    case 2:
      return start_combine<kType, 16, 2, true>(args, how);
    case 4:
      return start_combine<kType, 16, 4, true>(args, how);
    case 6:
      return start_combine<kType, 16, 6, true>(args, how);
    case 8:
      return start_combine<kType, 16, 8, true>(args, how);
    case 10:
      return start_combine<kType, 16, 10, true>(args, how);
    case 16:
      return start_combine<kType, 16, 16, true>(args, how);
    case 22:
      return start_combine<kType, 16, 22, true>(args, how);
    default:
      return cudaErrorInvalidValue;  // no other has the shape of a tree
  }
}

}  // namespace a2asim::gpu
