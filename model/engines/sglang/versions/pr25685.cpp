// #25685 "[SP]": a list of one entry is not the list of all ranks.
#include "model/engines/sglang/versions/version.h"

namespace a2asim::versions {

Generation pr25685(const Generation& before) {
  Generation v = after(
      before,
      {.name = "pr25685",
       .pr = 25685,
       .date = "2026-05-18",
       .commit = "878e6b8886",
       .changed = "R = max of the list only when it has more than one entry (sequence parallelism was over-sized)"});
  v.options = {"v0.5.12", "v0.5.13"};
  v.sizing = sizing_pr25685;
  v.start.variable_chooses_megamoe = true;  // #25406, two days before
  v.capacity.flashinfer = FlashInferVersion::v0_6_11_post1;
  v.known_failures.erase(kExactFit);
  return v;
}

}  // namespace a2asim::versions
