// #30450: FlashInfer's all-to-all always gathers the counts of all ranks.
#include "model/engines/sglang/versions/version.h"

namespace a2asim::versions {
namespace {

void july_20(Generation& own) { own.start.waterfill_backends = "deepep megamoe"; }  // #27350

}  // namespace

Generation pr30450(const Generation& before) {
  Generation v = after(
      before, {.name = "pr30450",
               .pr = 30450,
               .date = "2026-07-08",
               .commit = "ca8f15cd70",
               .changed = "the gather predicate is true for FlashInfer: no collapse; two assertions. Fixes #30242",
               .releases = {{"v0.5.16"}}});
  v.options = {"pr30450"};
  v.release_states = {{"v0.5.16", {"v0.5.16"}, FlashInferVersion::v0_6_14, july_20}};
  v.gather = kGatherRulesPr30450;
  v.start.ep_size_comes_first = true;
  v.always_gathers = true;
  v.graphs = kGraphRulesPr30450;
  v.sizing = sizing_pr30450;
  v.known_failures = {{kNoWaste, kBeforeScatter}};
  return v;
}

}  // namespace a2asim::versions
