#include "model/engines/sglang/rules/topology.h"

#include <doctest/doctest.h>

using namespace a2asim;

namespace {
DpAttentionInputs world(bool dp_attention, std::int64_t tp_rank, std::int64_t tp_size, std::int64_t dp_size,
                        std::int64_t attn_cp_size = 1) {
  return {.enable_dp_attention = dp_attention,
          .tp_rank = tp_rank,
          .tp_size = tp_size,
          .dp_size = dp_size,
          .attn_cp_size = attn_cp_size};
}
}  // namespace

TEST_CASE("topology: without DP attention dp_size does not enter the layout") {
  CHECK(*compute_dp_attention_world_info_pr14668(world(false, 3, 8, 4)) == DpAttentionInfo{3, 8, 0, 1});
  CHECK(*compute_dp_attention_world_info_pr27945(world(false, 3, 8, 4)) == DpAttentionInfo{3, 8, 0, 1});
}

TEST_CASE("topology: attention ranks, tp fastest, then cp, then dp") {
  CHECK(*compute_dp_attention_world_info_pr14668(world(true, 13, 16, 4)) == DpAttentionInfo{1, 4, 3, 4});
  CHECK(*compute_dp_attention_world_info_pr27945(world(true, 13, 16, 4)) == DpAttentionInfo{1, 4, 3, 4});
  CHECK(*compute_dp_attention_world_info_pr27945(world(true, 13, 16, 2, 4)) == DpAttentionInfo{1, 2, 1, 2});
}

TEST_CASE("topology: more dp * cp ranks than tp ranks divide by zero, worded as CPython does") {
  const auto january = compute_dp_attention_world_info_pr14668(world(true, 1, 2, 8));
  REQUIRE_FALSE(january);
  CHECK(january.error() == Error{ErrorKind::zero_division_error, "integer division or modulo by zero"});

  const auto june = compute_dp_attention_world_info_pr27945(world(true, 1, 2, 8));
  REQUIRE_FALSE(june);
  CHECK(june.error() == Error{ErrorKind::zero_division_error, "integer modulo by zero"});
  // Context parallelism alone is enough from then on.
  CHECK_FALSE(compute_dp_attention_world_info_pr27945(world(false, 1, 6, 1, 8)));
  CHECK(compute_dp_attention_world_info_pr14668(world(false, 1, 6, 1, 8)));
}

TEST_CASE("topology: the dense MLP's group") {
  DpAttentionInputs in = world(true, 5, 8, 4);
  in.moe_dense_tp_size = 4;
  CHECK(compute_dp_attention_local_info(in)->attn_tp_size == 2);  // two of four replicas share a dense group
  CHECK(compute_dp_attention_local_info(in)->attn_dp_rank == 0);
  CHECK(compute_dp_attention_local_info(in)->attn_tp_rank == 1);
  in.moe_dense_tp_size = 1;  // fully data parallel
  CHECK(compute_dp_attention_local_info(in)->attn_tp_size == 1);
  in.moe_dense_tp_size = 16;  // more than the world
  REQUIRE_FALSE(compute_dp_attention_local_info(in));
  CHECK(compute_dp_attention_local_info(in).error().kind == ErrorKind::zero_division_error);
  in.moe_dense_tp_size.reset();  // all of tp_size
  CHECK(compute_dp_attention_local_info(in)->attn_tp_size == 2);
  in.enable_dp_attention = false;
  CHECK(*compute_dp_attention_local_info(in) == DpAttentionInfo{5, 8, 0, 1});
}

TEST_CASE("topology: rank mapping goes round") {
  const auto topology = make_topology(
      {.tp_size = 16, .dp_size = 2, .ep_size = 4, .moe_dp_size = 2, .attn_cp_size = 4, .enable_dp_attention = true});
  REQUIRE(topology);
  CHECK(topology->attn_tp_size == 2);
  CHECK(topology->moe_tp_size() == 2);
  for (std::int64_t rank = 0; rank < 16; ++rank) {
    CHECK(topology->tp_rank(topology->attn_dp_rank(rank), topology->attn_cp_rank(rank), topology->attn_tp_rank(rank)) ==
          rank);
    const auto info = compute_dp_attention_world_info_pr27945(world(true, rank, 16, 2, 4));
    CHECK(topology->attn_dp_rank(rank) == info->attn_dp_rank);
    CHECK(topology->attn_tp_rank(rank) == info->attn_tp_rank);
  }
  CHECK(topology->ep_rank(7) == 3);
  CHECK(topology->ep_rank(8) == 0);  // the second MoE replica
}

TEST_CASE("topology: with ep = tp an ep rank is a tp rank: without DP attention there is one attention replica") {
  const auto topology = make_topology({.tp_size = 8, .dp_size = 4, .ep_size = 8});
  REQUIRE(topology);
  CHECK(topology->attn_dp_size == 1);
  CHECK(topology->attn_tp_size == 8);
  for (std::int64_t rank = 0; rank < 8; ++rank) {
    CHECK(topology->ep_rank(rank) == rank);
    CHECK(topology->attn_dp_rank(rank) == 0);
  }
}

TEST_CASE("topology: sizes that cannot be used are refused, also when their product overflows") {
  for (const TopologyInputs& in :
       {TopologyInputs{.tp_size = 0}, TopologyInputs{.tp_size = 4, .dp_size = -1},
        TopologyInputs{.tp_size = 4, .dp_size = 3, .enable_dp_attention = true},
        TopologyInputs{.tp_size = 4, .ep_size = 8}, TopologyInputs{.tp_size = 8, .ep_size = 4, .moe_dp_size = 4},
        TopologyInputs{.tp_size = std::int64_t{1} << 62,
        .dp_size = std::int64_t{1} << 61,
        .attn_cp_size = std::int64_t{1} << 61,
        .enable_dp_attention = true}}) {
    const auto topology = make_topology(in);
    REQUIRE_FALSE(topology);
    CHECK(topology.error().kind == ErrorKind::bad_input);
  }
}
