// Dispatch of few tokens: for the one rank of a launch whose peers are in others, route, send and finish in one kernel.
// Every block counts for itself instead of waiting for route, and tells the peers itself that its rows are there
// instead of being waited for by the last one.
#include "gpu/dispatch.cuh"

namespace a2asim::gpu {
namespace {

// Up to so many tokens of one rank the counting that every block does for itself takes less than waiting for route.
constexpr int kFewGroups = 8;
constexpr int kFewTokens = kFewGroups * kRouteGroup_tokens;
constexpr int kMaxFewThreads = 640;
constexpr int kFewAhead = 2;  // vectors of a token that a thread fetches at the start
constexpr int kFewEntriesAhead = 2;

struct FewShared {
  unsigned senders[kFewGroups][kMaxRanks + 1];
  Destinations destinations;
};

__device__ int rows_to(const FewShared& shared, int to, int groups) {
  int rows = 0;
  for (int group = 0; group < groups; ++group) rows += __popc(shared.senders[group][to]);
  return rows;
}

// Expert ids of top-k entries first, first + threads, ..
struct Entries {
  int expert[kFewEntriesAhead];
};

__device__ Entries fetch_entries(const RankArgs& rank, int first) {
  const int threads = static_cast<int>(blockDim.x);
  Entries entries = {};
#pragma unroll
  for (int i = 0; i < kFewEntriesAhead; ++i) {
    const int entry = first + i * threads;
    if (entry < rank.num_tokens * rank.top_k) entries.expert[i] = rank.token_selected_experts[entry];
  }
  return entries;
}

// All threads: which tokens go where, a top-k entry a thread, the first ones fetched already. True where the thread has
// met an id out of range.
__device__ bool mark_few_senders(const LaunchArgs& args, const RankArgs& rank, int groups, Entries entries,
                                 FewShared& shared) {
  const int threads = static_cast<int>(blockDim.x);
  const int num_entries = rank.num_tokens * rank.top_k;
  bool refused = false;
  for (int i = static_cast<int>(threadIdx.x); i < groups * (kMaxRanks + 1); i += threads) {
    (&shared.senders[0][0])[i] = 0;
  }
  __syncthreads();
  for (int first = static_cast<int>(threadIdx.x); first < num_entries;) {
#pragma unroll
    for (int i = 0; i < kFewEntriesAhead; ++i) {
      const int entry = first + i * threads;
      if (entry >= num_entries) break;
      const int token = entry / rank.top_k;
      if (!is_expert(rank, entries.expert[i])) {
        note_bad_expert(args, rank, token, entry % rank.top_k);
        refused = true;
        continue;
      }
      const int to = rank_of_expert(args, rank, entries.expert[i]);
      if (!is_active(rank.active_rank_mask, to)) continue;
      atomicOr(&shared.senders[token / kRouteGroup_tokens][to], 1u << token % kRouteGroup_tokens);
    }
    first += kFewEntriesAhead * threads;
    entries = fetch_entries(rank, first);
  }
  return refused;
}

// One warp: slots from what the block has counted.
__device__ void find_few_destinations(const LaunchArgs& args, const RankArgs& rank, int token, int expert, bool refused,
                                      FewShared& shared) {
  const Target target = target_of(args, rank, expert, refused);
  const int group = token / kRouteGroup_tokens;
  int slot = 0;
  if (target.carries) {
    const unsigned earlier_tokens = (1u << token % kRouteGroup_tokens) - 1;
    slot = rows_to(shared, target.to, group) + __popc(shared.senders[group][target.to] & earlier_tokens);
  }
  keep_destinations(args, rank, token, target, slot, refused, shared.destinations);
}

// Every block counts itself with each peer when its rows are there. So a block waits for its own rows alone, nobody for
// the last block, and the flag may go ahead of the data.
__device__ void count_sent_block(const LaunchArgs& args, const RankArgs& rank) {
  for (int to = static_cast<int>(threadIdx.x); to < args.ep_size; to += static_cast<int>(blockDim.x)) {
    if (is_active(rank.active_rank_mask, to)) add_release(&header_of(args.slices[to])->sent_blocks[rank.rank], 1);
  }
}

// One thread, when the peers have come. The round and the count are set when no block of this kernel needs the old
// ones.
__device__ void begin_round(const LaunchArgs& args, const RankArgs& rank, int round) {
  std::int32_t* own_blocks = &header_of(args.slices[rank.rank])->sent_blocks[rank.rank];
  wait_for_peer(args, rank.rank, rank.rank, wall_time_ns(),
                [&] { return load_acquire(own_blocks) == static_cast<std::int32_t>(gridDim.x); });
  *own_blocks = 0;
  *words(args.slices[rank.rank], layout_of(args, rank).flag_val) = round;
  *words(args.slices[rank.rank], layout_of(args, rank).local_token_counter) = rank.num_tokens;
}

// Route, send and finish in one, for the one rank of a launch whose peers are in others. The first block keeps the
// protocol, each of the others has a token; every block goes through the ids of all tokens.
__global__ void __launch_bounds__(kMaxFewThreads, 2) send_few_kernel(const __grid_constant__ LaunchArgs args) {
  __shared__ FewShared shared;
  const RankArgs& rank = args.ranks[0];
  const int token = static_cast<int>(blockIdx.x) - 1;
  const int thread = static_cast<int>(threadIdx.x);
  const int threads = static_cast<int>(blockDim.x);
  const int groups = (rank.num_tokens + kRouteGroup_tokens - 1) / kRouteGroup_tokens;
  const Entries entries = fetch_entries(rank, thread);  // ahead of the rows: all else waits for them
  Vector vectors[kFewAhead] = {};
#pragma unroll
  for (int i = 0; i < kFewAhead; ++i) {
    const int next = thread + i * threads;
    if (token >= 0 && next < rank.num_vectors) vectors[i] = load_vector_of(rank, token, next);
  }
  const bool finds = token >= 0 && thread >= threads - kWarpSize;
  const int expert = finds ? expert_of_lane(rank, token) : -1;
  bool refused = was_refused(args);
  refused |= mark_few_senders(args, rank, groups, entries, shared);
  wait_for_previous_kernel();
  const int round = RoundOfSlice{args}(rank) + 1;
  refused = __syncthreads_or(refused) != 0;
  if (finds) find_few_destinations(args, rank, token, expert, refused, shared);
  const auto round_of = [round](const RankArgs&) { return round; };
  if (token < 0) {
    for (int to = thread; to < args.ep_size; to += threads) announce(args, rank, to, rows_to(shared, to, groups));
    signal_peers(args, Round::dispatch, refused, round_of, static_cast<int>(gridDim.x));
  }
  __syncthreads();
  if (token >= 0) send_rows(rank, token, shared.destinations, vectors);
  __syncthreads();
  count_sent_block(args, rank);
  if (token >= 0) return;
  wait_for_peers(args, Round::dispatch, round_of);
  if (thread == 0) begin_round(args, rank, round);
}

}  // namespace

bool has_few_tokens(const LaunchArgs& args) {
  return args.has_remote_ranks != 0 && args.num_local_ranks == 1 && args.ranks[0].num_tokens <= kFewTokens;
}

int load_dispatch_few() { return load(send_few_kernel); }

int launch_dispatch_few(const LaunchArgs& args, int most_vectors, Stream stream) {
  return start({args.ranks[0].num_tokens + 1, threads_for(most_vectors, kMaxFewThreads), stream, true}, send_few_kernel,
               args);
}

}  // namespace a2asim::gpu
