#include "model/step/unused_rows.h"

#include <doctest/doctest.h>

namespace a2asim {
namespace {

constexpr RowShape kShape{.hidden_bytes = 128, .top_k = 2, .num_experts = 16};

SentRows rows(std::int64_t r, std::vector<std::int64_t> of_rank) { return {r, std::move(of_rank)}; }

}  // namespace

TEST_CASE("unused rows: a smaller step after a larger one reads its hidden states as ids") {
  CHECK(reads_foreign_bytes(rows(2, {2, 2}), rows(1, {1, 1}), kShape));
  CHECK(reads_foreign_bytes(rows(2, {2, 2}), rows(1, {1, 0}), kShape));
}

TEST_CASE("unused rows: with the same R only ids lie where ids are read") {
  CHECK_FALSE(reads_foreign_bytes(rows(2, {2, 2}), rows(2, {1, 0}), kShape));
}

TEST_CASE("unused rows: a larger step reads expert outputs, or what nobody wrote") {
  // Outputs of R = 2 begin at pad128(576) = 640 and take 512 bytes; ids of R = 3 are read at 768, of R = 5 at 1280.
  CHECK(reads_foreign_bytes(rows(2, {2, 2}), rows(3, {1, 1}), kShape));
  CHECK_FALSE(reads_foreign_bytes(rows(2, {2, 2}), rows(5, {1, 1}), kShape));
}

TEST_CASE("unused rows: one rank alone fills all its rows") {
  CHECK_FALSE(reads_foreign_bytes(rows(4, {4}), rows(1, {1}), kShape));
  CHECK(reads_foreign_bytes(rows(4, {4}), rows(2, {1}), kShape));  // but for those that the step does not have
}

TEST_CASE("unused rows: where every token goes to every rank only missing tokens leave rows unfilled") {
  constexpr RowShape all{.hidden_bytes = 128, .top_k = 2, .num_experts = 2};
  CHECK_FALSE(reads_foreign_bytes(rows(2, {2, 2}), rows(1, {1, 1}), all));
  CHECK(reads_foreign_bytes(rows(2, {2, 2}), rows(1, {0, 1}), all));
}

TEST_CASE("unused rows: a rank that sent nothing left nothing") {
  // Ids of R = 1 are read at byte 256, where hidden states of rank 1 would begin with R = 2.
  CHECK_FALSE(reads_foreign_bytes(rows(2, {2, 0}), rows(1, {1, 1}), kShape));
  CHECK(reads_foreign_bytes(rows(4, {4, 0}), rows(1, {1, 1}), kShape));  // with R = 4 it is rank 0's third row
}

TEST_CASE("unused rows: weights lie beside ids") {
  // Narrow rows: hidden states of two bytes, so that what follows them is read. R = 8: ids at 32, weights at 160 to
  // 288; R = 40: ids at 160.
  constexpr RowShape narrow{.hidden_bytes = 2, .top_k = 2, .num_experts = 16};
  CHECK(reads_foreign_bytes(rows(8, {8, 8}), rows(40, {1, 1}), narrow));
  CHECK_FALSE(reads_foreign_bytes(rows(8, {0, 0}), rows(40, {1, 1}), narrow));
}

TEST_CASE("unused rows: ids that begin in the middle of other ids are none") {
  // R = 3 and 2 with one rank of two bytes: ids at 6 and at 4.
  constexpr RowShape odd{.hidden_bytes = 2, .top_k = 1, .num_experts = 16};
  CHECK(reads_foreign_bytes(rows(3, {3}), rows(2, {1}), odd));
}

TEST_CASE("unused rows: of random experts a quarter to a half of the rows is surely delivered, and one of few") {
  const auto of = [](std::vector<std::int64_t> sent, int top_k) {
    return surely_delivered(rows(64, std::move(sent)), {.hidden_bytes = 128, .top_k = top_k, .num_experts = 16}).rows;
  };
  using Rows = std::vector<std::int64_t>;
  CHECK(of({0, 1, 2, 3, 40}, 5) == Rows{0, 1, 1, 1, 20});  // top_k of 5 ranks: half
  CHECK(of({0, 1, 2, 3, 40}, 8) == Rows{0, 1, 1, 1, 20});  // no more ranks than there are
  CHECK(of({0, 1, 9, 10, 40}, 2) == Rows{0, 1, 1, 2, 8});  // 2 of 10
  CHECK(of({7}, 1) == Rows{3});
}

}  // namespace a2asim
