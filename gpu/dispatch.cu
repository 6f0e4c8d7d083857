// Dispatch in two kernels: route gives every (token, destination) its slot, in token order; send copies the rows.
//
// The published kernel (moeAlltoAllKernels.cu, moeA2ADispatchKernel) takes slots from an atomic counter, one block a
// token. Here one block a rank counts ahead, so receive buffers are the same bytes in every run, and the copying
// blocks need no counter. A row is read once and written to all its destinations, whole rows at a time: that is what
// the memory takes best.
#include "gpu/launch_config.cuh"
#include "gpu/vector.cuh"

namespace a2asim::gpu {
namespace {

constexpr int kRouteThreads = 1024;
constexpr int kRouteWarps = kRouteThreads / kWarpSize;

struct RouteShared {
  unsigned senders[kRouteWarps]
                  [kMaxRanks + 1];         // bit l: the token of lane l goes to this rank; + 1 avoids bank conflicts
  int before[kRouteWarps][kMaxRanks + 1];  // tokens of earlier warps and chunks that go to this rank
  int total[kMaxRanks];
};

// One token's destinations: the first position of each in top-k order, as distinct_targets of routing.h.
template <int kTopK>
struct TokenTargets {
  int rank[kTopK];
  std::uint64_t mask = 0;
  unsigned first = 0;  // bit j: position j carries the copy
};

template <int kTopK>
__device__ TokenTargets<kTopK> targets_of(const LaunchArgs& args, const RankArgs& rank, int token) {
  TokenTargets<kTopK> targets;
  int expert[kTopK];
#pragma unroll
  for (int j = 0; j < kTopK; ++j) {
    if (j < rank.top_k) expert[j] = rank.token_selected_experts[static_cast<std::int64_t>(token) * rank.top_k + j];
  }
#pragma unroll
  for (int j = 0; j < kTopK; ++j) {
    if (j >= rank.top_k) continue;
    if (expert[j] < 0 || expert[j] >= rank.num_experts) {
      const auto where =
          static_cast<unsigned long long>(rank.rank) << 48 | static_cast<unsigned long long>(token) << 8 | j;
      atomicMin(reinterpret_cast<unsigned long long*>(&args.state->bad_expert), where);
      continue;
    }
    const int to = target_rank(expert[j], rank.num_experts, args.ep_size);
    targets.rank[j] = to;
    const std::uint64_t bit = std::uint64_t{1} << to;
    if ((targets.mask & bit) == 0 && is_active(rank.active_rank_mask, to)) targets.first |= 1u << j;
    targets.mask |= bit;
  }
  targets.mask &= rank.active_rank_mask;
  return targets;
}

// After a block's ballots: tokens to each rank before each warp. One warp a destination, one lane a warp of the block.
__device__ void count_before(RouteShared& shared, int ep_size) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int warps = static_cast<int>(blockDim.x) / kWarpSize;
  for (int to = static_cast<int>(threadIdx.x) / kWarpSize; to < ep_size; to += warps) {
    const int own = lane < warps ? __popc(shared.senders[lane][to]) : 0;
    int sum = own;
#pragma unroll
    for (int distance = 1; distance < kWarpSize; distance *= 2) {
      const int below = __shfl_up_sync(kFullWarp, sum, distance);
      if (lane >= distance) sum += below;
    }
    const int start = shared.total[to];
    if (lane < warps) shared.before[lane][to] = start + sum - own;
    __syncwarp();
    if (lane == kWarpSize - 1) shared.total[to] = start + sum;
  }
}

template <int kTopK>
__global__ void __launch_bounds__(kRouteThreads) route_kernel(const __grid_constant__ LaunchArgs args) {
  let_next_kernel_start();
  __shared__ RouteShared shared;
  const RankArgs& rank = args.ranks[blockIdx.x];
  std::byte* slice = args.slices[rank.rank];
  const WorkspaceLayout at = layout_of(args, rank);
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % kWarpSize;
  const int warp = thread / kWarpSize;
  for (int to = thread; to < args.ep_size; to += static_cast<int>(blockDim.x)) shared.total[to] = 0;
  if (thread == 0) {
    *words(slice, at.flag_val) += 1;
    *words(slice, at.local_token_counter) = rank.num_tokens;
  }
  for (int chunk = 0; chunk < rank.num_tokens; chunk += static_cast<int>(blockDim.x)) {
    const int token = chunk + thread;
    TokenTargets<kTopK> targets;
    if (token < rank.num_tokens) targets = targets_of<kTopK>(args, rank, token);
    for (int to = 0; to < args.ep_size; ++to) {
      const unsigned senders = __ballot_sync(kFullWarp, is_active(targets.mask, to));
      if (lane == to % kWarpSize) shared.senders[warp][to] = senders;
    }
    __syncthreads();
    count_before(shared, args.ep_size);
    __syncthreads();
    if (token >= rank.num_tokens) continue;
    const std::int64_t row = static_cast<std::int64_t>(token) * rank.top_k;
    std::int32_t* target_ranks = words(slice, at.topk_target_ranks) + row;
    std::int32_t* send_indices = words(slice, at.topk_send_indices) + row;
    const unsigned earlier_lanes = (1u << lane) - 1;
#pragma unroll
    for (int j = 0; j < kTopK; ++j) {
      if (j >= rank.top_k) continue;
      const bool carries = (targets.first >> j & 1) != 0;
      const int to = carries ? targets.rank[j] : 0;
      const int slot = shared.before[warp][to] + __popc(shared.senders[warp][to] & earlier_lanes);
      target_ranks[j] = carries ? to : -1;
      send_indices[j] = carries ? slot : -1;
    }
  }
  __syncthreads();
  for (int to = thread; to < args.ep_size; to += static_cast<int>(blockDim.x)) {
    words(slice, at.send_counters)[to] = shared.total[to];
  }
}

// Where one vector of a token comes from and goes to.
struct VectorPlace {
  const std::byte* source;
  std::int64_t destination_bytes;  // of slot 0, from the start of a slice
  int pitch_bytes;
  int width_bytes;  // 0: this thread has none
};

__device__ VectorPlace place_of(const RankArgs& rank, int token, int vector) {
  if (vector >= rank.num_vectors) return {nullptr, 0, 0, 0};
  int p = 0;
  while (p + 1 < rank.num_payloads && vector >= rank.payloads[p + 1].first_vector) ++p;
  const PayloadArgs& payload = rank.payloads[p];
  const std::int64_t offset = static_cast<std::int64_t>(vector - payload.first_vector) * payload.width_bytes;
  const std::int64_t first_row = receive_row(rank.rank, 0, rank.runtime_max_tokens_per_rank);
  return {payload.source + static_cast<std::int64_t>(token) * payload.bytes_per_token + offset,
          payload.region_bytes + first_row * payload.bytes_per_token + offset, payload.bytes_per_token,
          payload.width_bytes};
}

// All blocks have arrived here; the last one signals for all local ranks and is the only one that waits.
__device__ void finish_dispatch(const LaunchArgs& args, bool refused) {
  __shared__ bool is_last;
  __syncthreads();
  if (threadIdx.x == 0) {
    fence(args.has_remote_ranks != 0);
    is_last = atomicAdd(&args.state->done_blocks, 1u) == gridDim.x - 1;
    fence(args.has_remote_ranks != 0);
  }
  __syncthreads();
  if (!is_last) return;
  if (threadIdx.x == 0) args.state->done_blocks = 0;
  signal_peers(args, Round::dispatch, refused);
  wait_for_peers(args, Round::dispatch);
}

__global__ void __launch_bounds__(1024, 2) send_kernel(const __grid_constant__ LaunchArgs args) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int warp_start = static_cast<int>(threadIdx.x) - lane;
  wait_for_previous_kernel();
  const bool refused = args.state->bad_expert != kNoBadExpert;
  TokenCursor cursor(args, refused ? INT_MAX : static_cast<int>(blockIdx.x));
  for (; !cursor.done(); cursor.advance(static_cast<int>(gridDim.x))) {
    const RankArgs& rank = cursor.rank();
    const WorkspaceLayout at = layout_of(args, rank);
    std::byte* own = args.slices[rank.rank];
    const std::int64_t row = static_cast<std::int64_t>(cursor.token()) * rank.top_k + lane;
    const int to = lane < rank.top_k ? words(own, at.topk_target_ranks)[row] : -1;
    const int slot = lane < rank.top_k ? words(own, at.topk_send_indices)[row] : -1;
    std::byte* const to_slice = to < 0 ? nullptr : args.slices[to];
    const unsigned destinations = __ballot_sync(kFullWarp, to >= 0);
    for (int start = warp_start; start < rank.num_vectors; start += static_cast<int>(blockDim.x)) {
      const VectorPlace place = place_of(rank, cursor.token(), start + lane);
      uint4 value = {};
      if (place.width_bytes != 0) value = load_vector(place.source, place.width_bytes);
      for (unsigned left = destinations; left != 0; left &= left - 1) {
        const int j = __ffs(static_cast<int>(left)) - 1;
        std::byte* slice =
            reinterpret_cast<std::byte*>(__shfl_sync(kFullWarp, reinterpret_cast<unsigned long long>(to_slice), j));
        const std::int64_t slot_of = __shfl_sync(kFullWarp, slot, j);
        if (place.width_bytes == 0) continue;
        store_vector(slice + place.destination_bytes + slot_of * place.pitch_bytes, value, place.width_bytes);
      }
    }
  }
  finish_dispatch(args, refused);
}

template <int kTopK>
int launch_route(const LaunchArgs& args, int threads, Stream stream) {
  return start({args.num_local_ranks, threads, stream, false}, route_kernel<kTopK>, args);
}

}  // namespace

int launch_dispatch(const LaunchArgs& args, Stream stream) {
  int top_k = 0, tokens = 0, vectors = 0;
  std::int64_t rows = 0;
  for (int i = 0; i < args.num_local_ranks; ++i) {
    const RankArgs& rank = args.ranks[i];
    top_k = rank.top_k > top_k ? rank.top_k : top_k;
    tokens = rank.num_tokens > tokens ? rank.num_tokens : tokens;
    vectors = rank.num_vectors > vectors ? rank.num_vectors : vectors;
    rows += rank.num_tokens;
  }
  const int route_threads = tokens >= kRouteThreads ? kRouteThreads : threads_for(tokens, kRouteThreads);
  const int routed = top_k <= 8    ? launch_route<8>(args, route_threads, stream)
                     : top_k <= 16 ? launch_route<16>(args, route_threads, stream)
                                   : launch_route<32>(args, route_threads, stream);
  if (routed != cudaSuccess) return routed;
  const int threads = threads_for(vectors, 1024);
  const int blocks = resident_blocks(send_kernel, threads);
  if (blocks <= 0) return cudaErrorLaunchOutOfResources;
  return start({static_cast<int>(rows < 1        ? 1
                                 : rows < blocks ? rows
                                                 : blocks),
                threads, stream, true},
               send_kernel, args);
}

}  // namespace a2asim::gpu
