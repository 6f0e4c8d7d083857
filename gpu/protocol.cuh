// Flags, round numbers and the guard: the part of the kernels in which ranks meet.
//
// FlashInfer's protocol (moeAlltoAllKernels.cu): every rank counts rounds in FLAG_VAL, stores its count into the
// peers' completion flags when its data is complete, and waits until the peers' counts equal its own. Here the waiting
// is bounded in wall time, and a GuardRecord travels beside each flag.
#pragma once

#include <cuda_runtime.h>

#include "gpu/launch.h"

namespace a2asim::gpu {

enum class Round { dispatch, combine };

__device__ inline std::int32_t* words(std::byte* slice, std::int64_t offset_bytes) {
  return reinterpret_cast<std::int32_t*>(slice + offset_bytes);
}

__device__ inline SliceHeader* header_of(std::byte* slice) {
  return reinterpret_cast<SliceHeader*>(slice - sizeof(SliceHeader));
}

__device__ inline WorkspaceLayout layout_of(const LaunchArgs& args, const RankArgs& rank) {
  return make_workspace_layout(args.ep_size, rank.max_num_tokens, rank.max_top_k);
}

// The offsets up to the flags depend on ep_size alone, so a peer's are known without knowing its configuration.
__device__ inline std::int64_t flags_offset(const LaunchArgs& args, Round round) {
  const WorkspaceLayout at = make_workspace_layout(args.ep_size, 0, 0);
  return round == Round::dispatch ? at.dispatch_completion_flags : at.combine_completion_flags;
}

__device__ inline bool is_active(std::uint64_t mask, int rank) { return (mask >> rank & 1) != 0; }

__device__ inline std::uint64_t wall_time_ns() {
  std::uint64_t now;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  return now;
}

// Between launches, on one device or several.
__device__ inline void store_release(std::int32_t* where, std::int32_t value) {
  asm volatile("st.release.sys.global.s32 [%0], %1;" ::"l"(where), "r"(value) : "memory");
}

__device__ inline std::int32_t load_acquire(const std::int32_t* where) {
  std::int32_t value;
  asm volatile("ld.acquire.sys.global.s32 %0, [%1];" : "=r"(value) : "l"(where) : "memory");
  return value;
}

__device__ inline void add_release(std::int32_t* where, std::int32_t value) {
  asm volatile("red.release.sys.global.add.s32 [%0], %1;" ::"l"(where), "r"(value) : "memory");
}

__device__ inline void store_relaxed(std::int32_t* where, std::int32_t value) {
  asm volatile("st.relaxed.sys.global.s32 [%0], %1;" ::"l"(where), "r"(value) : "memory");
}

__device__ inline std::int32_t load_relaxed(const std::int32_t* where) {
  std::int32_t value;
  asm volatile("ld.relaxed.sys.global.s32 %0, [%1];" : "=r"(value) : "l"(where) : "memory");
  return value;
}

// Programmatic dependent launch: the next kernel's blocks may start while this one still runs; they wait for its end
// (and see its writes) in wait_for_previous_kernel. Without effect where the launch did not ask for it.
__device__ inline void let_next_kernel_start() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

__device__ inline void wait_for_previous_kernel() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
}

// A record as words, each of which is stored and loaded whole.
constexpr int kRecordWords = sizeof(GuardRecord) / sizeof(std::uint32_t);
constexpr int kCheckWord = offsetof(GuardRecord, check) / sizeof(std::uint32_t);

__device__ inline std::uint32_t check_of(const std::uint32_t (&words)[kRecordWords]) {
  std::uint32_t check = 2166136261u;
#pragma unroll
  for (int i = 0; i < kCheckWord; ++i) check = (check ^ words[i]) * 16777619u;
  return check;
}

__device__ inline void post_record(GuardRecord* where, GuardRecord record, std::int32_t round) {
  std::uint32_t words[kRecordWords];
  record.round = round;
  memcpy(words, &record, sizeof(record));
  words[kCheckWord] = check_of(words);
#pragma unroll
  for (int i = 0; i < kRecordWords; i += 4) {
    asm volatile(
        "st.relaxed.sys.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(reinterpret_cast<std::byte*>(where) + 4 * i),
        "r"(words[i]), "r"(words[i + 1]), "r"(words[i + 2]), "r"(words[i + 3])
        : "memory");
  }
}

// Whether the record of this round has come, whole.
__device__ inline bool read_record(const GuardRecord* where, std::int32_t round, GuardRecord& record) {
  std::uint32_t words[kRecordWords];
#pragma unroll
  for (int i = 0; i < kRecordWords; i += 4) {
    asm volatile("ld.relaxed.sys.global.v4.u32 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[i]), "=r"(words[i + 1]), "=r"(words[i + 2]), "=r"(words[i + 3])
                 : "l"(reinterpret_cast<const std::byte*>(where) + 4 * i)
                 : "memory");
  }
  memcpy(&record, words, sizeof(record));
  return record.round == round && record.check == check_of(words);
}

__device__ inline GuardRecord guard_record(const RankArgs& rank, bool refused) {
  GuardRecord record;
  record.runtime_max_tokens_per_rank = rank.runtime_max_tokens_per_rank;
  record.max_num_tokens = rank.max_num_tokens;
  for (int p = 0; p < kMaxPayloads; ++p) {
    record.payload_bytes_per_token[p] = p < rank.num_payloads ? rank.payloads[p].bytes_per_token : 0;
  }
  record.combine_bytes_per_token = rank.combine_bytes_per_token;
  record.refused = refused ? 1 : 0;
  return record;
}

__device__ inline bool agrees(const GuardRecord& a, const GuardRecord& b) {
  bool same = a.runtime_max_tokens_per_rank == b.runtime_max_tokens_per_rank && a.max_num_tokens == b.max_num_tokens &&
              a.combine_bytes_per_token == b.combine_bytes_per_token;
  for (int p = 0; p < kMaxPayloads; ++p) same &= a.payload_bytes_per_token[p] == b.payload_bytes_per_token[p];
  return same;
}

// Peers of the local ranks, numbered through for the threads of one block.
struct Pair {
  const RankArgs* rank;
  int peer;
  bool meet;  // both take part
};

__device__ inline Pair pair_at(const LaunchArgs& args, int index) {
  const RankArgs& rank = args.ranks[index / args.ep_size];
  const int peer = index % args.ep_size;
  return {&rank, peer, is_active(rank.active_rank_mask, peer)};
}

// The number of the round that a rank is in, as its slice has it.
__device__ inline std::int32_t* round_in_slice(const LaunchArgs& args, const RankArgs& rank) {
  return words(args.slices[rank.rank], make_workspace_layout(args.ep_size, 0, 0).flag_val);
}

struct RoundOfSlice {
  const LaunchArgs& args;
  __device__ std::int32_t operator()(const RankArgs& rank) const { return *round_in_slice(args, rank); }
};

// Tells every peer of every local rank that the round's data is there. All threads of one block. For peers of other
// launches the data must have been ordered before, by a kernel boundary or is_last_block; the flag goes ahead of the
// record, because a release waits until all that its thread stored before has arrived. Peers of this launch look only
// after its end, so for them this may run beside the copying.
template <class RoundOf>
__device__ inline void signal_peers(const LaunchArgs& args, Round round, bool refused, const RoundOf& round_of,
                                    int counted_blocks = 0) {
  const std::int64_t flags = flags_offset(args, round);
  if (threadIdx.x == 0) args.state->in_combine = round == Round::combine ? 1 : 0;
  for (int i = static_cast<int>(threadIdx.x); i < args.num_local_ranks * args.ep_size;
       i += static_cast<int>(blockDim.x)) {
    const Pair pair = pair_at(args, i);
    if (!pair.meet) continue;
    std::byte* theirs = args.slices[pair.peer];
    const std::int32_t flag_val = round_of(*pair.rank);
    GuardRecord record = guard_record(*pair.rank, refused);
    record.counted_blocks = counted_blocks;
    const int local_peer = args.local_index[pair.peer];
    std::int32_t* flag = words(theirs, flags) + pair.rank->rank;
    SliceHeader* header = header_of(theirs);
    GuardRecord* board = (round == Round::dispatch ? header->dispatch : header->combine) + pair.rank->rank;
    if (local_peer < 0) {
      counted_blocks > 0 ? store_relaxed(flag, flag_val) : store_release(flag, flag_val);
      post_record(board, record, flag_val);
      continue;
    }
    *flag = flag_val;
    *board = record;
    if (args.guard != 0 && !agrees(record, guard_record(args.ranks[local_peer], refused)))
      args.state->guard_mismatch = 1;
  }
}

// Waits until has_come() is true, at most timeout_ns from start on. False: not in time, and the peer is noted as
// missing.
template <class HasCome>
__device__ inline bool wait_for_peer(const LaunchArgs& args, int rank, int peer, std::uint64_t start,
                                     const HasCome& has_come) {
  for (bool late = false;; late = wall_time_ns() - start > static_cast<std::uint64_t>(args.timeout_ns)) {
    if (has_come()) return true;
    if (late) break;
  }
  atomicOr(reinterpret_cast<unsigned long long*>(&args.state->missing[rank]), 1ULL << peer);
  return false;
}

// Waits until every peer of another launch has signalled this round to every local rank, and compares the guard
// records. All threads of one block.
template <class RoundOf>
__device__ inline void wait_for_peers(const LaunchArgs& args, Round round, const RoundOf& round_of) {
  const std::uint64_t start = wall_time_ns();
  for (int i = static_cast<int>(threadIdx.x); i < args.num_local_ranks * args.ep_size;
       i += static_cast<int>(blockDim.x)) {
    const Pair pair = pair_at(args, i);
    if (!pair.meet || args.local_index[pair.peer] >= 0) continue;
    std::byte* own = args.slices[pair.rank->rank];
    const std::int32_t expected = round_of(*pair.rank);
    const std::int32_t* flag = words(own, flags_offset(args, round)) + pair.peer;
    SliceHeader* board = header_of(own);
    const GuardRecord* record = (round == Round::dispatch ? board->dispatch : board->combine) + pair.peer;
    GuardRecord theirs;
    const bool arrived = wait_for_peer(args, pair.rank->rank, pair.peer, start, [&] {
      // The loads are on their way together. What orders the rows is the count of blocks, or the flag where there is
      // none.
      const bool is_told = read_record(record, expected, theirs);
      if (round == Round::combine) return load_acquire(flag) == expected && is_told;
      const bool is_flagged = load_relaxed(flag) == expected;
      const std::int32_t blocks = load_acquire(&board->sent_blocks[pair.peer]);
      if (!is_told || !is_flagged) return false;
      if (theirs.counted_blocks == 0) return load_acquire(flag) == expected;
      return blocks == theirs.counted_blocks;
    });
    if (!arrived) continue;
    if (theirs.counted_blocks != 0) board->sent_blocks[pair.peer] = 0;
    if (theirs.refused != 0) args.state->peer_refused = 1;
    if (args.guard != 0 && !agrees(theirs, guard_record(*pair.rank, false))) args.state->guard_mismatch = 1;
  }
}

// Dispatch keeps the protocol in a block of its own, beside the copying ones, where all peers are local to the launch:
// nobody looks before its end. Otherwise a kernel of one block does it after the copying.
__device__ inline int protocol_blocks(const LaunchArgs& args) { return args.has_remote_ranks != 0 ? 0 : 1; }

}  // namespace a2asim::gpu
