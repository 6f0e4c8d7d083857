// #14668: the first FlashInfer dispatcher.
#include "model/engines/sglang/versions/version.h"

namespace a2asim::versions {
namespace {

// The dispatcher and the sizes stay until May; backends of other kinds, and the limits around them, come earlier.
void february(Generation& own) {
  own.start.ep_size_is_tp_size = "deepep mooncake mori ascend_fuseep flashinfer";
  own.start.mori_message = kMoriMessage;
}

void april(Generation& own) {
  own.start.ep_size_is_tp_size = "deepep mooncake nixl mori ascend_fuseep flashinfer";
  own.start.mori_message = kMoriMessage;
  own.start.mxfp8_runner = "flashinfer_trtllm";
  own.graphs = kGraphRulesPr24850;
  own.requests = {.clamps_explicit_limit = true, .pool_is_not_divided = false};
}

}  // namespace

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
  v.earlier_states = {{"2025-09-05", "v0.5.2", [](Generation& own) { own.deepep.most_tokens = 0; }}};  // #9567
  v.release_states = {{"v0.5.9", {"v0.5.9"}, FlashInferVersion::v0_6_3, february},
                      {"v0.5.10rc0", {"v0.5.10rc0"}, FlashInferVersion::v0_6_6, april},
                      {"v0.5.10", {"v0.5.10"}, FlashInferVersion::v0_6_7, april},
                      {"v0.5.10.post1", {"v0.5.10"}, FlashInferVersion::v0_6_7, april},
                      {"v0.5.11", {"v0.5.11"}, FlashInferVersion::v0_6_8_post1, april}};
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
