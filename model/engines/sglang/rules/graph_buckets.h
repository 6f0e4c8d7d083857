// CUDA graphs: capture sizes, what is baked at capture, which bucket a rank replays.
//
// SGLang: ServerArgs._generate_*_cuda_graph_batch_sizes, get_batch_sizes_to_capture, and the capture and replay code of
// the decode graph runner (cuda_graph_runner.py, later runner/decode_cuda_graph_runner.py).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/result.h"

namespace a2asim {

// Larger limits than this are refused (bad_input): no server captures so many, and the lists would not fit memory.
inline constexpr std::int64_t kMaxCaptureSize = std::int64_t{1} << 20;

// Decode: batch sizes, ascending, at most max_bs. The steps are finer with speculation; all sizes without padding.
using DecodeCaptureSizes = Result<std::vector<std::int64_t>> (*)(std::int64_t max_bs, bool speculative,
                                                                 bool disable_cuda_graph_padding);
Result<std::vector<std::int64_t>> decode_capture_sizes_pr14668(std::int64_t max_bs, bool speculative,
                                                               bool disable_cuda_graph_padding);
// pr24850 and later: max_bs itself is appended, so 10 gives [1, 2, 4, 8, 10].
Result<std::vector<std::int64_t>> decode_capture_sizes_pr27945(std::int64_t max_bs, bool speculative,
                                                               bool disable_cuda_graph_padding);

// Prefill: token counts, ascending, at most max_num_tokens.
using PrefillCaptureSizes = Result<std::vector<std::int64_t>> (*)(std::int64_t max_num_tokens);
Result<std::vector<std::int64_t>> prefill_capture_sizes_pr14668(std::int64_t max_num_tokens);  // has no 576
Result<std::vector<std::int64_t>> prefill_capture_sizes_pr27945(std::int64_t max_num_tokens);

// Sizes and counts are below 2^20 each, as their product is formed.
struct CaptureFilter {
  std::span<const std::int64_t> decode_bs = {};  // given by --cuda-graph-bs or generated
  std::int64_t req_to_token_pool_size = 0;       // requests
  std::int64_t num_tokens_per_bs = 1;
  bool require_gathered_buffer = false;
  std::int64_t attn_tp_size = 1;
  std::int64_t attn_cp_size = 1;
  bool enable_two_batch_overlap = false;
};

// get_batch_sizes_to_capture: sizes whose tokens are divisible (by 2 for two-batch overlap, by attn_tp_size with a
// gathered buffer, by attn_cp_size), limited to the request pool, which is added when the largest size exceeds it.
// Errors: assertion_error "capture_bs=[]" when nothing is left; value_error for an empty input list.
using BatchSizesToCapture = Result<std::vector<std::int64_t>> (*)(const CaptureFilter& in);
Result<std::vector<std::int64_t>> batch_sizes_to_capture_pr14668(const CaptureFilter& in);
// pr24850 and later: the pool size is rounded up to the divisor first, so a pool of 31 with attn_tp_size 8 gives 32.
Result<std::vector<std::int64_t>> batch_sizes_to_capture_pr27945(const CaptureFilter& in);

// What the model sees of the token list while one bucket is captured (or warmed up).
struct CaptureTokenList {
  std::int64_t num_tokens = 0;    // tokens of one rank: bucket * width
  std::int64_t entries = 0;       // every entry is num_tokens; 0: no list at all
  bool dispatch_sees_it = false;  // false: get_dp_global_num_tokens() is None while capturing
  std::int64_t global_dp_buffer_len_tokens() const { return num_tokens * entries; }  // meaningless without a list
};
using CaptureTokenListRule = CaptureTokenList (*)(bool require_mlp_tp_gather, bool require_attn_tp_gather,
                                                  std::int64_t dp_size, std::int64_t bs,
                                                  std::int64_t num_tokens_per_bs);
// pr14668 .. pr25907: the list is made, but not handed to set_dp_buffer_len.
CaptureTokenList capture_token_list_pr14668(bool require_mlp_tp_gather, bool require_attn_tp_gather,
                                            std::int64_t dp_size, std::int64_t bs, std::int64_t num_tokens_per_bs);
// pr26643 and later.
CaptureTokenList capture_token_list_pr26643(bool require_mlp_tp_gather, bool require_attn_tp_gather,
                                            std::int64_t dp_size, std::int64_t bs, std::int64_t num_tokens_per_bs);

// EAGLE, EAGLE3, NEXTN, STANDALONE and DFLASH count tokens in the list; NGRAM does too, but is not divided by the
// width.
bool divides_by_width(std::string_view speculative_algorithm);

// One rank's view of a decode-like step.
struct ReplayInputs {
  std::span<const std::int64_t> capture_bs = {};  // ascending, not empty
  bool require_mlp_tp_gather = false;
  // With the gather predicate: the counts multiplied by the width, and the requests before that. Empty: None.
  std::optional<std::span<const std::int64_t>> global_num_tokens = std::nullopt;
  std::optional<std::span<const std::int64_t>> original_global_num_tokens = std::nullopt;
  std::int64_t batch_size = 0;  // own requests; read without the gather predicate
  std::int64_t num_tokens_per_bs = 1;
  bool divides_by_width = false;
  bool require_mlp_sync = false;
  bool can_run_dp_cuda_graph = false;
};

struct ReplayDecision {
  std::int64_t cuda_graph_bs = 0;   // what can_run compares with the largest bucket
  bool can_run = false;             // false: the rank runs eagerly
  std::optional<std::int64_t> bs;   // bucket; empty: above the largest one
  std::optional<ErrorKind> raised;  // the test itself raises: max(None) after a skipped all-gather
  bool operator==(const ReplayDecision&) const = default;
};

// Allocate nothing.
using ReplayRule = ReplayDecision (*)(const ReplayInputs& in);
// pr14668 .. pr26643: the bucket is the first >= max / width as a fraction, while can_run rounds down: 9 tokens at
// width 4 ask for 3 requests' bucket but test 2.
ReplayDecision replay_bucket_pr14668(const ReplayInputs& in);
// pr27945 .. pr30450: both round down. NGRAM is not divided.
ReplayDecision replay_bucket_pr27945(const ReplayInputs& in);
// main20260823 and later: request counts, whatever the algorithm.
ReplayDecision replay_bucket_main20260823(const ReplayInputs& in);

// What the version raises if it tries to replay although no bucket is large enough.
Error replay_above_largest_pr14668(const ReplayInputs& in, const ReplayDecision& decision);
Error replay_above_largest_pr27945(const ReplayInputs& in, const ReplayDecision& decision);
Error replay_above_largest_pr30450(const ReplayInputs& in, const ReplayDecision& decision);  // and later

// What a generation names.
struct GraphRules {
  DecodeCaptureSizes decode_capture_sizes;
  PrefillCaptureSizes prefill_capture_sizes;
  BatchSizesToCapture batch_sizes_to_capture;
  CaptureTokenListRule capture_token_list;
  ReplayRule replay_bucket;
  Error (*replay_above_largest)(const ReplayInputs&, const ReplayDecision&);
};
inline constexpr GraphRules kGraphRulesPr14668{decode_capture_sizes_pr14668,   prefill_capture_sizes_pr14668,
                                               batch_sizes_to_capture_pr14668, capture_token_list_pr14668,
                                               replay_bucket_pr14668,          replay_above_largest_pr14668};
inline constexpr GraphRules kGraphRulesPr24850{// pr24850 .. pr25907
                                               decode_capture_sizes_pr27945,   prefill_capture_sizes_pr27945,
                                               batch_sizes_to_capture_pr27945, capture_token_list_pr14668,
                                               replay_bucket_pr14668,          replay_above_largest_pr14668};
inline constexpr GraphRules kGraphRulesPr26643{decode_capture_sizes_pr27945,   prefill_capture_sizes_pr27945,
                                               batch_sizes_to_capture_pr27945, capture_token_list_pr26643,
                                               replay_bucket_pr14668,          replay_above_largest_pr14668};
inline constexpr GraphRules kGraphRulesPr27945{// pr27945 .. pr22394
                                               decode_capture_sizes_pr27945,   prefill_capture_sizes_pr27945,
                                               batch_sizes_to_capture_pr27945, capture_token_list_pr26643,
                                               replay_bucket_pr27945,          replay_above_largest_pr27945};
inline constexpr GraphRules kGraphRulesPr30450{decode_capture_sizes_pr27945,   prefill_capture_sizes_pr27945,
                                               batch_sizes_to_capture_pr27945, capture_token_list_pr26643,
                                               replay_bucket_pr27945,          replay_above_largest_pr30450};
inline constexpr GraphRules kGraphRulesMain20260823{decode_capture_sizes_pr27945,   prefill_capture_sizes_pr27945,
                                                    batch_sizes_to_capture_pr27945, capture_token_list_pr26643,
                                                    replay_bucket_main20260823,     replay_above_largest_pr30450};

}  // namespace a2asim
