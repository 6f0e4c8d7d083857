// Where everything lies in one rank's slice of the symmetric workspace: the one geometry header.
//
// Included by model, sim and the CUDA kernels alike, so that allocator, simulator and kernel cannot disagree. Plain
// integers only: no allocation, no exceptions, no library types. The rule is FlashInfer's
// csrc/trtllm_moe_alltoall.cu (calculateOffsets, moeA2ADispatchOp, moeA2ACombineOp) and
// flashinfer/comm/trtllm_moe_alltoall.py (moe_a2a_get_workspace_size_per_rank).
//
// Shapes: a payload's receive region is [ep_size, R, bytes_per_token], R = runtime_max_tokens_per_rank; the row of
// (source rank, slot) is source * R + slot. Payload regions follow each other without padding (TensorRT-LLM's own
// kernels: each at a multiple of 128); the combine region starts at the next multiple of 128. All sizes and offsets are
// bytes from the start of the slice.
#pragma once

#include <cstdint>

#include "model/alltoall/host_device.h"

namespace a2asim {

inline constexpr std::int64_t kWorkspaceAlignment_bytes = 128;
inline constexpr int kMaxRanks = 64;          // FlashInfer's kMaxRanks: one bit of a mask word per rank
inline constexpr int kMaxPayloads = 6;        // FlashInfer's kMaxPayloads from v0.6.16; 4 before, 8 in v0.6.1
inline constexpr int kMostPayloads = 8;       // of any version
inline constexpr int kMaxTopKWorkspace = 22;  // FlashInfer's kMaxTopK from v0.6.8.post1: entries reserved per token

A2ASIM_HOST_DEVICE constexpr std::int64_t align_up(std::int64_t value, std::int64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

// By mask, as FlashInfer does it: it rounds towards +infinity for negative sizes too (a cap of -1 is accepted there).
A2ASIM_HOST_DEVICE constexpr std::int64_t pad128(std::int64_t bytes) {
  return (bytes + kWorkspaceAlignment_bytes - 1) & -kWorkspaceAlignment_bytes;
}

// Byte offsets of FlashInfer's metainfo fields inside one slice (int32 fields; names as in moeAlltoAllMeta.h).
struct WorkspaceLayout {
  std::int64_t flag_val = 0;                   // int32, the round counter of this rank
  std::int64_t local_token_counter = 0;        // int32
  std::int64_t send_counters = 0;              // int32 [ep_size]
  std::int64_t recv_counters = 0;              // int32 [ep_size]
  std::int64_t dispatch_completion_flags = 0;  // int32 [ep_size]
  std::int64_t combine_completion_flags = 0;   // int32 [ep_size]
  std::int64_t topk_target_ranks = 0;    // int32 [max_num_tokens, max_top_k] reserved; dense rows of pitch top_k used
  std::int64_t topk_send_indices = 0;    // int32, the same
  std::int64_t eplb_gathered_stats = 0;  // int32 [ep_size, eplb_stats_num_experts]; from FlashInfer v0.6.16
  std::int64_t payload_data = 0;         // first receive region; also FlashInfer's aux_data_size
  std::int64_t payload_alignment = 1;    // of each receive region's begin
};

// max_top_k: kMaxTopK of the FlashInfer version (8 in v0.6.1, 22 later), not the model's top_k.
// eplb_stats_num_experts: 0 before v0.6.16 and when unused.
A2ASIM_HOST_DEVICE constexpr WorkspaceLayout make_workspace_layout(int ep_size, std::int64_t max_num_tokens,
                                                                   int max_top_k,
                                                                   std::int64_t eplb_stats_num_experts = 0) {
  constexpr std::int64_t word = 4;
  WorkspaceLayout at;
  at.local_token_counter = at.flag_val + word;
  at.send_counters = at.local_token_counter + word;
  at.recv_counters = at.send_counters + word * ep_size;
  at.dispatch_completion_flags = pad128(at.recv_counters + word * ep_size);
  at.combine_completion_flags = pad128(at.dispatch_completion_flags + word * ep_size);
  at.topk_target_ranks = pad128(at.combine_completion_flags + word * ep_size);
  at.topk_send_indices = pad128(at.topk_target_ranks + word * max_num_tokens * max_top_k);
  at.eplb_gathered_stats = pad128(at.topk_send_indices + word * max_num_tokens * max_top_k);
  at.payload_data = pad128(at.eplb_gathered_stats + word * ep_size * eplb_stats_num_experts);
  return at;
}

// Bytes of one rank's workspace: pad128(aux) + pad128(ep * cap * dispatch bytes) + pad128(ep * cap * combine bytes).
A2ASIM_HOST_DEVICE constexpr std::int64_t workspace_bytes_per_rank(const WorkspaceLayout& layout, int ep_size,
                                                                   std::int64_t max_num_tokens,
                                                                   std::int64_t dispatch_bytes_per_token,
                                                                   std::int64_t combine_bytes_per_token) {
  return pad128(layout.payload_data) + pad128(ep_size * max_num_tokens * dispatch_bytes_per_token) +
         pad128(ep_size * max_num_tokens * combine_bytes_per_token);
}

// Row of (source rank, slot) in a region that was sized with R = runtime_max_tokens_per_rank.
A2ASIM_HOST_DEVICE constexpr std::int64_t receive_row(int source_rank, std::int64_t slot,
                                                      std::int64_t runtime_max_tokens_per_rank) {
  return source_rank * runtime_max_tokens_per_rank + slot;
}

// Where a row begins in a region: the one formula, for every payload and for combine's rows.
A2ASIM_HOST_DEVICE constexpr std::int64_t row_offset(std::int64_t region, std::int64_t row,
                                                     std::int64_t bytes_per_token) {
  return region + row * bytes_per_token;
}

// One rank's regions by its own R, on host and device:
//   const RegionView view(layout, ep_size, R, payload_bytes_per_token, num_payloads, combine_bytes_per_token);
//   view.row(payload, source, slot)   where that row of the receive buffer begins
//   view.combine_row(source, slot)    the same of the experts' outputs
//   view.end()                        behind all of them
class RegionView {
 public:
  RegionView() = default;
  A2ASIM_HOST_DEVICE constexpr RegionView(const WorkspaceLayout& layout, int ep_size,
                                          std::int64_t runtime_max_tokens_per_rank, const std::int64_t* payload_bytes,
                                          int num_payloads, std::int64_t combine_bytes)
      : runtime_max_(runtime_max_tokens_per_rank),
        rows_(ep_size * runtime_max_tokens_per_rank),
        num_payloads_(num_payloads),
        combine_bytes_(combine_bytes) {
    begin_[0] = layout.payload_data;
    for (int p = 0; p < num_payloads; ++p) {
      bytes_[p] = payload_bytes[p];
      begin_[p + 1] = align_up(row_offset(begin_[p], rows_, bytes_[p]), layout.payload_alignment);
    }
    combine_begin_ = pad128(begin_[num_payloads]);
  }

  A2ASIM_HOST_DEVICE constexpr std::int64_t region(int payload) const { return begin_[payload]; }
  A2ASIM_HOST_DEVICE constexpr std::int64_t bytes_per_token(int payload) const { return bytes_[payload]; }
  A2ASIM_HOST_DEVICE constexpr std::int64_t row(int payload, int source, std::int64_t slot) const {
    return row_offset(begin_[payload], receive_row(source, slot, runtime_max_), bytes_[payload]);
  }
  A2ASIM_HOST_DEVICE constexpr std::int64_t receive_end() const { return begin_[num_payloads_]; }
  A2ASIM_HOST_DEVICE constexpr std::int64_t combine_region() const { return combine_begin_; }
  A2ASIM_HOST_DEVICE constexpr std::int64_t combine_bytes_per_token() const { return combine_bytes_; }
  A2ASIM_HOST_DEVICE constexpr std::int64_t combine_row(int source, std::int64_t slot) const {
    return combine_row(source, slot, runtime_max_);
  }
  // The region is dispatch's; the row follows the R that combine was called with.
  A2ASIM_HOST_DEVICE constexpr std::int64_t combine_row(int source, std::int64_t slot,
                                                        std::int64_t combine_runtime_max) const {
    return row_offset(combine_begin_, receive_row(source, slot, combine_runtime_max), combine_bytes_);
  }
  A2ASIM_HOST_DEVICE constexpr std::int64_t end() const { return row_offset(combine_begin_, rows_, combine_bytes_); }
  A2ASIM_HOST_DEVICE constexpr std::int64_t rows() const { return rows_; }  // of each region
  A2ASIM_HOST_DEVICE constexpr int num_payloads() const { return num_payloads_; }

 private:
  std::int64_t runtime_max_ = 0, rows_ = 0;
  int num_payloads_ = 0;
  std::int64_t begin_[kMostPayloads + 1] = {};  // [num_payloads]: the end of the last
  std::int64_t bytes_[kMostPayloads] = {};
  std::int64_t combine_begin_ = 0, combine_bytes_ = 0;
};

}  // namespace a2asim
