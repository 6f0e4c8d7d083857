// #22394: a rank without tokens dispatches zero rows.
#include "model/engines/sglang/versions/version.h"

namespace a2asim::versions {

Generation pr22394(const Generation& before) {
  Generation v =
      after(before, {.name = "pr22394",
                     .pr = 22394,
                     .date = "2026-06-29",
                     .commit = "b8c25bfaa7",
                     .changed = "dummy token removed (zero local tokens are legal); flashinfer_trtllm_routed allowed",
                     .releases = {{"v0.5.15"}, {"v0.5.15.post1"}}});
  v.options = {"pr29461", "v0.5.15"};
  v.release_states = {{"v0.5.15", {"v0.5.15"}, FlashInferVersion::v0_6_12},
                      {"v0.5.15.post1", {"v0.5.15"}, FlashInferVersion::v0_6_12}};
  v.sizing = sizing_pr22394;
  v.sanitize = SanitizeRule::minus_one_if_routed;
  v.start.flashinfer_runners = "flashinfer_cutlass flashinfer_cutedsl flashinfer_trtllm_routed";
  v.start.nvfp4_dispatch = Nvfp4Dispatch::fp4_quantization;
  return v;
}

}  // namespace a2asim::versions
