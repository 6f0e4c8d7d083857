// What integers alone say about one dispatch: do the ranks agree, does it fit. No allocation: this is the inner loop of
// exploring.
//
//   GeometryVerdict said;
//   for (const int rank : calling) said.add(rank, ranks[rank], ep_size);   // or check_geometry(ranks, calling)
//
// The rules are the host checks of FlashInfer's moeA2ADispatchOp (runtime_max > 0; all receive regions fit the slice)
// and what it does not check: equality between ranks, R <= cap (its Python class asserts that), tokens <= R.
#pragma once

#include <cstdint>
#include <span>

#include "model/base/rank_mask.h"

namespace a2asim {

// One rank's part in a dispatch.
struct RankGeometry {
  std::int64_t runtime_max_tokens_per_rank = 0;  // R
  std::int64_t local_num_tokens = 0;
  std::int64_t max_num_tokens = 0;  // the cap
  std::int64_t payload_data = 0;    // where receive regions begin
  std::int64_t dispatch_bytes_per_token = 0;
  std::int64_t combine_bytes_per_token = 0;
  std::int64_t slice_bytes = 0;

  bool has_layout_of(const RankGeometry& other) const {  // all but R and tokens
    return max_num_tokens == other.max_num_tokens && payload_data == other.payload_data &&
           dispatch_bytes_per_token == other.dispatch_bytes_per_token &&
           combine_bytes_per_token == other.combine_bytes_per_token && slice_bytes == other.slice_bytes;
  }
};

struct GeometryVerdict {
  bool same_r = true;         // everybody's R is equal
  bool same_layout = true;    // and so are cap, payload bytes and slice sizes
  int disagreeing_rank = -1;  // the first that differs from the first rank added
  RankMask over_capacity;     // R > max_num_tokens
  RankMask receive_overflow;  // local_num_tokens > R: may write into the neighbour's slots
  RankMask refuses_dispatch;  // FlashInfer's host check raises: nothing is launched on this rank
  RankMask refuses_combine;   // the same for combine's region
  std::int64_t largest_r = 0;
  std::int64_t largest_tokens = 0;
  std::int64_t reserved_rows = 0;  // sum over ranks of ep_size * R: what experts compute over

  void add(int rank, const RankGeometry& own, std::int64_t ep_size);
  bool agrees() const { return same_r && same_layout; }

 private:
  struct Room {
    std::int64_t rows = 0;  // reserved: ep_size * R
    bool dispatch = true, combine = true;
  };
  static Room room_of(const RankGeometry& own, std::int64_t ep_size);
  void add_like_first(int rank, std::int64_t local_num_tokens);
  void add_by_itself(int rank, const RankGeometry& own, std::int64_t ep_size);

  RankGeometry first_;
  Room room_of_first_;       // and of all that are like it
  bool has_first_ = false;
  bool first_fits_ = false;  // nothing but its tokens can be wrong with a rank like the first
};

// Ranks outside `taking_part` are not looked at.
GeometryVerdict check_geometry(std::span<const RankGeometry> ranks, RankMask taking_part);

}  // namespace a2asim
