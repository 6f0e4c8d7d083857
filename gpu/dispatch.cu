// Dispatch in two kernels: route counts, so that every (token, destination) knows its slot; send copies the rows.
//
// The published kernel (moeAlltoAllKernels.cu, moeA2ADispatchKernel) takes slots from an atomic counter, one block a
// token. Here slots are given in token order, so receive buffers are the same bytes in every run: one block a rank
// counts ahead, 32 tokens at a time. A row is read once and written to all its destinations.
#include "gpu/launch_config.cuh"
#include "gpu/vector.cuh"

namespace a2asim::gpu {
namespace {

constexpr int kRouteWarps = 32;

struct RouteShared {
  unsigned senders[kRouteWarps][kMaxRanks + 1];  // [group of this chunk][destination]; + 1 avoids bank conflicts
  int before[kRouteWarps][kMaxRanks + 1];
  int total[kMaxRanks];
};

// Destination of one top-k entry; -1 if the id is out of range (noted in the state) or the destination is masked out.
__device__ int destination_of(const LaunchArgs& args, const RankArgs& rank, int token, int position, int expert) {
  if (expert < 0 || expert >= rank.num_experts) {
    const auto where = static_cast<unsigned long long>(rank.rank) << 48 | static_cast<unsigned long long>(token) << 8 |
                       static_cast<unsigned long long>(position);
    atomicMin(reinterpret_cast<unsigned long long*>(&args.state->bad_expert), where);
    return -1;
  }
  const auto to = static_cast<int>(target_rank_in<std::uint32_t>(static_cast<std::uint32_t>(expert),
                                                                 static_cast<std::uint32_t>(rank.num_experts),
                                                                 static_cast<std::uint32_t>(args.ep_size)));
  return is_active(rank.active_rank_mask, to) ? to : -1;
}

// Bit d: this token goes to rank d. Several experts of one rank give one bit: one copy. Four ids at a time, so that
// their loads are in flight together.
__device__ std::uint64_t destinations_of(const LaunchArgs& args, const RankArgs& rank, int token) {
  const std::int32_t* ids = rank.token_selected_experts + static_cast<std::int64_t>(token) * rank.top_k;
  const bool in_fours = rank.top_k % 4 == 0 && reinterpret_cast<std::uintptr_t>(rank.token_selected_experts) % 16 == 0;
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
      const int to = destination_of(args, rank, token, position + i, expert[i]);
      if (to >= 0) mask |= std::uint64_t{1} << to;
    }
  }
  return mask;
}

// One warp, one group of 32 tokens: which of them go where.
__device__ void mark_senders(const LaunchArgs& args, const RankArgs& rank, int group, unsigned* senders) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const int token = group * kRouteGroup_tokens + lane;
  const std::uint64_t mask = token < rank.num_tokens ? destinations_of(args, rank, token) : 0;
  for (int to = 0; to < args.ep_size; ++to) {
    const unsigned marked = __ballot_sync(kFullWarp, is_active(mask, to));
    if (lane == to % kWarpSize) senders[to] = marked;
  }
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

__global__ void __launch_bounds__(kRouteWarps* kWarpSize) route_kernel(const __grid_constant__ LaunchArgs args) {
  let_next_kernel_start();
  __shared__ RouteShared shared;
  const RankArgs& rank = args.ranks[blockIdx.x];
  std::byte* slice = args.slices[rank.rank];
  const WorkspaceLayout at = layout_of(args, rank);
  const int thread = static_cast<int>(threadIdx.x);
  const int lane = thread % kWarpSize;
  const int warp = thread / kWarpSize;
  const int warps = static_cast<int>(blockDim.x) / kWarpSize;
  for (int to = thread; to < args.ep_size; to += static_cast<int>(blockDim.x)) shared.total[to] = 0;
  if (thread == 0) {
    *words(slice, at.flag_val) += 1;
    *words(slice, at.local_token_counter) = rank.num_tokens;
    if (blockIdx.x == 0) args.state->next_send = 0;
  }
  for (int chunk = 0; chunk * kRouteGroup_tokens < rank.num_tokens; chunk += warps) {
    const int group = chunk + warp;
    mark_senders(args, rank, group, shared.senders[warp]);
    __syncthreads();
    count_before(shared, args.ep_size);
    __syncthreads();
    if (group * kRouteGroup_tokens >= rank.num_tokens) continue;
    for (int to = lane; to < args.ep_size; to += kWarpSize) {
      rank.routes[group * args.ep_size + to] = {shared.senders[warp][to], shared.before[warp][to]};
    }
  }
  __syncthreads();
  for (int to = thread; to < args.ep_size; to += static_cast<int>(blockDim.x)) {
    words(slice, at.send_counters)[to] = shared.total[to];
  }
}

// What a block of send copies next, and where to. Two structs, because the rows can be read before route has ended.
struct Piece {
  int local;  // -1: no more work
  int token;
  int first_vector;
};
struct Destinations {
  int count;
  unsigned long long row[kMaxTopK][kMaxPayloads];  // [destination][payload]: address of the row
};

constexpr int kPieces = 4;  // a power of two above the three that are looked at or written at once
struct SendShared {
  Piece pieces[kPieces];
  Destinations destinations[2];
};

// One warp, lane j for position j: the piece's destinations, and with a token's first piece its rows of the top-k
// tables.
__device__ void find_destinations(const LaunchArgs& args, const Piece& piece, bool refused, Destinations& found) {
  const int lane = static_cast<int>(threadIdx.x) % kWarpSize;
  const RankArgs& rank = args.ranks[piece.local];
  const std::int64_t entry = static_cast<std::int64_t>(piece.token) * rank.top_k + lane;
  const int expert = lane < rank.top_k ? rank.token_selected_experts[entry] : -1;
  const int to = lane < rank.top_k && !refused ? destination_of(args, rank, piece.token, lane, expert) : -1;
  // The first position of each destination carries the copy, as distinct_targets of routing.h.
  const unsigned same = __match_any_sync(kFullWarp, to);
  const bool carries = to >= 0 && (same & ((1u << lane) - 1)) == 0;
  int slot = -1;
  if (carries) {
    const RouteGroup route = rank.routes[piece.token / kRouteGroup_tokens * args.ep_size + to];
    slot = route.before + __popc(route.senders & ((1u << piece.token % kRouteGroup_tokens) - 1));
  }
  const unsigned carriers = __ballot_sync(kFullWarp, carries);
  if (carries) {
    const int index = __popc(carriers & ((1u << lane) - 1));
    const std::int64_t row = receive_row(rank.rank, slot, rank.runtime_max_tokens_per_rank);
    for (int p = 0; p < rank.num_payloads; ++p) {
      const PayloadArgs& payload = rank.payloads[p];
      found.row[index][p] =
          reinterpret_cast<unsigned long long>(args.slices[to] + payload.region_bytes + row * payload.bytes_per_token);
    }
  }
  if (lane == 0) found.count = __popc(carriers);
  if (lane >= rank.top_k || piece.first_vector != 0 || refused) return;
  const WorkspaceLayout at = layout_of(args, rank);
  words(args.slices[rank.rank], at.topk_target_ranks)[entry] = carries ? to : -1;
  words(args.slices[rank.rank], at.topk_send_indices)[entry] = slot;
}

// The scouting warp: draws pieces and finds their destinations, one step ahead of the copying warps.
__device__ void scout(const LaunchArgs& args, int first_piece, int copying_blocks, int num_pieces, int vectors,
                      SendShared& shared) {
  const bool speaks = threadIdx.x % kWarpSize == 0;
  PieceCursor cursor(args, first_piece, vectors);
  const auto current = [&] {
    return cursor.done() ? Piece{-1, 0, 0} : Piece{cursor.local(), cursor.token(), cursor.first_vector()};
  };
  Piece piece = current();
  if (speaks) shared.pieces[0] = piece;
  __syncthreads();
  wait_for_previous_kernel();
  TicketCounter tickets(&args.state->next_send, copying_blocks);
  const bool refused = *const_cast<volatile std::uint64_t*>(&args.state->bad_expert) != kNoBadExpert;
  for (int step = 0;; ++step) {
    if (piece.local >= 0) {
      if (copying_blocks < num_pieces) tickets.ask();
      find_destinations(args, piece, refused, shared.destinations[step % 2]);
      cursor.move_to(copying_blocks < num_pieces ? tickets.answer() : num_pieces);
    }
    const Piece next = current();
    if (speaks) shared.pieces[(step + 1) % kPieces] = next;
    __syncthreads();
    if (piece.local < 0) return;
    piece = next;
  }
}

__device__ void copy_async(void* shared, const std::byte* from, int width_bytes) {
  const auto to = static_cast<unsigned>(__cvta_generic_to_shared(shared));
  if (width_bytes == 16) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16;" ::"r"(to), "l"(from) : "memory");
  } else if (width_bytes == 8) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 8;" ::"r"(to), "l"(from) : "memory");
  } else if (width_bytes == 4) {
    asm volatile("cp.async.ca.shared.global [%0], [%1], 4;" ::"r"(to), "l"(from) : "memory");
  } else {
    *static_cast<uint4*>(shared) = load_vector(from, width_bytes);
  }
}

// Which vector of a row a thread copies: payload, offset and width in one register (they are the scarce thing here).
class Place {
 public:
  Place() = default;
  __device__ Place(int payload, int offset_bytes, int width_bytes)
      : bits_(static_cast<unsigned>(offset_bytes) << 8 | static_cast<unsigned>(width_bytes) << 3 |
              static_cast<unsigned>(payload)) {}
  __device__ int payload() const { return static_cast<int>(bits_ & 7); }
  __device__ int width_bytes() const { return static_cast<int>(bits_ >> 3 & 31); }  // 0: none
  __device__ unsigned offset_bytes() const { return bits_ >> 8; }                   // a row is below 2^24 bytes

 private:
  unsigned bits_ = 0;
};

// Fetches a thread's vector of a piece ahead of time.
class VectorReader {
 public:
  __device__ Place fetch(const LaunchArgs& args, const Piece& piece, uint4* buffer) {
    if (piece.local != local_ || piece.first_vector != first_vector_) look_up(args, piece);
    if (place_.width_bytes() != 0) {
      copy_async(buffer, source_ + static_cast<std::int64_t>(piece.token) * pitch_bytes_, place_.width_bytes());
    }
    return place_;
  }

 private:
  __device__ void look_up(const LaunchArgs& args, const Piece& piece) {
    const RankArgs& rank = args.ranks[piece.local];
    const int vector = piece.first_vector + static_cast<int>(threadIdx.x);
    local_ = piece.local;
    first_vector_ = piece.first_vector;
    place_ = {};
    if (vector >= rank.num_vectors) return;
    int p = 0;
    while (p + 1 < rank.num_payloads && vector >= rank.payloads[p + 1].first_vector) ++p;
    const PayloadArgs& payload = rank.payloads[p];
    place_ = {p, (vector - payload.first_vector) * payload.width_bytes, payload.width_bytes};
    pitch_bytes_ = payload.bytes_per_token;
    source_ = payload.source + place_.offset_bytes();
  }

  int local_ = -1;
  int first_vector_ = -1;
  Place place_;
  int pitch_bytes_ = 0;
  const std::byte* source_ = nullptr;
};

// Streaming stores: what is written here is more than the cache holds, and nobody reads it before the next kernel.
__device__ void store_to_all(const Destinations& to, Place place, const uint4* buffer) {
  if (place.width_bytes() == 0) return;
  const uint4 value = *buffer;
  if (place.width_bytes() == 16) {
#pragma unroll 4
    for (int d = 0; d < to.count; ++d) {
      __stcs(reinterpret_cast<uint4*>(to.row[d][place.payload()] + place.offset_bytes()), value);
    }
  } else {
    for (int d = 0; d < to.count; ++d) {
      store_vector(reinterpret_cast<std::byte*>(to.row[d][place.payload()]) + place.offset_bytes(), value,
                   place.width_bytes());
    }
  }
}

// The copying warps: the next piece is on its way into shared memory while this one is written out.
__device__ void copy_pieces(const LaunchArgs& args, const SendShared& shared, uint4* buffers, int vectors) {
  VectorReader reader;
  uint4* const own = buffers + threadIdx.x;
  Place place, next;
  __syncthreads();
  if (shared.pieces[0].local >= 0) place = reader.fetch(args, shared.pieces[0], own);
  asm volatile("cp.async.commit_group;" ::: "memory");
  for (int step = 0;; ++step) {
    __syncthreads();
    if (shared.pieces[step % kPieces].local < 0) return;
    const Piece ahead = shared.pieces[(step + 1) % kPieces];
    if (ahead.local >= 0) next = reader.fetch(args, ahead, own + (step + 1) % 2 * vectors);
    asm volatile("cp.async.commit_group;" ::: "memory");
    asm volatile("cp.async.wait_group 1;" ::: "memory");
    store_to_all(shared.destinations[step % 2], place, own + step % 2 * vectors);
    place = next;
  }
}

__global__ void __launch_bounds__(1024, 2) send_kernel(const __grid_constant__ LaunchArgs args, int num_pieces) {
  extern __shared__ uint4 buffers[];  // [2][copying threads]
  __shared__ SendShared shared;
  const int block = static_cast<int>(blockIdx.x) - protocol_blocks(args);
  if (block < 0) {
    wait_for_previous_kernel();
    signal_peers(args, Round::dispatch, args.state->bad_expert != kNoBadExpert);
    return;
  }
  const int vectors = static_cast<int>(blockDim.x) - kWarpSize;  // of a piece: one a copying thread
  if (static_cast<int>(threadIdx.x) >= vectors) {
    scout(args, block, static_cast<int>(gridDim.x) - protocol_blocks(args), num_pieces, vectors, shared);
  } else {
    copy_pieces(args, shared, buffers, vectors);
  }
  if (args.has_remote_ranks == 0 || !is_last_block(args)) return;
  // The only block that waits.
  signal_peers(args, Round::dispatch, args.state->bad_expert != kNoBadExpert);
  wait_for_peers(args, Round::dispatch);
}

}  // namespace

int launch_dispatch(const LaunchArgs& args, Stream stream) {
  int most_tokens = 0, most_vectors = 0;
  std::int64_t pieces = 0;
  for (int i = 0; i < args.num_local_ranks; ++i) {
    most_tokens = max(most_tokens, args.ranks[i].num_tokens);
    most_vectors = max(most_vectors, args.ranks[i].num_vectors);
  }
  const int vectors = threads_for(most_vectors, 1024 - kWarpSize);
  for (int i = 0; i < args.num_local_ranks; ++i) {
    pieces +=
        static_cast<std::int64_t>(args.ranks[i].num_tokens) * ((args.ranks[i].num_vectors + vectors - 1) / vectors);
  }
  if (pieces > INT_MAX / 2) return cudaErrorInvalidValue;
  const int groups = (most_tokens + kRouteGroup_tokens - 1) / kRouteGroup_tokens;
  const int route_warps = min(max(groups, 1), kRouteWarps);
  const int routed = start({args.num_local_ranks, route_warps * kWarpSize, stream, false}, route_kernel, args);
  if (routed != cudaSuccess) return routed;
  LaunchShape shape(1, vectors + kWarpSize, stream, true);
  shape.shared_bytes = 2 * static_cast<std::size_t>(vectors) * sizeof(uint4);
  // Where nobody waits, a block a piece: the hardware hands them out best. Where the last block has to find out that
  // all others are through, only as many as fit, drawing their pieces from a counter.
  std::int64_t blocks = pieces;
  if (args.has_remote_ranks != 0) {
    const int resident = resident_blocks(send_kernel, shape.threads, shape.shared_bytes);
    if (resident <= 0) return cudaErrorLaunchOutOfResources;
    blocks = pieces < resident ? pieces : resident;
  }
  const std::int64_t protocol = args.has_remote_ranks != 0 ? 0 : 1;
  shape.blocks = dim3(static_cast<unsigned>((blocks < 1 ? 1 : blocks) + protocol));
  return start(shape, send_kernel, args, static_cast<int>(pieces));
}

}  // namespace a2asim::gpu
