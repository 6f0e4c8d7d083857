// #25907 and #22669, merged on one day.
#include "model/engines/sglang/versions/version.h"

namespace a2asim::versions {

Generation pr25907(const Generation& before) {
  Generation v = after(before, {.name = "pr25907",
                                .pr = 25907,
                                .date = "2026-05-20",
                                .commit = "8fa56a0ab1",
                                .changed = "cap no longer multiplied by ep_size, default 4096; with #22669: "
                                           "flashinfer_cutedsl, R >= 1 with a dummy token"});
  v.capacity.max_num_tokens = max_num_tokens_pr25907;
  v.cap_default = "4096";
  v.cap_is_times_ep_size = false;
  v.sizing = sizing_pr25907;
  v.sanitize = SanitizeRule::num_experts;
  v.start.ep_size_comes_first = false;
  v.start.flashinfer_needs_dp_attention = true;
  v.start.flashinfer_runners = "flashinfer_cutlass flashinfer_cutedsl";
  v.start.cutedsl_budget = CutedslBudget::max_prefill_tokens;
  v.known_failures.erase(kNoWaste);
  return v;
}

}  // namespace a2asim::versions
