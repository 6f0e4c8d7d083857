// #27945: where the counts collapse, every rank takes the cap.
#include "model/engines/sglang/versions/version.h"

namespace a2asim::versions {

Generation pr27945(const Generation& before) {
  Generation v = after(
      before,
      {.name = "pr27945",
       .pr = 27945,
       .date = "2026-06-12",
       .commit = "f23f48df98",
       .changed = "without the gather predicate R = the static cap: cures the collapse (NaN), at the price of waste",
       .releases = {{"v0.5.14"}}});
  v.options = {"pr27945"};
  v.release_states = {{"v0.5.14", {"v0.5.14"}, FlashInferVersion::v0_6_12}};
  v.sizing = sizing_pr27945;
  v.padding = kDpPaddingPr27945;
  v.sync = kMlpSyncPr27945;
  v.graphs = kGraphRulesPr27945;
  v.capacity.flashinfer = FlashInferVersion::v0_6_12;
  v.requests = {};
  v.autotuned_runners = "flashinfer_cutedsl flashinfer_cutlass flashinfer_trtllm_routed";
  v.known_failures = {{kExactFit, kCapAsR},
                      {kNoWaste, "R = the cap: 64 row slots where one is needed (#30242)"},
                      {kOracle, kCapAsR},
                      {kNoStaleRead, kCapAsR}};
  return v;
}

}  // namespace a2asim::versions
