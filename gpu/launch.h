// What the host hands to the kernels, and the functions that start them. Plain structs of integers and pointers: this
// header is compiled by nvcc and by the host compiler, and names no CUDA type.
//
// One launch serves all ranks that are local to a device. Where launches share a device, only one block of each waits
// for peers of another (protocol.cuh), so that any number of tokens makes progress there, too; FlashInfer's combine
// polls in every block and cannot (moeAlltoAllKernels.cu, moeA2ACombineKernel).
#pragma once

#include <cstddef>
#include <cstdint>

#include "model/alltoall/routing.h"
#include "model/alltoall/workspace.h"

struct CUstream_st;  // cudaStream_t is a pointer to it

namespace a2asim::gpu {

using Stream = CUstream_st*;

// What a rank's peers must agree with; it travels beside the completion flag, in no order with it: round and check say
// whether all of it has come. Not part of FlashInfer's protocol.
struct alignas(16) GuardRecord {
  std::int64_t runtime_max_tokens_per_rank = 0;
  std::int64_t max_num_tokens = 0;
  std::int32_t payload_bytes_per_token[kMaxPayloads] = {};  // 0 beyond the last payload
  std::int32_t combine_bytes_per_token = 0;
  std::int32_t refused = 0;         // the rank found its own input unusable and sent nothing
  std::int32_t counted_blocks = 0;  // so many count in SliceHeader::sent_blocks; 0: data is complete with the flag
  std::int32_t round = 0;           // the flag's value
  std::uint32_t check = 0;          // of the words before
};
static_assert(sizeof(GuardRecord) == 64);

inline constexpr std::int64_t kRowAlignment_bytes = 4096;

// In front of every slice, at a distance that no configuration changes: ranks that disagree can still read each other.
// Two boards, as there are two arrays of flags: a fast rank's combine must not overwrite what a slow peer still reads.
struct SliceHeader {
  GuardRecord dispatch[kMaxRanks];
  GuardRecord combine[kMaxRanks];
  std::int32_t sent_blocks[kMaxRanks];  // [source]: blocks of a dispatch of few tokens whose rows are here
  std::byte rest_of_page[kRowAlignment_bytes - 4 * kMaxRanks];
};

struct PayloadArgs {
  const std::byte* source = nullptr;  // [num_tokens, bytes_per_token]
  std::int64_t region_bytes = 0;      // RegionView's, of this rank's own R, from the start of a slice
  std::int32_t bytes_per_token = 0;
  std::int32_t first_vector = 0;  // vectors of the payloads in front: all vectors of a token are numbered through
  std::int32_t width_bytes = 0;   // 16, 8, 4, 2 or 1: the largest that divides bytes_per_token
  std::int32_t num_vectors = 0;
};

// Of 32 consecutive tokens and one destination: what gives a token its slot without a look at the tokens before it.
struct RouteGroup {
  std::uint32_t senders = 0;  // bit i: token i of the group goes there
  std::int32_t before = 0;    // tokens of earlier groups that go there
};
inline constexpr int kRouteGroup_tokens = 32;

// One local rank in one launch.
struct RankArgs {
  std::int32_t rank = 0;
  std::int32_t num_tokens = 0;
  std::int32_t runtime_max_tokens_per_rank = 0;
  std::int32_t top_k = 0;
  std::int32_t max_num_tokens = 0;
  std::int32_t max_top_k = 0;
  std::int32_t num_experts = 0;
  std::int32_t num_payloads = 0;
  std::int32_t num_vectors = 0;  // of one token, all payloads
  std::int32_t combine_bytes_per_token = 0;
  std::int64_t combine_region_bytes = 0;  // the same, of dispatch's R
  std::uint64_t active_rank_mask = 0;
  const std::int32_t* token_selected_experts = nullptr;
  RouteGroup* routes = nullptr;  // [ceil(num_tokens / 32), ep_size]: scratch between the two kernels of dispatch
  std::byte* output = nullptr;   // [num_tokens, hidden] of combine's type
  PayloadArgs payloads[kMaxPayloads];

  // Bytes from the start of a slice, as RegionView has them: kernels get its numbers, and combine may have another R.
  A2ASIM_HOST_DEVICE std::int64_t row_number(int source, std::int64_t slot) const {
    return receive_row(source, slot, runtime_max_tokens_per_rank);
  }
  A2ASIM_HOST_DEVICE std::int64_t row(int payload, std::int64_t row_number) const {
    return row_offset(payloads[payload].region_bytes, row_number, payloads[payload].bytes_per_token);
  }
  A2ASIM_HOST_DEVICE std::int64_t combine_row(std::int64_t row_number) const {
    return row_offset(combine_region_bytes, row_number, combine_bytes_per_token);
  }
};

inline constexpr std::uint64_t kNoBadExpert = ~std::uint64_t{0};

// Device memory, one a device. Kernels write it, the host reads it after a synchronisation.
struct DeviceState {
  std::uint32_t next_combine = 0;           // items handed out beyond each block's first; the last block sets it to 0
  std::uint32_t done_blocks = 0;            // of the running kernel; back to 0 when it ends
  std::uint32_t guard_mismatch = 0;         // some rank saw a peer whose record differs from its own
  std::uint32_t peer_refused = 0;           // some rank saw a peer that refused its input
  std::uint32_t in_combine = 0;             // which of the two arrays of flags was used last
  std::uint64_t bad_expert = kNoBadExpert;  // smallest rank << 48 | token << 8 | position
  std::uint64_t missing[kMaxRanks] = {};    // [rank]: peers whose flag did not come in time
};

struct LaunchArgs {
  std::int32_t num_local_ranks = 0;
  std::int32_t ep_size = 0;
  std::int32_t guard = 1;
  std::int32_t has_remote_ranks = 0;  // then flags and data need system scope, and combine waits for peers
  std::int32_t shares_device = 0;     // with another launch of this run
  std::int64_t timeout_ns = 0;
  DeviceState* state = nullptr;
  std::byte* slices[kMaxRanks] = {};        // by rank, as this device addresses them
  std::int8_t local_index[kMaxRanks] = {};  // by rank: index into ranks, or -1 for a peer of another launch
  std::int32_t first_token[kMaxRanks + 1] =
      {};                     // tokens of the local ranks in front; [num_local_ranks] is their number
  RankArgs ranks[kMaxRanks];  // [num_local_ranks]
};

// The types the reduction knows. Values as DataType's first four.
enum class NumberType : std::int32_t { bfloat16, float16, float32, float8_e4m3 };

struct ExpertArgs {
  std::int32_t hidden_payload = 0;
  std::int32_t expert_id_payload = 0;
  std::int32_t weight_payload = 0;
  NumberType type = NumberType::bfloat16;
  std::int32_t hidden_size = 0;
};

struct SanitizeArgs {
  std::int32_t expert_id_payload[kMaxRanks] = {};  // by local rank
  std::int32_t invalid_expert_id = -1;
};

// Each returns a cudaError_t as an int (0 is success) and only enqueues. All may be captured into a CUDA graph.
int launch_dispatch(const LaunchArgs& args, Stream stream);
int launch_sanitize(const LaunchArgs& args, const SanitizeArgs& sanitize, Stream stream);
int launch_experts(const LaunchArgs& args, const ExpertArgs* experts_by_local_rank, Stream stream);
int launch_combine(const LaunchArgs& args, NumberType type, int top_k, Stream stream);
// Bring the kernels of the next such launch onto the current device, without running anything.
int load_dispatch();
int load_combine(const LaunchArgs& args, NumberType type, int top_k);
// An empty kernel: what a launch costs.
int launch_nothing(Stream stream);

}  // namespace a2asim::gpu
