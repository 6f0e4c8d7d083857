// #14668: the first FlashInfer dispatcher.
#include "model/engines/sglang/versions/version.h"

namespace a2asim::versions {

Generation pr14668(const Generation& nothing) {
  Generation v =
      after(nothing, {.name = "pr14668",
                      .pr = 14668,
                      .date = "2026-01-24",
                      .commit = "2c2c4e446b",
                      .changed = "first FlashInfer dispatcher: R = max of the list, else the local rows; cap = "
                                 "1024 x ep_size; dummy token",
                      .releases = {{"v0.5.9"}, {"v0.5.10rc0"}, {"v0.5.10"}, {"v0.5.10.post1"}, {"v0.5.11"}}});
  v.options = {"pr14668"};
  v.start.ep_size_is_tp_size = "deepep mooncake ascend_fuseep flashinfer";
  v.start.ep_size_comes_first = true;
  v.start.flashinfer_runners = "flashinfer_cutlass";
  v.world_info = compute_dp_attention_world_info_pr14668;
  v.gather = kGatherRulesPr14668;
  v.sync = kMlpSyncPr14668;
  v.padding = kDpPaddingPr14668;
  v.graphs = kGraphRulesPr14668;
  v.sizing = sizing_pr14668;
  v.capacity = {.flashinfer = FlashInferVersion::v0_6_1, .max_num_tokens = max_num_tokens_pr14668};
  v.cap_default = "1024";
  v.cap_is_times_ep_size = true;
  v.requests.pool_is_not_divided = true;
  v.list_unassigned_before_capture = true;
  v.known_failures = {{kAgreement, kCollapse},
                      {kExactFit, "a collapsed list [0] gives R = 0, and the dummy token is one row"},
                      {kNoWaste, kBeforeScatter},
                      {kOracle, kCollapse},
                      {kNoStaleRead, "unused rows keep live expert ids (#24850)"}};
  return v;
}

}  // namespace a2asim::versions
