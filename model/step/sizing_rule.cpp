#include "model/step/sizing_rule.h"

namespace a2asim {

std::string_view text(SizingBranch branch) {
  switch (branch) {
    case SizingBranch::max_of_list:
      return "max over the gathered token counts";
    case SizingBranch::max_of_list_scatter:
      return "max over the gathered token counts, divided by attn_tp_size";
    case SizingBranch::static_cap:
      return "the static cap max_num_tokens";
    case SizingBranch::local_rows:
      return "this rank's own rows";
    case SizingBranch::allgather_prefill:
      return "no all-to-all: all-gatherv and reduce-scatterv";
    case SizingBranch::external:
      return "the external rule";
  }
  return "unknown";
}

}  // namespace a2asim
