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

template <int kWidth>
__device__ inline RowPiece<kWidth> load_piece(const std::byte* from) {
  RowPiece<kWidth> piece;
  if constexpr (kWidth == 16) {
    const uint4 value = load_constant<uint4>(from);
    piece = {{value.x, value.y, value.z, value.w}};
  } else {
    piece.word[0] = load_vector(from, kWidth).x;
  }
  return piece;
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
  unsigned present;                // bit j: position j has a copy
  const std::byte* row[kMaxTopK];  // [position]
};

// One warp, lane j for position j.
__device__ inline void find_parts(const LaunchArgs& args, int number, Parts& found) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
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
  if (lane != 0) return;
  found.present = present;
  found.local = local;
  found.token = token;
}

// Trees over wide rows have a kernel of exactly top_k positions; the others are padded.
template <int kWidth, bool kTree>
inline constexpr bool kIsPadded = kWidth != 16 || !kTree;

template <NumberType kType, int kWidth, int kPositions, bool kTree>
__device__ inline void add_parts(const RankArgs& rank, const Parts& parts, int adding_threads) {
  std::byte* output = rank.output + static_cast<std::int64_t>(parts.token) * rank.combine_bytes_per_token;
  const unsigned present = parts.present;
  const int top_k = rank.top_k;
  for (int at = static_cast<int>(threadIdx.x) * kWidth; at < rank.combine_bytes_per_token;
       at += adding_threads * kWidth) {
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

// The next round of every local rank: its own data is complete (the kernel before this one has ended).
__device__ inline void meet_for_combine(const LaunchArgs& args) {
  const std::int64_t flag_val = make_workspace_layout(args.ep_size, 0, 0).flag_val;
  for (int i = static_cast<int>(threadIdx.x); i < args.num_local_ranks; i += static_cast<int>(blockDim.x)) {
    *words(args.slices[args.ranks[i].rank], flag_val) += 1;
  }
  __threadfence_system();
  __syncthreads();
  signal_peers(args, Round::combine, false, RoundOfSlice{args});
  wait_for_peers(args, Round::combine, RoundOfSlice{args});
}

struct CombineStart {
  Stream stream = nullptr;
  bool only_load = false;
};

// One block that waits for peers in other launches, ahead of the adding.
int launch_meet(const LaunchArgs& args, Stream stream);

constexpr int kMaxCombineThreads = 512;

// When all blocks have drawn their last token, the counter is set back for the next launch. One thread a block.
__device__ inline void set_back_counter(DeviceState& state, int adding_blocks) {
  if (atomicAdd(&state.done_blocks, 1u) != static_cast<unsigned>(adding_blocks - 1)) return;
  state.done_blocks = 0;
  state.next_combine = 0;
}

// The last warp of a block scouts: it draws tokens and finds their parts, one step ahead of the warps that add.
template <NumberType kType, int kWidth, int kPositions, bool kTree>
__global__ void __launch_bounds__(kMaxCombineThreads) combine_kernel(const __grid_constant__ LaunchArgs args) {
  __shared__ Parts parts[2];
  const int block = static_cast<int>(blockIdx.x) - protocol_blocks(args);
  if (block < 0) {
    wait_for_previous_kernel();
    meet_for_combine(args);
    return;
  }
  const int adding_blocks = static_cast<int>(gridDim.x) - protocol_blocks(args);
  const int adding_threads = static_cast<int>(blockDim.x) - kWarpSize;
  const bool scouts = static_cast<int>(threadIdx.x) >= adding_threads;
  const int num_tokens = args.first_token[args.num_local_ranks];
  const bool draws = adding_blocks < num_tokens;
  TicketCounter tickets(&args.state->next_combine, adding_blocks);
  int number = block;
  if (scouts) wait_for_previous_kernel();
  for (int step = 0;; ++step) {
    Parts& found = parts[step % 2];
    if (scouts && number < num_tokens) {
      if (draws) tickets.ask();
      find_parts(args, number, found);
      number = draws ? tickets.answer() : num_tokens;
    } else if (scouts) {
      found.local = -1;
    }
    __syncthreads();
    if (found.local < 0) break;
    if (!scouts) add_parts<kType, kWidth, kPositions, kTree>(args.ranks[found.local], found, adding_threads);
  }
  if (draws && static_cast<int>(threadIdx.x) == adding_threads) set_back_counter(*args.state, adding_blocks);
}

template <NumberType kType, int kWidth, int kPositions, bool kTree>
int start_combine(const LaunchArgs& args, const CombineStart& how) {
  int vectors = 0;
  for (int i = 0; i < args.num_local_ranks; ++i) {
    vectors = max(vectors, args.ranks[i].combine_bytes_per_token / kWidth);
  }
  const int tokens = args.first_token[args.num_local_ranks];
  const auto kernel = combine_kernel<kType, kWidth, kPositions, kTree>;
  if (how.only_load) return load(kernel);
  // More positions need more registers, so fewer threads.
  const int threads = threads_for(vectors, kPositions > 8 ? 256 : 448) + kWarpSize;
  const int resident = resident_blocks(kernel, threads);
  if (resident <= 0) return cudaErrorLaunchOutOfResources;
  if (args.has_remote_ranks != 0) {
    const int met = launch_meet(args, how.stream);
    if (met != cudaSuccess) return met;
  }
  const int adding = max(1, min(tokens, resident));
  return start({adding + (args.has_remote_ranks != 0 ? 0 : 1), threads, how.stream, true}, kernel, args);
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
