// The sizing rule: what one rank knows -> runtime_max_tokens_per_rank (R).
//
// SGLang: python/sglang/srt/layers/moe/token_dispatcher/flashinfer.py, FlashinferDispatcher.dispatch. Nobody exchanges
// R: every rank calls its rule with its own view, and every expert-parallel rank must arrive at the same number.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "model/base/result.h"

namespace a2asim {

// require_mlp_tp_gather as the dispatcher would see it. The generations that ask it inside dispatch (pr27945 to
// pr22394) raise there when it raises ("dp_size must be greater than 1").
enum class GatherPredicate : std::uint8_t { no, yes, raises };

// Everything a rule may look at. The same fields, under the same names, go to an external rule (--rule-cmd).
struct RankView {
  int ep_size = 1;
  int ep_rank = 0;
  // get_dp_global_num_tokens(): the padded list last given to set_dp_buffer_len, or nothing.
  std::optional<std::span<const std::int64_t>> dp_global;
  std::int64_t rows = 0;  // hidden_states.shape[0] on this rank
  bool capture = false;   // get_is_capture_mode()
  bool extend = false;    // is_extend_in_batch: some rank of the step extends
  GatherPredicate require_mlp_tp_gather = GatherPredicate::no;
  bool enable_dp_attention = false;
  int attn_tp_size = 1;
  std::int64_t max_num_tokens = 0;  // the cap of the MoeAlltoAll object
};

// Which line of the rule answered; text(branch) says it in words for reports.
enum class SizingBranch : std::uint8_t {
  max_of_list,          // max(dp_global)
  max_of_list_scatter,  // ceil(max(dp_global) / attn_tp_size)
  static_cap,           // max_num_tokens (#27945's middle branch)
  local_rows,           // hidden_states.shape[0]
  allgather_prefill,    // no all-to-all in this step: all-gatherv + reduce-scatterv (#35758)
  external,             // a rule of the user's own
};
std::string_view text(SizingBranch branch);

struct SizingDecision {
  std::int64_t runtime_max_tokens_per_rank = 0;  // 0 with allgather_prefill
  std::int64_t dispatched_rows = 0;              // rows given to the kernel: 1 where an empty rank sends a dummy token
  bool has_dummy_token = false;
  SizingBranch branch = SizingBranch::local_rows;
};

// A rule: the view of one rank -> R, or the error that SGLang's own text raises (FlashInfer's checks come after it and
// are check_flashinfer_dispatch in capacity.h). A user's own rule is one more of these.
using SizingRule = std::function<Result<SizingDecision>(const RankView&)>;

// What a generation does around its rule, done around a rule of the user's own: the dummy row of an empty rank (until
// #22394) and the assertion that R holds the rows (from #30450). R stays the rule's answer; R <= cap is FlashInfer's own
// check in every version. `built_in` is the generation's rule.
Result<SizingDecision> size_by_own_rule(const SizingRule& rule, Result<SizingDecision> (*built_in)(const RankView&),
                                        const RankView& view);

// The rules, each named by the PR that brought it; a generation names one. All expect ep_size >= 1, attn_tp_size >= 1
// and counts >= 0, and allocate nothing unless they fail.
//
// Until #22394 a rank without tokens sends one dummy row, and "rows" below counts it.
Result<SizingDecision> sizing_pr14668(const RankView& view);  // max(list) or rows; an empty list raises. Also pr24850
Result<SizingDecision> sizing_pr25685(const RankView& view);  // a list of fewer than two entries falls to the rows
Result<SizingDecision> sizing_pr25907(const RankView& view);  // .. and R >= 1 with a dummy row (#22669). Also pr26643
Result<SizingDecision> sizing_pr27945(const RankView& view);  // .. and without the gather predicate R = the cap
Result<SizingDecision> sizing_pr29461(const RankView& view);  // .. but not while capturing
Result<SizingDecision> sizing_pr22394(const RankView& view);  // .. and no dummy row any more
// List or rows only; asserts that DP attention has a list and that R >= rows. Also main20260823.
Result<SizingDecision> sizing_pr30450(const RankView& view);
// R = ceil(max(list) / attn_tp_size), asserted against the cap; extend steps leave the all-to-all.
Result<SizingDecision> sizing_pr35758(const RankView& view);

// The prefill path of #35758: rows that each source contributes to the all-gatherv, in the order of ranks; an entry of
// the list is split over attn_tp_size ranks, the first ones taking the remainder. Without a list every rank is taken to
// have the local rows. sizing_pr35758 checks that there are ep_size of them and that the own one equals the rows.
std::vector<std::int64_t> allgather_source_sizes(const RankView& view);

// What a generation writes into the expert ids of receive rows that nobody filled (moe_a2a_sanitize_expert_ids).
enum class SanitizeRule : std::uint8_t {
  none,                 // pr14668: stale ids stay and the experts run on them
  minus_one,            // pr24850, pr25685
  num_experts,          // #22669 to pr29461
  minus_one_if_routed,  // from pr22394: -1 for flashinfer_trtllm_routed, else num_experts
  minus_one_if_native,  // from pr35758: -1 for deep_gemm, flashinfer_trtllm and flashinfer_trtllm_routed
};
// Nothing when the rows are not sanitized.
std::optional<std::int64_t> invalid_token_expert_id(SanitizeRule rule, std::string_view moe_runner_backend,
                                                    std::int64_t num_experts);

}  // namespace a2asim
