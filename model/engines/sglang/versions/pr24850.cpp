// #24850: unused rows of the receive buffers get an expert id that nobody owns.
#include "model/engines/sglang/versions/version.h"

namespace a2asim::versions {
namespace {

void may_16(Generation& own) { own.start.variable_chooses_megamoe = true; }  // #25406 of that day

}  // namespace

Generation pr24850(const Generation& before) {
  Generation v = after(before, {.name = "pr24850",
                                .pr = 24850,
                                .date = "2026-05-10",
                                .commit = "8e2142c15a",
                                .changed = "padding slots are sanitised (they held live expert ids: NaN)",
                                .releases = {{"v0.5.12"}, {"v0.5.12.post1"}}});
  v.sanitize = SanitizeRule::minus_one;
  v.known_failures[kNoStaleRead] = kCollapse;
  // Other changes since January.
  v.options = {"v0.5.11", "v0.5.12"};
  v.release_states = {{"v0.5.12", {"v0.5.12"}, FlashInferVersion::v0_6_11_post1, may_16},
                      {"v0.5.12.post1", {"v0.5.12"}, FlashInferVersion::v0_6_11_post1, may_16}};
  v.start.graphs_per_phase = true;
  v.start.ep_size_is_tp_size = "deepep mooncake nixl mori ascend_fuseep flashinfer megamoe";
  v.start.mori_message = kMoriMessage;
  v.start.mxfp8_runner = "flashinfer_trtllm";
  v.start.prefill_cp_needs_8_ranks = false;
  v.world_info = compute_dp_attention_world_info_pr27945;
  v.padding = kDpPaddingPr24850;
  v.graphs = kGraphRulesPr24850;
  v.capacity.flashinfer = FlashInferVersion::v0_6_8_post1;
  v.requests = {.clamps_explicit_limit = true, .pool_is_not_divided = false};
  return v;
}

}  // namespace a2asim::versions
