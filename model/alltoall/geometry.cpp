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
  if (first_fits_ && own.runtime_max_tokens_per_rank == first_.runtime_max_tokens_per_rank && own.has_layout_of(first_))
    return add_like_first(rank, own.local_num_tokens);
  add_by_itself(rank, own, ep_size);
}

// Nearly every rank of nearly every step.
void GeometryVerdict::add_like_first(int rank, std::int64_t local_num_tokens) {
  if (local_num_tokens > largest_tokens) largest_tokens = local_num_tokens;
  if (local_num_tokens > first_.runtime_max_tokens_per_rank) receive_overflow.add(rank);
  reserved_rows = clamped_sum(reserved_rows, room_of_first_.rows);
}

void GeometryVerdict::add_by_itself(int rank, const RankGeometry& own, std::int64_t ep_size) {
  const Room room = room_of(own, ep_size);
  const std::int64_t runtime_max = own.runtime_max_tokens_per_rank;
  const bool refused = runtime_max <= 0 || !room.dispatch;
  if (!has_first_) {
    first_ = own;
    room_of_first_ = room;
    has_first_ = true;
    first_fits_ = runtime_max <= own.max_num_tokens && !refused && room.combine;
  }
  const bool equal_r = runtime_max == first_.runtime_max_tokens_per_rank;
  const bool equal_layout = own.has_layout_of(first_);
  if (!(equal_r && equal_layout) && disagreeing_rank < 0) disagreeing_rank = rank;
  same_r = same_r && equal_r;
  same_layout = same_layout && equal_layout;

  if (runtime_max > own.max_num_tokens) over_capacity.add(rank);
  if (own.local_num_tokens > runtime_max) receive_overflow.add(rank);
  if (refused) refuses_dispatch.add(rank);
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
