// The sizing rule: what one rank knows -> runtime_max_tokens_per_rank (R).
//
// SGLang: python/sglang/srt/layers/moe/token_dispatcher/flashinfer.py, FlashinferDispatcher.dispatch. Nobody exchanges
// R: every rank calls its rule with its own view, and every expert-parallel rank must arrive at the same number.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "model/base/result.h"
#include "model/step/sizing_rule.h"

namespace a2asim {

// What a generation does around its rule, done around a rule of the user's own: the dummy row of an empty rank (until
// #22394) and the assertion that R holds the rows (from #30450). R stays the rule's answer; R <= cap is FlashInfer's
// own check in every version. `built_in` is the generation's rule.
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
