// What one data-parallel rank has to do in one scheduler iteration, in SGLang's terms.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "model/base/result.h"

namespace a2asim {

// SGLang's ForwardMode (model_executor/forward_batch_info.py), as far as the all-to-all sees it.
enum class ForwardMode : std::uint8_t {
  extend,
  decode,
  mixed,
  idle,
  target_verify,
  draft_extend,
  draft_extend_v2,
  prebuilt,
};

std::string_view name(ForwardMode mode);                        // SGLang's spelling: "EXTEND", "DECODE", ..
Result<ForwardMode> parse_forward_mode(std::string_view text);  // either case

// ForwardMode.is_extend() without include_draft_extend_v2, as the scheduler asks it.
constexpr bool is_extend(ForwardMode mode) {
  return mode == ForwardMode::extend || mode == ForwardMode::mixed || mode == ForwardMode::draft_extend ||
         mode == ForwardMode::target_verify;
}

constexpr bool is_decode_or_idle(ForwardMode mode) { return mode == ForwardMode::decode || mode == ForwardMode::idle; }

// The modes that the graph runners capture (ForwardMode.is_cuda_graph).
constexpr bool is_cuda_graph(ForwardMode mode) { return is_decode_or_idle(mode) || mode == ForwardMode::target_verify; }

// A fixed number of tokens per request: prepare_mlp_sync_batch may rewrite the batch size of these modes.
constexpr bool has_fixed_width(ForwardMode mode) {
  return is_cuda_graph(mode) || mode == ForwardMode::draft_extend || mode == ForwardMode::draft_extend_v2;
}

// One rank's ScheduleBatch before the scheduler's sync. "No batch" (Python's None) is an empty optional<LocalBatch>.
struct LocalBatch {
  ForwardMode forward_mode = ForwardMode::decode;
  std::int64_t batch_size = 0;                     // requests
  std::int64_t extend_num_tokens = 0;              // tokens; read for EXTEND and MIXED
  std::int64_t extend_num_tokens_for_logprob = 0;  // tokens, see logprob_tokens(); batch_size without log probabilities
  bool return_logprob = false;
  bool operator==(const LocalBatch&) const = default;
};

// Sum over the requests of max(extend_len - logprob_start_len, 1). Pairs up to the shorter span, as Python's zip does.
std::int64_t logprob_tokens(std::span<const std::int64_t> extend_lens,
                            std::span<const std::int64_t> logprob_start_lens);

// What prepare_mlp_sync_batch_raw counts: 0 without a batch and for IDLE and PREBUILT; requests (not tokens, under
// speculation too) for DECODE; extend_num_tokens otherwise.
constexpr std::int64_t num_tokens(const std::optional<LocalBatch>& batch) {
  if (!batch || batch->forward_mode == ForwardMode::idle || batch->forward_mode == ForwardMode::prebuilt) return 0;
  return batch->forward_mode == ForwardMode::decode ? batch->batch_size : batch->extend_num_tokens;
}

constexpr std::int64_t num_tokens_for_logprob(const std::optional<LocalBatch>& batch) {
  if (!batch || batch->forward_mode == ForwardMode::idle || batch->forward_mode == ForwardMode::prebuilt) return 0;
  return batch->forward_mode == ForwardMode::decode ? batch->batch_size : batch->extend_num_tokens_for_logprob;
}

// Speculative decoding as the token counts see it. EAGLE with topk 1: num_draft_tokens = num_steps + 1.
struct SpeculativeWidth {
  std::int64_t num_draft_tokens = 1;
  std::int64_t eagle_topk = 1;
};

// Tokens per request that ForwardBatch.init_new multiplies the counts with (spec_info.num_tokens_per_req). DECODE is
// the draft model's step (the target's decode is TARGET_VERIFY under speculation); counts of a prefill round are tokens
// already, so their width is 1. Without speculation every width is 1.
constexpr std::int64_t num_tokens_per_req(ForwardMode mode, const SpeculativeWidth& width) {
  switch (mode) {
    case ForwardMode::target_verify:
    case ForwardMode::draft_extend:
    case ForwardMode::draft_extend_v2:
      return width.num_draft_tokens;
    case ForwardMode::decode:
      return width.eagle_topk;
    default:
      return 1;
  }
}

// In place; the same width on every rank.
constexpr void scale_global_num_tokens(std::span<std::int64_t> global_num_tokens, std::int64_t tokens_per_req) {
  for (std::int64_t& count : global_num_tokens) count *= tokens_per_req;
}

}  // namespace a2asim
