#include "model/check/finding_info.h"

#include <algorithm>
#include <iterator>

#include "model/base/check_invariant.h"

namespace a2asim {
namespace {

// A file each, in the order of FindingKind.
// clang-format off
constexpr FindingInfo kFindings[] = {
#include "model/check/findings/geometry_disagreement.inc"
#include "model/check/findings/misplaced.inc"
#include "model/check/findings/stale.inc"
#include "model/check/findings/unwritten.inc"
#include "model/check/findings/torn.inc"
#include "model/check/findings/expert_id_out_of_range.inc"
#include "model/check/findings/nan_output.inc"
#include "model/check/findings/wrong_output.inc"
#include "model/check/findings/over_capacity.inc"
#include "model/check/findings/receive_overflow.inc"
#include "model/check/findings/missing_rank.inc"
#include "model/check/findings/wasted.inc"
#include "model/check/findings/rejected.inc"
#include "model/check/findings/idle_step.inc"
#include "model/check/findings/unsanitized_padding.inc"
#include "model/check/findings/static_cap.inc"
#include "model/check/findings/autotune.inc"
#include "model/check/findings/request_limit_open.inc"
#include "model/check/findings/chunk_open.inc"
#include "model/check/findings/graph_sizes_open.inc"
#include "model/check/findings/model_unknown.inc"
#include "model/check/findings/no_all_to_all.inc"
#include "model/check/findings/not_read.inc"
#include "model/check/findings/rank_environment.inc"
#include "model/check/findings/nodes_differ.inc"
#include "model/check/findings/note.inc"
#include "model/check/findings/model.inc"
#include "model/check/findings/generation.inc"
#include "model/check/findings/launch_command.inc"
#include "model/check/findings/server_args.inc"
#include "model/check/findings/rule.inc"
};
// clang-format on

constexpr bool is_complete() {
  for (std::size_t at = 0; at < std::size(kFindings); ++at)
    if (static_cast<std::size_t>(kFindings[at].kind) != at) return false;
  return std::size(kFindings) == kAllFindingKinds;
}
static_assert(is_complete(), "every FindingKind has one file in findings/, listed here in its order");

}  // namespace

std::span<const Consequence> FindingInfo::consequences() const {
  const auto end = std::ranges::find_if(hardware, [](const Consequence& one) { return one.what.empty(); });
  return {std::begin(hardware), end};
}

std::span<const std::string_view> FindingInfo::links() const {
  return {std::begin(reports), std::ranges::find(reports, std::string_view())};
}

std::string_view FindingInfo::on_hardware(Situation situation) const {
  const auto found = std::ranges::find(consequences(), situation, &Consequence::when);
  A2ASIM_INVARIANT(found != consequences().end(), "a finding says what happens in each situation that it is found in");
  return found->what;
}

std::span<const FindingInfo> findings() { return kFindings; }

const FindingInfo& finding_info(FindingKind kind) {
  const auto at = static_cast<std::size_t>(kind);
  A2ASIM_INVARIANT(at < std::size(kFindings), "every finding has an entry in the registry");
  return kFindings[at];
}

}  // namespace a2asim
