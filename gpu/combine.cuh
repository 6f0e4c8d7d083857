// Combine: every token's partial sums, read from its destinations and added in a fixed order.
//
// Included by one .cu file a number type, so that they compile side by side. The shape of the sum is
// model/reduction.h's. Its trees for 6, 10 and 22 are the balanced tree of the next power of two whose last positions
// hold the identity of addition, -0.0: so a handful of kernels serves every top_k. A position without a copy counts as
// +0.0.
#pragma once

#include "gpu/launch_config.cuh"
#include "gpu/numbers.cuh"
#include "gpu/vector.cuh"
#include "model/reduction.h"

namespace a2asim::gpu {

constexpr bool sums_as_tree(int top_k) { return top_k == 1 || has_tree_shape(top_k); }

template <int kPositions, bool kTree>
__device__ inline float sum_of(float (&value)[kPositions]) {
  if constexpr (kTree) {
#pragma unroll
    for (int stride = 1; stride < kPositions; stride *= 2) {
#pragma unroll
      for (int i = 0; i + stride < kPositions; i += 2 * stride) value[i] = __fadd_rn(value[i], value[i + stride]);
    }
  } else {
#pragma unroll
    for (int i = 1; i < kPositions; ++i) value[0] = __fadd_rn(value[0], value[i]);
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
    const uint4 value = load_once<uint4>(from);
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

template <NumberType kType, int kWidth, int kPositions, bool kTree>
__device__ inline RowPiece<kWidth> reduce(const RowPiece<kWidth> (&rows)[kPositions]) {
  using Element = Number<kType>;
  RowPiece<kWidth> result;
#pragma unroll
  for (int w = 0; w < static_cast<int>(sizeof(result.word) / 4); ++w) {
    float sum[Element::per_word];
#pragma unroll
    for (int e = 0; e < Element::per_word; ++e) {
      float value[kPositions];
#pragma unroll
      for (int j = 0; j < kPositions; ++j) value[j] = Element::unpack(rows[j].word[w], e);
      sum[e] = sum_of<kPositions, kTree>(value);
    }
    result.word[w] = Element::pack(sum);
  }
  return result;
}

// Lane j: where position j's partial sum of this token lies, or null.
__device__ inline const std::byte* position_source(const LaunchArgs& args, const RankArgs& rank, int token, int lane) {
  if (lane >= rank.top_k) return nullptr;
  const WorkspaceLayout at = layout_of(args, rank);
  std::byte* own = args.slices[rank.rank];
  const std::int64_t entry = static_cast<std::int64_t>(token) * rank.top_k + lane;
  const int to = words(own, at.topk_target_ranks)[entry];
  const int slot = words(own, at.topk_send_indices)[entry];
  if (to < 0) return nullptr;
  return args.slices[to] + rank.combine_region_bytes +
         receive_row(rank.rank, slot, rank.runtime_max_tokens_per_rank) * rank.combine_bytes_per_token;
}

// The next round of every local rank: its own data is complete (the kernel before this one has ended).
__device__ inline void meet_for_combine(const LaunchArgs& args) {
  const std::int64_t flag_val = make_workspace_layout(args.ep_size, 0, 0).flag_val;
  for (int i = static_cast<int>(threadIdx.x); i < args.num_local_ranks; i += static_cast<int>(blockDim.x)) {
    *words(args.slices[args.ranks[i].rank], flag_val) += 1;
  }
  fence(args.has_remote_ranks != 0);
  __syncthreads();
  signal_peers(args, Round::combine, false);
  wait_for_peers(args, Round::combine);
}

template <NumberType kType, int kWidth, int kPositions, bool kTree>
__global__ void __launch_bounds__(512) combine_kernel(const __grid_constant__ LaunchArgs args) {
  // With all ranks local the kernel boundary has already ordered everything: block 0 keeps the protocol (and the
  // guard) for the peers to see while the others add. Otherwise meet_kernel has waited before this kernel.
  const int first_block = args.has_remote_ranks != 0 ? 0 : 1;
  if (static_cast<int>(blockIdx.x) < first_block) {
    meet_for_combine(args);
    return;
  }
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int warp_start = static_cast<int>(threadIdx.x) - lane;
  TokenCursor cursor(args, static_cast<int>(blockIdx.x) - first_block);
  const std::byte* source = cursor.done() ? nullptr : position_source(args, cursor.rank(), cursor.token(), lane);
  while (!cursor.done()) {
    const RankArgs& rank = cursor.rank();
    const std::byte* const here = source;
    const int num_vectors = rank.combine_bytes_per_token / kWidth;
    std::byte* output = rank.output + static_cast<std::int64_t>(cursor.token()) * rank.combine_bytes_per_token;
    cursor.advance(static_cast<int>(gridDim.x) - first_block);
    if (!cursor.done()) source = position_source(args, cursor.rank(), cursor.token(), lane);
    const unsigned present = __ballot_sync(kFullWarp, here != nullptr);
    for (int start = warp_start; start < num_vectors; start += static_cast<int>(blockDim.x)) {
      const bool mine = start + lane < num_vectors;
      const std::int64_t offset = static_cast<std::int64_t>(start + lane) * kWidth;
      RowPiece<kWidth> rows[kPositions];
#pragma unroll
      for (int j = 0; j < kPositions; ++j) {
        const auto* from =
            reinterpret_cast<const std::byte*>(__shfl_sync(kFullWarp, reinterpret_cast<unsigned long long>(here), j));
        const std::uint32_t absent = j < rank.top_k ? 0u : Number<kType>::negative_zeros;
        for (std::uint32_t& word : rows[j].word) word = absent;
        if ((present >> j & 1) != 0 && mine) rows[j] = load_piece<kWidth>(from + offset);
      }
      if (mine) store_piece<kWidth>(output + offset, reduce<kType, kWidth, kPositions, kTree>(rows));
    }
  }
}

template <NumberType kType, int kWidth, int kPositions, bool kTree>
int start_combine(const LaunchArgs& args, Stream stream) {
  int vectors = 0;
  std::int64_t rows = 0;
  for (int i = 0; i < args.num_local_ranks; ++i) {
    const int own = args.ranks[i].combine_bytes_per_token / kWidth;
    vectors = own > vectors ? own : vectors;
    rows += args.ranks[i].num_tokens;
  }
  const auto kernel = combine_kernel<kType, kWidth, kPositions, kTree>;
  const int threads = threads_for(vectors, 512);
  const int blocks = resident_blocks(kernel, threads);
  if (blocks <= 0) return cudaErrorLaunchOutOfResources;
  const int with_rows = static_cast<int>(rows < 1 ? 1 : rows < blocks ? rows : blocks);
  const int protocol_blocks = args.has_remote_ranks != 0 ? 0 : 1;
  return start({with_rows + protocol_blocks, threads, stream, false}, kernel, args);
}

template <NumberType kType>
int combine_of_type(const LaunchArgs& args, int top_k, Stream stream) {
  constexpr int element_bytes = 4 / Number<kType>::per_word;
  bool wide = true;
  for (int i = 0; i < args.num_local_ranks; ++i) wide = wide && args.ranks[i].combine_bytes_per_token % 16 == 0;
  if (!wide) {
    return sums_as_tree(top_k) ? start_combine<kType, element_bytes, 32, true>(args, stream)
                               : start_combine<kType, element_bytes, 32, false>(args, stream);
  }
  if (!sums_as_tree(top_k)) {
    return top_k <= 16 ? start_combine<kType, 16, 16, false>(args, stream)
                       : start_combine<kType, 16, 32, false>(args, stream);
  }
  if (top_k == 1) return start_combine<kType, 16, 1, true>(args, stream);
  if (top_k == 2) return start_combine<kType, 16, 2, true>(args, stream);
  if (top_k == 4) return start_combine<kType, 16, 4, true>(args, stream);
  if (top_k <= 8) return start_combine<kType, 16, 8, true>(args, stream);
  return top_k <= 16 ? start_combine<kType, 16, 16, true>(args, stream)
                     : start_combine<kType, 16, 32, true>(args, stream);
}

}  // namespace a2asim::gpu
