// #26643: a default cap that covers a chunk.
#include "model/engines/sglang/versions/version.h"

namespace a2asim::versions {

Generation pr26643(const Generation& before) {
  Generation v = after(
      before,
      {.name = "pr26643",
       .pr = 26643,
       .date = "2026-06-02",
       .commit = "b603f08c0c",
       .changed = "default cap = max(chunked_prefill_size, 4096); graph capture hands its token list to the dispatcher",
       .releases = {{"v0.5.13"}, {"v0.5.13.post1"}}});
  v.capacity.max_num_tokens = max_num_tokens_pr26643;
  v.cap_default = "max(chunked_prefill_size per DP rank, 4096)";
  v.padding = kDpPaddingPr26643;
  v.graphs = kGraphRulesPr26643;
  v.gather = kGatherRulesPr27945;
  v.sync = kMlpSyncPr26643;
  v.start.cutedsl_budget = CutedslBudget::largest_forward;
  v.start.prefill_cp_covers_mla = true;
  v.autotuned_runners = "flashinfer_cutedsl";
  v.release_states = {{"v0.5.13", {"v0.5.13"}, FlashInferVersion::v0_6_12},
                      {"v0.5.13.post1", {"v0.5.13"}, FlashInferVersion::v0_6_12}};
  return v;
}

}  // namespace a2asim::versions
