// Dispatch: route counts, so that every (token, destination) knows its slot; send copies the rows. Where peers are in
// other launches, finish tells them and waits for them. Few tokens take another way: dispatch_few.cu.
//
// The published kernel (moeAlltoAllKernels.cu, moeA2ADispatchKernel) takes slots from an atomic counter, one block a
// token. Here slots are given in token order, so receive buffers are the same bytes in every run: route counts ahead,
// 32 tokens at a time.
#include "gpu/dispatch.cuh"

namespace a2asim::gpu {
namespace {

constexpr int kRouteWarps = 32;
constexpr int kRouteThreads = kRouteWarps * kWarpSize;
constexpr int kChunk_tokens = kRouteWarps * kRouteGroup_tokens;  // of one block of route: a group a warp
constexpr int kTabulatedExperts = 1024;

using RankTable = std::uint8_t[kTabulatedExperts];  // the rank of each expert: saves a division a top-k entry

struct RouteShared {
  unsigned senders[kRouteWarps][kMaxRanks + 1];  // [group of this chunk][destination]; + 1 avoids bank conflicts
  int before[kRouteWarps][kMaxRanks + 1];
  int total[kMaxRanks];
  RankTable table;
};

// Bit d: this token goes to rank d. Several experts of one rank give one bit: one copy. Four ids at a time, so that
// their loads are in flight together.
__device__ std::uint64_t destinations_of(const LaunchArgs& args, const RankArgs& rank, const RankTable& table,
                                         int token, bool& refused) {
  const std::int32_t* ids = rank.token_selected_experts + static_cast<std::int64_t>(token) * rank.top_k;
  const bool in_fours = rank.top_k % 4 == 0 && reinterpret_cast<std::uintptr_t>(rank.token_selected_experts) % 16 == 0;
  const bool is_tabulated = rank.num_experts <= kTabulatedExperts;
  std::uint64_t mask = 0;
#pragma unroll 2
  for (int position = 0; position < rank.top_k; position += 4) {
    int expert[4] = {};
    if (in_fours) {
      const int4 four = *reinterpret_cast<const int4*>(ids + position);
      expert[0] = four.x, expert[1] = four.y, expert[2] = four.z, expert[3] = four.w;
    } else {
#pragma unroll
      for (int i = 0; i < 4; ++i) expert[i] = position + i < rank.top_k ? ids[position + i] : ids[position];
    }
#pragma unroll
    for (int i = 0; i < 4; ++i) {
      if (!is_expert(rank, expert[i])) {
        note_bad_expert(args, rank, token, position + i);
        refused = true;
        continue;
      }
      const int to = is_tabulated ? table[expert[i]] : rank_of_expert(args, rank, expert[i]);
      mask |= std::uint64_t{1} << to;
    }
  }
  return mask & rank.active_rank_mask;
}

// One warp, one group of 32 tokens: which of them go where. True in the lane whose token has an id out of range.
__device__ bool mark_senders(const LaunchArgs& args, const RankArgs& rank, const RankTable& table, int group,
                             unsigned (&senders)[kMaxRanks + 1]) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int token = group * kRouteGroup_tokens + lane;
  bool refused = false;
  const std::uint64_t mask = token < rank.num_tokens ? destinations_of(args, rank, table, token, refused) : 0;
  for (int to = 0; to < args.ep_size; ++to) {
    const unsigned marked = __ballot_sync(kFullWarp, is_active(mask, to));
    if (lane == to % kWarpSize) senders[to] = marked;
  }
  __syncwarp();
  return refused;
}

// Adds the tokens of all chunks before this one to the totals. Every block counts for itself: that is less than waiting
// for another block would cost.
__device__ void count_earlier_chunks(const LaunchArgs& args, const RankArgs& rank, int chunk, RouteShared& shared) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int warp = static_cast<int>(threadIdx.x) / kWarpSize;
  int low = 0, high = 0;  // tokens to destinations lane and lane + 32
  for (int group = warp; group < chunk * kRouteWarps; group += kRouteWarps) {
    mark_senders(args, rank, shared.table, group, shared.senders[warp]);
    if (lane < args.ep_size) low += __popc(shared.senders[warp][lane]);
    if (lane + kWarpSize < args.ep_size) high += __popc(shared.senders[warp][lane + kWarpSize]);
    __syncwarp();
  }
  if (low != 0) atomicAdd(&shared.total[lane], low);
  if (high != 0) atomicAdd(&shared.total[lane + kWarpSize], high);
}

// Tokens to each destination before each group of the chunk: one warp a destination, one lane a group.
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

// All threads of a block; __syncthreads before its use.
__device__ void fill_table(const LaunchArgs& args, const RankArgs& rank, RankTable& table) {
  if (rank.num_experts > kTabulatedExperts) return;
  for (int expert = static_cast<int>(threadIdx.x); expert < rank.num_experts; expert += static_cast<int>(blockDim.x)) {
    table[expert] = static_cast<std::uint8_t>(rank_of_expert(args, rank, expert));
  }
}

// blockIdx.x: local rank; blockIdx.y: chunk of its tokens.
__global__ void __launch_bounds__(kRouteThreads) route_kernel(const __grid_constant__ LaunchArgs args) {
  let_next_kernel_start();
  __shared__ RouteShared shared;
  const RankArgs& rank = args.ranks[blockIdx.x];
  const int chunk = static_cast<int>(blockIdx.y);
  const int last_chunk = max(rank.num_tokens - 1, 0) / kChunk_tokens;
  if (chunk > last_chunk) return;
  const int thread = static_cast<int>(threadIdx.x);
  const int group = chunk * kRouteWarps + thread / kWarpSize;
  for (int to = thread; to < args.ep_size; to += static_cast<int>(blockDim.x)) shared.total[to] = 0;
  fill_table(args, rank, shared.table);
  __syncthreads();
  wait_for_previous_kernel();
  count_earlier_chunks(args, rank, chunk, shared);
  mark_senders(args, rank, shared.table, group, shared.senders[thread / kWarpSize]);
  __syncthreads();
  count_before(shared, args.ep_size);
  __syncthreads();
  if (group * kRouteGroup_tokens < rank.num_tokens) {
    const int warp = thread / kWarpSize;
    for (int to = thread % kWarpSize; to < args.ep_size; to += kWarpSize) {
      rank.routes[group * args.ep_size + to] = {shared.senders[warp][to], shared.before[warp][to]};
    }
  }
  if (chunk != last_chunk) return;
  for (int to = thread; to < args.ep_size; to += static_cast<int>(blockDim.x)) {
    announce(args, rank, to, shared.total[to]);
  }
  if (thread != 0) return;
  *words(args.slices[rank.rank], layout_of(args, rank).flag_val) += 1;
  *words(args.slices[rank.rank], layout_of(args, rank).local_token_counter) = rank.num_tokens;
}

// One warp: slots from what route left.
__device__ void find_destinations(const LaunchArgs& args, const RankArgs& rank, int token, Destinations& found) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int expert = expert_of_lane(rank, token);
  wait_for_previous_kernel();
  // All that route left for this group of tokens, lane l for destinations l and l + 32: loaded before it is known which
  // of it is needed, so that nothing here waits for memory twice.
  const RouteGroup* group = rank.routes + token / kRouteGroup_tokens * args.ep_size;
  const bool refused = was_refused(args);
  const RouteGroup low = lane < args.ep_size ? group[lane] : RouteGroup{};
  const RouteGroup high = lane + kWarpSize < args.ep_size ? group[lane + kWarpSize] : RouteGroup{};
  const Target target = target_of(args, rank, expert, refused);
  const int from_lane = target.to & (kWarpSize - 1);
  const bool is_low = target.to < kWarpSize;
  const unsigned senders_low = __shfl_sync(kFullWarp, low.senders, from_lane);
  const unsigned senders_high = __shfl_sync(kFullWarp, high.senders, from_lane);
  const int before_low = __shfl_sync(kFullWarp, low.before, from_lane);
  const int before_high = __shfl_sync(kFullWarp, high.before, from_lane);
  const unsigned earlier_tokens = (1u << token % kRouteGroup_tokens) - 1;
  const int slot = (is_low ? before_low : before_high) + __popc((is_low ? senders_low : senders_high) & earlier_tokens);
  keep_destinations(args, rank, token, target, slot, refused, found);
}

// A block a token: all its vectors are fetched while the last warp finds out where they go. The hardware hands the
// tokens out; a grid that only fits and walks them by itself is slower by 5 to 10 % (multiprocessors differ).
__global__ void __launch_bounds__(1024, 2) send_kernel(const __grid_constant__ LaunchArgs args) {
  if (args.has_remote_ranks != 0) let_next_kernel_start();
  __shared__ Destinations destinations;
  const int block = static_cast<int>(blockIdx.x) - protocol_blocks(args);
  if (block < 0) {
    wait_for_previous_kernel();
    signal_peers(args, Round::dispatch, was_refused(args), RoundOfSlice{args});
    return;
  }
  const int local = local_rank_of(args, block);
  const RankArgs& rank = args.ranks[local];
  const int token = block - args.first_token[local];
  const int thread = static_cast<int>(threadIdx.x);
  Vector vector[1] = {};
  if (thread < rank.num_vectors) vector[0] = load_vector_of(rank, token, thread);
  if (thread >= static_cast<int>(blockDim.x) - kWarpSize) find_destinations(args, rank, token, destinations);
  __syncthreads();
  send_rows(rank, token, destinations, vector);
}

// Where peers are in other launches: the sending has ended, this one block tells them and waits for them. Within send
// it would cost every block a wait for its rows to arrive (gpu.md has the figures).
__global__ void finish_dispatch_kernel(const __grid_constant__ LaunchArgs args) {
  wait_for_previous_kernel();
  signal_peers(args, Round::dispatch, was_refused(args), RoundOfSlice{args});
  wait_for_peers(args, Round::dispatch, RoundOfSlice{args});
}

}  // namespace

int load_dispatch() {
  const int route = load(route_kernel);
  const int send = load(send_kernel);
  const int few = load_dispatch_few();
  const int finish = load(finish_dispatch_kernel);
  return route != cudaSuccess ? route : send != cudaSuccess ? send : few != cudaSuccess ? few : finish;
}

int launch_dispatch(const LaunchArgs& args, Stream stream) {
  int most_tokens = 0, most_vectors = 0;
  for (int i = 0; i < args.num_local_ranks; ++i) {
    most_tokens = max(most_tokens, args.ranks[i].num_tokens);
    most_vectors = max(most_vectors, args.ranks[i].num_vectors);
  }
  if (has_few_tokens(args)) return launch_dispatch_few(args, most_vectors, stream);
  const int send_threads = threads_for(most_vectors, 1024);
  const int tokens = args.first_token[args.num_local_ranks];
  const dim3 chunks(static_cast<unsigned>(args.num_local_ranks),
                    static_cast<unsigned>(max(1, (most_tokens + kChunk_tokens - 1) / kChunk_tokens)));
  const int route_threads = threads_for(min(most_tokens, kRouteThreads), kRouteThreads);
  const int routed = start({chunks, route_threads, stream, true}, route_kernel, args);
  if (routed != cudaSuccess) return routed;
  const int blocks = tokens + (args.has_remote_ranks != 0 ? 0 : 1);
  if (blocks > 0) {
    const int sent = start({blocks, send_threads, stream, true}, send_kernel, args);
    if (sent != cudaSuccess) return sent;
  }
  return args.has_remote_ranks != 0 ? start({1, 256, stream, true}, finish_dispatch_kernel, args) : cudaSuccess;
}

}  // namespace a2asim::gpu
