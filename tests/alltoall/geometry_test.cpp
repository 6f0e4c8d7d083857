// What integers say about one dispatch, rank by rank.
#include "model/alltoall/geometry.h"

#include <doctest/doctest.h>

#include <array>

namespace a2asim {
namespace {

// Two payload bytes and two output bytes a token, receive regions from byte 0: R takes 2 * ep_size * R bytes, then as
// many.
RankGeometry rank_with(std::int64_t runtime_max, std::int64_t slice_bytes) {
  return {.runtime_max_tokens_per_rank = runtime_max,
          .local_num_tokens = 1,
          .max_num_tokens = 1000,
          .payload_data = 0,
          .dispatch_bytes_per_token = 2,
          .combine_bytes_per_token = 2,
          .slice_bytes = slice_bytes};
}

}  // namespace

TEST_CASE("geometry: room is that of each rank, whoever came before it") {
  // 3 ranks: R = 4 takes 24 bytes for dispatch, from the aligned byte 128 on 24 more; R = 40 takes 240 and 240.
  for (const bool wide_first : {false, true}) {
    CAPTURE(wide_first);
    const RankGeometry narrow = rank_with(4, 200), wide = rank_with(40, 200);
    const std::array<RankGeometry, 3> ranks =
        wide_first ? std::array{wide, narrow, wide} : std::array{narrow, wide, narrow};
    const GeometryVerdict verdict = check_geometry(ranks, RankMask::all(3));
    CHECK_FALSE(verdict.same_r);
    CHECK(verdict.same_layout);
    CHECK(verdict.disagreeing_rank == 1);
    for (int rank = 0; rank < 3; ++rank) {
      CAPTURE(rank);
      const bool is_wide = (rank == 1) != wide_first;
      CHECK(verdict.refuses_dispatch.contains(rank) == is_wide);
      CHECK(verdict.refuses_combine.contains(rank) == is_wide);
    }
    CHECK(verdict.reserved_rows == 3 * (wide_first ? 40 + 4 + 40 : 4 + 40 + 4));
    CHECK(verdict.largest_r == 40);
  }
}

TEST_CASE("geometry: ranks of one R and unlike slices have each their own room") {
  const std::array ranks = {rank_with(4, 200), rank_with(4, 130), rank_with(4, 20), rank_with(4, 200)};
  const GeometryVerdict verdict = check_geometry(ranks, RankMask::all(4));
  CHECK(verdict.same_r);
  CHECK_FALSE(verdict.same_layout);
  CHECK(verdict.disagreeing_rank == 1);
  RankMask no_dispatch, no_combine;
  no_dispatch.add(2);
  no_combine.add(1);
  no_combine.add(2);
  CHECK(verdict.refuses_dispatch == no_dispatch);  // 32 bytes
  CHECK(verdict.refuses_combine == no_combine);    // from byte 128: 160 bytes
}

}  // namespace a2asim
