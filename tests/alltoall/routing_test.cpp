#include "model/alltoall/routing.h"

#include <doctest/doctest.h>

#include <array>

using namespace a2asim;

TEST_CASE("routing: the first ranks own the remainder") {
  // 10 experts on 4 ranks: 3, 3, 2, 2
  const std::array<int, 10> owner{0, 0, 0, 1, 1, 1, 2, 2, 3, 3};
  for (int expert = 0; expert < 10; ++expert)
    CHECK(target_rank(expert, 10, 4) == owner[static_cast<std::size_t>(expert)]);
}

TEST_CASE("routing: every expert lies in its rank's own range") {
  for (int ep_size = 1; ep_size <= 64; ++ep_size) {
    for (std::int64_t num_experts = ep_size; num_experts <= ep_size + 130; num_experts += 7) {
      std::int64_t next = 0;
      for (int rank = 0; rank < ep_size; ++rank) {
        REQUIRE(first_expert(rank, num_experts, ep_size) == next);
        for (std::int64_t i = 0; i < num_local_experts(rank, num_experts, ep_size); ++i)
          REQUIRE(target_rank(next++, num_experts, ep_size) == rank);
      }
      REQUIRE(next == num_experts);
    }
  }
}

TEST_CASE("routing: ids outside the range give what FlashInfer's C division gives") {
  CHECK(target_rank(-1, 256, 8) == 0);    // 32 experts a rank: -1 / 32
  CHECK(target_rank(-33, 256, 8) == -1);  // divisible: the plain quotient
  CHECK(target_rank(256, 256, 8) == 8);
  CHECK(target_rank(10, 10, 4) == 4);
}

TEST_CASE("routing: one copy for each distinct rank, carried by the first position") {
  const std::array<std::int32_t, 6> experts{9, 0, 8, 3, 1, 0};
  std::array<std::int32_t, 6> targets{};
  CHECK(distinct_targets(experts.data(), 6, 10, 4, targets.data()) == 3);
  CHECK(targets == std::array<std::int32_t, 6>{3, 0, -1, 1, -1, -1});

  const std::array<std::int32_t, 2> last_rank{63, 63};  // the highest bit of the mask
  std::array<std::int32_t, 2> pair{};
  CHECK(distinct_targets(last_rank.data(), 2, 64, 64, pair.data()) == 1);
  CHECK(pair == std::array<std::int32_t, 2>{63, -1});
}
