// #29461: capture does not take the cap.
#include "model/engines/sglang/versions/version.h"

namespace a2asim::versions {

Generation pr29461(const Generation& before) {
  Generation v =
      after(before,
            {.name = "pr29461",
             .pr = 29461,
             .date = "2026-06-28",
             .commit = "828411e6f1",
             .changed = "the static cap is not baked into graphs any more: the local bucket is, and ranks disagree at "
                        "replay (#30242)"});
  v.options = {"pr29461"};
  v.sizing = sizing_pr29461;
  v.only_graphs_disagree = true;
  v.start.mori_message =
      "SGLANG_MORI_NUM_MAX_DISPATCH_TOKENS_PER_RANK (default 4096) must be >= the per-rank MoRI dispatch tokens "
      "(chunked_prefill_size by default)";
  v.known_failures[kAgreement] = kBuckets;
  v.known_failures[kOracle] = kBuckets;
  v.known_failures[kNoStaleRead] = kBuckets;
  return v;
}

}  // namespace a2asim::versions
