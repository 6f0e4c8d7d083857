#include "model/base/rank_mask.h"

#include <doctest/doctest.h>

#include <vector>

namespace a2asim {

static_assert(RankMask::all(3).count() == 3 && RankMask::all(0).empty());
static_assert(RankMask::all(64) == RankMask::everybody() && RankMask::everybody().contains(63));
static_assert(RankMask::of(5).first() == 5 && !RankMask::of(5).contains(4));

TEST_CASE("rank mask: ranks come in order") {
  std::vector<int> ranks;
  for (const int rank : RankMask(0b101001) | RankMask::of(63)) ranks.push_back(rank);
  CHECK(ranks == std::vector<int>{0, 3, 5, 63});
}

TEST_CASE("rank mask: set operations") {
  RankMask mask = RankMask::all(4);
  mask.remove(2);
  CHECK(mask == RankMask(0b1011));
  mask.add(5);
  CHECK(mask.bits() == 0b101011);
  CHECK((mask & RankMask::all(2)) == RankMask::all(2));
  CHECK((mask - RankMask::all(4)) == RankMask::of(5));
  mask -= RankMask::of(5);
  mask |= RankMask::of(2);
  CHECK(mask == RankMask::all(4));
  mask &= RankMask::of(1);
  CHECK(mask.first() == 1);
}

}  // namespace a2asim
