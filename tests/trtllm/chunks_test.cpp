// How a step is cut into chunks, at both sides of each limit.
#include "model/engines/trtllm/rules/chunks.h"

#include <doctest/doctest.h>

namespace a2asim::trtllm {

namespace {

using Rows = ChunkRules::Rows;
using Patch = ChunkRules::Patch;

}  // namespace

TEST_CASE("trtllm: the number of chunks follows the sum or the largest count, and DeepEP leaves for the all-gather") {
  const Counts counts = {5, 3, 0};
  const auto plan = [&](const ChunkRules& rules, std::int64_t most, Lane lane = Lane::one_sided, bool pads = false) {
    const StepPlan out = plan_step(rules, lane, {counts, most, 5, pads});
    return std::pair(out.num_chunks, out.lane);
  };
  using Plan = std::pair<std::int64_t, Lane>;
  CHECK(plan({}, 8) == Plan(1, Lane::one_sided));
  CHECK(plan({}, 7) == Plan(2, Lane::one_sided));
  for (const Rows rows : {Rows::ep_times_most, Rows::ranks_times_most}) {
    CHECK(plan({rows}, 15) == Plan(1, Lane::one_sided));
    CHECK(plan({rows}, 14) == Plan(2, Lane::one_sided));
  }
  CHECK(plan({}, 14, Lane::one_sided, true) == Plan(2, Lane::one_sided));
  CHECK(plan({}, 8, Lane::deepep) == Plan(1, Lane::deepep));
  CHECK(plan({}, 7, Lane::deepep) == Plan(2, Lane::all_gather));
  CHECK(plan({}, 8, Lane::deepep_low_latency) == Plan(1, Lane::deepep_low_latency));
  CHECK(plan({}, 7, Lane::deepep_low_latency) == Plan(2, Lane::all_gather));
  CHECK(plan_step({}, Lane::deepep_low_latency, {counts, 8, 4}).lane == Lane::all_gather);
  CHECK(plan_step({}, Lane::one_sided, {counts, 8, 4}).counts == counts);
  CHECK(plan_step({.fills_zero_ranks = true}, Lane::one_sided, {counts, 8, 4}).counts == Counts{5, 5, 5});
  const Counts nothing = {0, 0};
  CHECK(plan_step({}, Lane::one_sided, {nothing, 8, 4}).num_chunks == 1);
}

TEST_CASE("trtllm: an empty chunk counts as one token, as nothing, or as the first chunk of its rank") {
  CHECK(split_chunk(7, 3) == Counts{3, 2, 2});
  CHECK(split_chunk(2, 3) == Counts{1, 1, 0});
  const Counts counts = {7, 1, 0};
  const auto sizes = [&](Patch patch, std::int64_t chunk, std::size_t rank, bool no_zeros) {
    return chunk_sizes({.patch = patch}, counts, 3, chunk, rank, no_zeros);
  };
  CHECK(sizes(Patch::none, 0, 0, false) == Counts{3, 1, 0});
  CHECK(sizes(Patch::none, 2, 0, false) == Counts{2, 0, 0});
  CHECK(sizes(Patch::none, 2, 0, true) == Counts{2, 1, 1});
  CHECK(sizes(Patch::own_entry, 2, 1, false) == Counts{2, 1, 0});
  CHECK(sizes(Patch::own_entry, 2, 0, false) == Counts{2, 0, 0});
  CHECK(sizes(Patch::every_entry, 2, 0, false) == Counts{2, 1, 0});

  const StepChunks step = cut({.patch = Patch::own_entry}, Lane::one_sided, {counts, 3, 8});
  REQUIRE(step.num_chunks == 3);
  CHECK(step.ranks[0].rows == Counts{3, 2, 2});
  CHECK(step.ranks[1].rows == Counts{1, 1, 1});
  CHECK(step.ranks[0].largest() == Counts{3, 2, 2});
  CHECK_FALSE(step.ranks[1].raised);
  CHECK(step.ranks[2].raised.value().text() == "AssertionError: chunk 0 shouldn't be empty");
  CHECK_FALSE(cut({}, Lane::one_sided, {counts, 3, 8}).ranks[2].raised);
}

TEST_CASE("trtllm: WIDEEP asks each rank's own rows before #6173, and leaves for several chunks until NVLink cuts") {
  const Counts counts = {5, 3};
  const auto sends = [&](Lane lane, std::int64_t most, bool own, bool cuts, std::size_t rank) {
    WideEpInputs in;
    in.all_rank_num_tokens = counts;
    in.most_tokens = most;
    in.low_latency_tokens = 4;
    in.lane = lane;
    in.asks_own_rows = own;
    in.nvlink_cuts = cuts;
    return wideep_sends(in, rank);
  };
  CHECK(sends(Lane::two_sided, 7, false, true, 0));
  CHECK_FALSE(sends(Lane::two_sided, 7, false, false, 0));
  CHECK(sends(Lane::two_sided, 8, false, false, 0));
  CHECK_FALSE(sends(Lane::deepep_low_latency, 8, true, true, 0));
  CHECK(sends(Lane::deepep_low_latency, 8, true, true, 1));
  CHECK_FALSE(sends(Lane::deepep_low_latency, 8, false, true, 1));
  CHECK_FALSE(sends(Lane::deepep, 7, false, true, 0));
  CHECK(sends(Lane::deepep, 8, false, true, 0));
}

}  // namespace a2asim::trtllm
