// MAX_LEN / SUM_LEN and the padded list: what get_dp_global_num_tokens() finally is in an eager step.
//
// SGLang: DpPaddingMode (layers/dp_attention.py) and ForwardBatch.prepare_mlp_sync_batch
// (model_executor/forward_batch_info.py). Counts are aligned first, then the mode is chosen, then the list is padded.
// Lists are padded in place and nothing is allocated. Counts are >= 0 and below 2^40 (what people give is checked where
// it enters); a list has at least one entry.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "model/step/batch.h"
#include "model/base/result.h"

namespace a2asim {

enum class DpPaddingMode : std::uint8_t { max_len, sum_len };
std::string_view name(DpPaddingMode mode);  // "MAX_LEN", "SUM_LEN"

struct DpPaddingInputs {
  std::int64_t attn_tp_size = 1;
  std::int64_t cp_align_size = 1;  // what cp_padding_align_size_* gives
  std::int64_t attn_dp_size = 1;   // not the list's length: a collapsed list has one entry
  bool is_extend_in_batch = false;
  bool max_len_with_idle = false;  // hybrid-SSM model; pr24850 on
  bool force_max_len = false;      // backend_forces_max_len
  // Prefill graphs, main20260823 on: MAX_LEN when every rank voted and the largest count fits a captured size.
  bool can_run_dp_breakable_cuda_graph = false;
  std::int64_t max_prefill_cuda_graph_num_tokens = 0;  // largest captured size; 0 when none are captured
};

using DpPaddingModeRule = DpPaddingMode (*)(std::span<const std::int64_t> global_num_tokens, const DpPaddingInputs& in);
// pr14668: a tie (2 * sum == max * dp) and every extend step give SUM_LEN.
DpPaddingMode dp_padding_mode_pr14668(std::span<const std::int64_t> global_num_tokens, const DpPaddingInputs& in);
// pr24850 .. pr30450: a tie gives MAX_LEN; an extend step gives SUM_LEN only with attn_dp_size > 1, and MAX_LEN for a
// hybrid-SSM model with an idle rank.
DpPaddingMode dp_padding_mode_pr27945(std::span<const std::int64_t> global_num_tokens, const DpPaddingInputs& in);
// main20260823 and later: the same after force_max_len.
DpPaddingMode dp_padding_mode_main20260823(std::span<const std::int64_t> global_num_tokens, const DpPaddingInputs& in);

// pplx from main20260823 on; deepep_v2 (pr35758) with its own environment switch.
constexpr bool backend_forces_max_len(std::string_view moe_a2a_backend, bool deepep_v2_force_max_len = false) {
  return moe_a2a_backend == "pplx" || (moe_a2a_backend == "deepep_v2" && deepep_v2_force_max_len);
}

// The second alignment, after the one to attn_tp_size. pr14668: none.
using CpPaddingAlignRule = std::int64_t (*)(std::int64_t attn_cp_size, bool zigzag);
constexpr std::int64_t cp_padding_align_size_pr14668(std::int64_t, bool) { return 1; }
// pr24850 .. pr25907 (before sglang #23269).
constexpr std::int64_t cp_padding_align_size_pr24850(std::int64_t attn_cp_size, bool) { return attn_cp_size; }
// pr26643: context parallelism or not, so that every eager count becomes even: [1,0,0,0] collapsed gives 2, 0, 0, 0.
constexpr std::int64_t cp_padding_align_size_pr26643(std::int64_t attn_cp_size, bool) { return attn_cp_size * 2; }
// pr27945 and later: two chunks a rank with the zigzag split, one otherwise, nothing when off.
constexpr std::int64_t cp_padding_align_size_pr27945(std::int64_t attn_cp_size, bool zigzag) {
  return attn_cp_size <= 1 ? 1 : zigzag ? attn_cp_size * 2 : attn_cp_size;
}

// A version of prepare_mlp_sync_batch.
struct DpPaddingRules {
  DpPaddingModeRule mode;
  CpPaddingAlignRule cp_padding_align_size;
  bool has_prefill_graph_rule;   // graphable prefill steps are MAX_LEN
  bool fabricates_idle_request;  // an empty rank of a MAX_LEN extend step gets one request of all its padded tokens
};
inline constexpr DpPaddingRules kDpPaddingPr14668{dp_padding_mode_pr14668, cp_padding_align_size_pr14668, false, false};
inline constexpr DpPaddingRules kDpPaddingPr24850{dp_padding_mode_pr27945, cp_padding_align_size_pr24850, false, false};
inline constexpr DpPaddingRules kDpPaddingPr26643{dp_padding_mode_pr27945, cp_padding_align_size_pr26643, false, false};
inline constexpr DpPaddingRules kDpPaddingPr27945{dp_padding_mode_pr27945, cp_padding_align_size_pr27945, false, false};
inline constexpr DpPaddingRules kDpPaddingMain20260823{dp_padding_mode_main20260823, cp_padding_align_size_pr27945,
                                                       true, true};

struct DpPadding {
  DpPaddingMode mode = DpPaddingMode::sum_len;
  std::int64_t global_dp_buffer_len_tokens = 0;
  bool operator==(const DpPadding&) const = default;
};

// Aligns and pads the list in place; the same on every rank that has the same list.
DpPadding pad_global_num_tokens(const DpPaddingRules& rules, const DpPaddingInputs& in,
                                std::span<std::int64_t> global_num_tokens);

// The rank's own entry of a padded list: a collapsed list has only one.
constexpr std::int64_t local_padded_num_tokens(std::span<const std::int64_t> global_num_tokens,
                                               std::size_t attn_dp_rank) {
  return global_num_tokens.size() > 1 ? global_num_tokens[attn_dp_rank] : global_num_tokens[0];
}

// A ForwardBatch as far as the padding reads and writes it.
struct ForwardBatchShape {
  ForwardMode forward_mode = ForwardMode::idle;
  std::int64_t batch_size = 0;
  std::int64_t extend_num_tokens = 0;
  bool operator==(const ForwardBatchShape&) const = default;
};

// What the rest of prepare_mlp_sync_batch does to one rank's batch, whose inputs become padded_num_tokens long.
// spec_num_tokens_per_req: of spec_info, 0 without one. A decode-like batch takes batch size tokens / width, or becomes
// an extend of one token a request in a MAX_LEN extend step; EXTEND and MIXED take extend_num_tokens.
constexpr ForwardBatchShape pad_forward_batch(const DpPaddingRules& rules, const DpPadding& padding,
                                              bool is_extend_in_batch, std::int64_t padded_num_tokens,
                                              std::int64_t spec_num_tokens_per_req, ForwardBatchShape batch) {
  if (!has_fixed_width(batch.forward_mode)) {
    if (is_extend(batch.forward_mode)) batch.extend_num_tokens = padded_num_tokens;
    return batch;
  }
  if (!is_extend_in_batch || padding.mode == DpPaddingMode::sum_len) {
    batch.batch_size = spec_num_tokens_per_req > 0 ? padded_num_tokens / spec_num_tokens_per_req : padded_num_tokens;
    return batch;
  }
  batch.forward_mode = ForwardMode::extend;
  const bool fabricate = rules.fabricates_idle_request && batch.batch_size == 0;
  batch.extend_num_tokens = fabricate ? padded_num_tokens : batch.batch_size;
  if (fabricate) batch.batch_size = 1;
  return batch;
}

}  // namespace a2asim
