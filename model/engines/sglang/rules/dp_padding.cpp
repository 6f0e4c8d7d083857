#include "model/engines/sglang/rules/dp_padding.h"

#include <algorithm>
#include <numeric>

#include "model/base/check_invariant.h"

namespace a2asim {
namespace {

struct SumAndMax {
  std::int64_t sum = 0;
  std::int64_t max = 0;
};

SumAndMax sum_and_max(std::span<const std::int64_t> counts) {
  SumAndMax result;
  for (const std::int64_t count : counts) {
    result.sum += count;
    result.max = std::max(result.max, count);
  }
  return result;
}

void align_up(std::span<std::int64_t> counts, std::int64_t alignment) {
  if (alignment <= 1) return;
  for (std::int64_t& count : counts) count = (count + alignment - 1) / alignment * alignment;
}

bool fits_prefill_graph(const DpPaddingInputs& in, std::int64_t max_num_tokens) {
  return in.can_run_dp_breakable_cuda_graph && in.is_extend_in_batch && in.max_prefill_cuda_graph_num_tokens > 0 &&
         max_num_tokens <= in.max_prefill_cuda_graph_num_tokens;
}

}  // namespace

std::string_view name(DpPaddingMode mode) { return mode == DpPaddingMode::max_len ? "MAX_LEN" : "SUM_LEN"; }

// The cheaper collective: all-gather moves max * dp, all-reduce about 2 * sum.
DpPaddingMode dp_padding_mode_pr14668(std::span<const std::int64_t> global_num_tokens, const DpPaddingInputs& in) {
  if (in.is_extend_in_batch) return DpPaddingMode::sum_len;
  const auto [sum, max] = sum_and_max(global_num_tokens);
  return 2 * sum > max * in.attn_dp_size ? DpPaddingMode::max_len : DpPaddingMode::sum_len;
}

DpPaddingMode dp_padding_mode_pr27945(std::span<const std::int64_t> global_num_tokens, const DpPaddingInputs& in) {
  if (in.is_extend_in_batch && in.attn_dp_size > 1) {
    const bool idle_rank = in.max_len_with_idle && *std::ranges::min_element(global_num_tokens) == 0;
    return idle_rank ? DpPaddingMode::max_len : DpPaddingMode::sum_len;
  }
  const auto [sum, max] = sum_and_max(global_num_tokens);
  return 2 * sum >= max * in.attn_dp_size ? DpPaddingMode::max_len : DpPaddingMode::sum_len;
}

DpPaddingMode dp_padding_mode_main20260823(std::span<const std::int64_t> global_num_tokens, const DpPaddingInputs& in) {
  return in.force_max_len ? DpPaddingMode::max_len : dp_padding_mode_pr27945(global_num_tokens, in);
}

DpPadding pad_global_num_tokens(const DpPaddingRules& rules, const DpPaddingInputs& in,
                                std::span<std::int64_t> global_num_tokens) {
  A2ASIM_INVARIANT(!global_num_tokens.empty(), "a token list has at least one entry");
  align_up(global_num_tokens, in.attn_tp_size);
  align_up(global_num_tokens, in.cp_align_size);
  const auto [sum, max] = sum_and_max(global_num_tokens);
  DpPaddingMode mode = rules.mode(global_num_tokens, in);
  if (rules.has_prefill_graph_rule && fits_prefill_graph(in, max)) mode = DpPaddingMode::max_len;
  if (mode == DpPaddingMode::sum_len) return {mode, sum};
  std::ranges::fill(global_num_tokens, max);
  return {mode, max * static_cast<std::int64_t>(global_num_tokens.size())};
}

}  // namespace a2asim
