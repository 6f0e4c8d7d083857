// #35758 "qwen 3.8 rebase". Its commit was not found, nor the one that brought --flashinfer-a2a-dispatch-type: the
// state that the rules were read from has it.
#include "model/engines/sglang/versions/version.h"

namespace a2asim::versions {

Generation pr35758(const Generation& before) {
  Generation v = after(before, {.name = "pr35758",
                                .pr = 35758,
                                .date = "2026-08-28",
                                .commit = "",
                                .changed = "R = ceil(max / attn_tp_size), asserted against the cap; prefill leaves the "
                                           "all-to-all for an all-gatherv",
                                .releases = {{"v0.5.19"}}});
  v.options = {"pr35758"};
  v.options_are_complete = false;
  v.release_states = {{"v0.5.19", {"v0.5.19"}, FlashInferVersion::v0_6_18}};
  v.start.ep_size_is_tp_size = "deepep deepep_v2 mooncake nixl mori ascend_fuseep flashinfer megamoe pplx";
  v.start.flashinfer_runners =
      "flashinfer_cutlass flashinfer_cutedsl flashinfer_trtllm flashinfer_trtllm_routed deep_gemm";
  v.start.has_deepep_v2 = true;
  v.sizing = sizing_pr35758;
  v.gather = kGatherRulesPr35758;
  v.extend_leaves_alltoall = true;
  v.capacity.sized_for_larger_type = true;
  v.sanitize = SanitizeRule::minus_one_if_native;
  v.known_failures.clear();
  // Merged since, and not modelled: versions after this one inherit the remark until one of them models it.
  v.not_modelled = {"2026-10-04", "#39818 (merged 2026-10-04) sends prefill through the all-to-all again"};
  return v;
}

}  // namespace a2asim::versions
