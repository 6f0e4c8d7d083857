// The main branch of 23 August 2026: a state that no single PR stands for.
#include "model/engines/sglang/versions/version.h"

namespace a2asim::versions {
namespace {

void august_4(Generation& own) { own.start.megamoe_cap = 1024; }

}  // namespace

Generation main20260823(const Generation& before) {
  Generation v = after(before, {.name = "main20260823",
                                .date = "2026-08-23",
                                .commit = "cce0a1244b",
                                .changed = "main branch of that day: FlashInfer v0.6.17 (top_k 12, 14, 18; uneven "
                                           "experts); request counts choose the bucket",
                                .releases = {{"v0.5.17"}, {"v0.5.18"}}});
  v.options = {"main20260823"};
  v.release_states = {{"v0.5.17", {"v0.5.17"}, FlashInferVersion::v0_6_15_post1, august_4},
                      {"v0.5.18", {"v0.5.18"}, FlashInferVersion::v0_6_17}};
  v.start.waterfill_backends = "deepep megamoe";
  v.start.megamoe_cap = 8192;
  v.start.ep_size_is_tp_size = "deepep mooncake nixl mori ascend_fuseep flashinfer megamoe pplx";
  v.start.deepep_cutedsl_is_low_latency = true;
  v.gather = kGatherRulesMain20260823;
  v.sync = kMlpSyncMain20260823;
  v.padding = kDpPaddingMain20260823;
  v.graphs = kGraphRulesMain20260823;
  v.capacity.flashinfer = FlashInferVersion::v0_6_17;
  v.prefill_graphs_with_flashinfer = true;
  v.list_unassigned_before_capture = false;
  return v;
}

}  // namespace a2asim::versions
