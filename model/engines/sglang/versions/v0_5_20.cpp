// The release v0.5.20: #35758's sizes. Read: its date, commit, FlashInfer (0.6.18) and changes of options. Not read:
// rules of the start that may have changed besides.
#include "model/engines/sglang/versions/version.h"

namespace a2asim::versions {

Generation v0_5_20(const Generation& before) {
  Generation v = after(before, {.name = "v0.5.20",
                                .date = "2026-09-18",
                                .commit = "94602c9c2b",
                                .changed = "sizes as before; FlashInfer v0.6.18; old spellings of options are gone",
                                .releases = {{"v0.5.20"}}});
  v.options = {"v0.5.20"};
  v.start.runner_follows_checkpoint = true;  // #39613 (2026-09-15)
  v.capacity.flashinfer = FlashInferVersion::v0_6_18;
  return v;
}

}  // namespace a2asim::versions
