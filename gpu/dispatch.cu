// Dispatch: route counts, so that every (token, destination) knows its slot; send copies the rows. Where peers are in
// other launches, finish tells them and waits for them; of one rank's few tokens send_few does all of it, and every
// block counts for itself instead of waiting for route.
//
// The published kernel (moeAlltoAllKernels.cu, moeA2ADispatchKernel) takes slots from an atomic counter, one block a
// token. Here slots are given in token order, so receive buffers are the same bytes in every run: route counts ahead,
// 32 tokens at a time. A row is read once and written to all its destinations.
#include "gpu/launch_config.cuh"
#include "gpu/vector.cuh"

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

// An id out of range is noted in the state, the smallest (rank, token, position) of all.
__device__ void note_bad_expert(const LaunchArgs& args, const RankArgs& rank, int token, int position) {
  const auto where = static_cast<unsigned long long>(rank.rank) << 48 | static_cast<unsigned long long>(token) << 8 |
                     static_cast<unsigned long long>(position);
  atomicMin(reinterpret_cast<unsigned long long*>(&args.state->bad_expert), where);
}

__device__ bool is_expert(const RankArgs& rank, int expert) {
  return static_cast<unsigned>(expert) < static_cast<unsigned>(rank.num_experts);
}

__device__ int rank_of_expert(const LaunchArgs& args, const RankArgs& rank, int expert) {
  return static_cast<int>(target_rank_in<std::uint32_t>(static_cast<std::uint32_t>(expert),
                                                        static_cast<std::uint32_t>(rank.num_experts),
                                                        static_cast<std::uint32_t>(args.ep_size)));
}

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

// Tells a destination how many rows it gets: before the flag, so that nothing but the flag is left to be sent then.
__device__ void announce(const LaunchArgs& args, const RankArgs& rank, int to, int total) {
  const WorkspaceLayout at = layout_of(args, rank);
  words(args.slices[rank.rank], at.send_counters)[to] = total;
  if (is_active(rank.active_rank_mask, to)) words(args.slices[to], at.recv_counters)[rank.rank] = total;
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
__device__ Target target_of(const LaunchArgs& args, const RankArgs& rank, int expert, bool refused) {
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
__device__ void keep_destinations(const LaunchArgs& args, const RankArgs& rank, int token, const Target& target,
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

__device__ int expert_of_lane(const RankArgs& rank, int token) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  return lane < rank.top_k ? rank.token_selected_experts[static_cast<std::int64_t>(token) * rank.top_k + lane] : -1;
}

__device__ bool was_refused(const LaunchArgs& args) {
  return *const_cast<volatile std::uint64_t*>(&args.state->bad_expert) != kNoBadExpert;
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

// One vector of a token's rows, on its way from the source to every destination.
struct Vector {
  int payload;
  int offset_bytes;
  int width_bytes;
  uint4 value;
};

__device__ Vector load_vector_of(const RankArgs& rank, int token, int vector) {
  int p = 0;
  while (p + 1 < rank.num_payloads && vector >= rank.payloads[p + 1].first_vector) ++p;
  const PayloadArgs& payload = rank.payloads[p];
  const int offset = (vector - payload.first_vector) * payload.width_bytes;
  const std::byte* from = payload.source + static_cast<std::int64_t>(token) * payload.bytes_per_token + offset;
  return {p, offset, payload.width_bytes, load_vector(from, payload.width_bytes)};
}

// Streaming stores: what is written here is more than the cache holds, and nobody reads it before the next kernel.
__device__ void store_to_all(const Destinations& to, const Vector& vector) {
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

// The copying of a block that has a token, its first vector already fetched.
__device__ void send_rows(const RankArgs& rank, int token, const Destinations& destinations, Vector vector) {
  const int threads = static_cast<int>(blockDim.x);
  for (int next = static_cast<int>(threadIdx.x); next < rank.num_vectors;) {
    store_to_all(destinations, vector);
    next += threads;
    if (next < rank.num_vectors) vector = load_vector_of(rank, token, next);
  }
}

// Whether this block is the last of its kernel to come here; then all that the blocks stored before is ordered before
// all that it does after. All threads.
__device__ bool is_last_block(DeviceState& state) {
  __shared__ bool is_last;
  __syncthreads();
  if (threadIdx.x == 0) {
    __threadfence();
    is_last = atomicAdd(&state.done_blocks, 1u) == gridDim.x - 1;
    if (is_last) state.done_blocks = 0;  // for the next launch
    __threadfence();
  }
  __syncthreads();
  return is_last;
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
  Vector vector = {};
  if (thread < rank.num_vectors) vector = load_vector_of(rank, token, thread);
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

// Up to so many tokens of one rank the counting that every block does for itself takes less than waiting for route.
constexpr int kFewGroups = 8;
constexpr int kFewTokens = kFewGroups * kRouteGroup_tokens;

struct FewShared {
  unsigned senders[kFewGroups][kMaxRanks + 1];
  RankTable table;
  Destinations destinations;
};

__device__ int rows_to(const FewShared& shared, int to, int groups) {
  int rows = 0;
  for (int group = 0; group < groups; ++group) rows += __popc(shared.senders[group][to]);
  return rows;
}

// Route and send in one, for the one rank of a launch whose peers are in others. A block a token; every block goes
// through the ids of all tokens.
__global__ void __launch_bounds__(1024, 2) send_few_kernel(const __grid_constant__ LaunchArgs args) {
  __shared__ FewShared shared;
  const RankArgs& rank = args.ranks[0];
  const int token = static_cast<int>(blockIdx.x);
  const int thread = static_cast<int>(threadIdx.x);
  const int groups = (rank.num_tokens + kRouteGroup_tokens - 1) / kRouteGroup_tokens;
  const bool has_token = token < rank.num_tokens;
  Vector vector = {};
  if (has_token && thread < rank.num_vectors) vector = load_vector_of(rank, token, thread);
  fill_table(args, rank, shared.table);
  const bool finds = has_token && thread >= static_cast<int>(blockDim.x) - kWarpSize;
  const int expert = finds ? expert_of_lane(rank, token) : -1;
  bool refused = was_refused(args);
  __syncthreads();
  for (int group = thread / kWarpSize; group < groups; group += static_cast<int>(blockDim.x) / kWarpSize) {
    refused |= mark_senders(args, rank, shared.table, group, shared.senders[group]);
  }
  wait_for_previous_kernel();
  const int round = RoundOfSlice{args}(rank) + 1;
  refused = __syncthreads_or(refused) != 0;
  if (finds) {
    const Target target = target_of(args, rank, expert, refused);
    const int group = token / kRouteGroup_tokens;
    int slot = 0;
    if (target.carries) {
      const unsigned earlier_tokens = (1u << token % kRouteGroup_tokens) - 1;
      slot = rows_to(shared, target.to, group) + __popc(shared.senders[group][target.to] & earlier_tokens);
    }
    keep_destinations(args, rank, token, target, slot, refused, shared.destinations);
  }
  __syncthreads();
  if (has_token) send_rows(rank, token, shared.destinations, vector);
  for (int to = thread; blockIdx.x == 0 && to < args.ep_size; to += static_cast<int>(blockDim.x)) {
    announce(args, rank, to, rows_to(shared, to, groups));
  }
  if (!is_last_block(*args.state)) return;
  if (thread == 0) {
    *words(args.slices[rank.rank], layout_of(args, rank).flag_val) = round;
    *words(args.slices[rank.rank], layout_of(args, rank).local_token_counter) = rank.num_tokens;
  }
  const auto round_of = [round](const RankArgs&) { return round; };
  signal_peers(args, Round::dispatch, refused, round_of);
  wait_for_peers(args, Round::dispatch, round_of);
}

bool has_few_tokens(const LaunchArgs& args) {
  return args.has_remote_ranks != 0 && args.num_local_ranks == 1 && args.ranks[0].num_tokens <= kFewTokens;
}

}  // namespace

int load_dispatch() {
  const int route = load(route_kernel);
  const int send = load(send_kernel);
  const int few = load(send_few_kernel);
  const int finish = load(finish_dispatch_kernel);
  return route != cudaSuccess ? route : send != cudaSuccess ? send : few != cudaSuccess ? few : finish;
}

int launch_dispatch(const LaunchArgs& args, Stream stream) {
  int most_tokens = 0, most_vectors = 0;
  for (int i = 0; i < args.num_local_ranks; ++i) {
    most_tokens = max(most_tokens, args.ranks[i].num_tokens);
    most_vectors = max(most_vectors, args.ranks[i].num_vectors);
  }
  const int send_threads = threads_for(most_vectors, 1024);
  const int tokens = args.first_token[args.num_local_ranks];
  if (has_few_tokens(args)) return start({max(tokens, 1), send_threads, stream, true}, send_few_kernel, args);
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
