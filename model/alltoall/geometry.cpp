#include "model/alltoall/geometry.h"

#include <algorithm>

#include "model/alltoall/workspace.h"
#include "model/base/clamped_math.h"

namespace a2asim {

GeometryVerdict::Room GeometryVerdict::room_of(const RankGeometry& own, std::int64_t ep_size) {
  // A user's own rule may answer anything.
  const std::int64_t rows = clamped_product(ep_size, own.runtime_max_tokens_per_rank);
  const std::int64_t receive_end = clamped_sum(own.payload_data, clamped_product(rows, own.dispatch_bytes_per_token));
  const std::int64_t combine_end =
      clamped_sum(clamped_sum(receive_end, kWorkspaceAlignment_bytes - 1) & -kWorkspaceAlignment_bytes,
                  clamped_product(rows, own.combine_bytes_per_token));
  return {rows, receive_end <= own.slice_bytes, combine_end <= own.slice_bytes};
}

void GeometryVerdict::add(int rank, const RankGeometry& own, std::int64_t ep_size) {
  if (!has_first_) {
    first_ = own;
    room_of_first_ = room_of(own, ep_size);
    has_first_ = true;
  }
  const std::int64_t runtime_max = own.runtime_max_tokens_per_rank;
  const bool equal_r = runtime_max == first_.runtime_max_tokens_per_rank;
  const bool equal_layout = own.has_layout_of(first_);
  const Room room = equal_r && equal_layout ? room_of_first_ : room_of(own, ep_size);
  if (!(equal_r && equal_layout) && disagreeing_rank < 0) disagreeing_rank = rank;
  same_r = same_r && equal_r;
  same_layout = same_layout && equal_layout;

  if (runtime_max > own.max_num_tokens) over_capacity.add(rank);
  if (own.local_num_tokens > runtime_max) receive_overflow.add(rank);
  if (runtime_max <= 0 || !room.dispatch) refuses_dispatch.add(rank);
  if (!room.combine) refuses_combine.add(rank);
  largest_r = std::max(largest_r, runtime_max);
  largest_tokens = std::max(largest_tokens, own.local_num_tokens);
  reserved_rows = clamped_sum(reserved_rows, room.rows);
}

GeometryVerdict check_geometry(std::span<const RankGeometry> ranks, RankMask taking_part) {
  A2ASIM_INVARIANT((taking_part - RankMask::all(static_cast<int>(ranks.size()))).empty(), "a geometry for every rank");
  GeometryVerdict verdict;
  for (const int rank : taking_part)
    verdict.add(rank, ranks[static_cast<std::size_t>(rank)], static_cast<std::int64_t>(ranks.size()));
  return verdict;
}

}  // namespace a2asim
