#include "sim/alltoall/geometry.h"

#include <algorithm>

#include "model/alltoall/workspace.h"
#include "model/base/check_invariant.h"

namespace a2asim {

GeometryVerdict check_geometry(std::span<const RankGeometry> ranks, std::uint64_t taking_part) {
  A2ASIM_INVARIANT(ranks.size() <= static_cast<std::size_t>(kMaxRanks), "a mask has a bit a rank");
  GeometryVerdict verdict;
  const auto ep_size = static_cast<std::int64_t>(ranks.size());
  const RankGeometry* first = nullptr;
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    const std::uint64_t bit = std::uint64_t{1} << r;
    if ((taking_part & bit) == 0) continue;
    const RankGeometry& rank = ranks[r];
    if (first == nullptr) first = &rank;
    const std::int64_t runtime_max = rank.runtime_max_tokens_per_rank;
    const bool same_r = runtime_max == first->runtime_max_tokens_per_rank;
    const bool same_layout = rank.max_num_tokens == first->max_num_tokens && rank.payload_data == first->payload_data &&
                             rank.dispatch_bytes_per_token == first->dispatch_bytes_per_token &&
                             rank.combine_bytes_per_token == first->combine_bytes_per_token &&
                             rank.slice_bytes == first->slice_bytes;
    if (!(same_r && same_layout) && verdict.disagreeing_rank < 0) verdict.disagreeing_rank = static_cast<int>(r);
    verdict.same_r = verdict.same_r && same_r;
    verdict.same_layout = verdict.same_layout && same_layout;

    WorkspaceLayout layout;
    layout.payload_data = rank.payload_data;
    const RegionView regions(layout, static_cast<int>(ep_size), runtime_max, &rank.dispatch_bytes_per_token, 1,
                             rank.combine_bytes_per_token);
    verdict.over_capacity |= runtime_max > rank.max_num_tokens ? bit : 0;
    verdict.receive_overflow |= rank.local_num_tokens > runtime_max ? bit : 0;
    verdict.refuses_dispatch |= runtime_max <= 0 || regions.receive_end() > rank.slice_bytes ? bit : 0;
    verdict.refuses_combine |= regions.end() > rank.slice_bytes ? bit : 0;
    verdict.largest_r = std::max(verdict.largest_r, runtime_max);
    verdict.largest_tokens = std::max(verdict.largest_tokens, rank.local_num_tokens);
    verdict.reserved_rows += ep_size * runtime_max;
  }
  return verdict;
}

}  // namespace a2asim
