// What hardware leaves open: the order of slots, races of a rank's own rows, what lies behind a slice.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include "model/alltoall/number_types.h"
#include "model/alltoall/reduction.h"
#include "sim/alltoall/batch_data.h"
#include "sim/alltoall/sim_alltoall.h"
#include "sim/conformance/oracle.h"

namespace a2asim {
namespace {

constexpr ExpertPayloads kPayloads{.hidden_payload = 0, .weight_payload = 2};

AllToAllConfig typed_config(int ep_size, std::int64_t cap, std::int64_t hidden, int top_k, DataType type) {
  AllToAllConfig config;
  config.ep_size = ep_size;
  config.top_k = top_k;
  config.num_experts = ep_size * top_k;
  config.max_num_tokens = cap;
  config.hidden_size = hidden;
  config.combine_type = type;
  config.payload_bytes_per_token = {config.combine_bytes_per_token(), 4 * top_k, 4 * top_k};
  return config;
}

struct SlotWorld {
  std::vector<AllToAllConfig> configs;
  std::vector<TokenBatch> batches;
  std::vector<DispatchInput> inputs;
  std::unique_ptr<SimAllToAll> sim;
  std::vector<std::vector<std::byte>> outputs;

  SlotWorld(const AllToAllConfig& config, const std::vector<std::int64_t>& tokens,
            const std::vector<std::int64_t>& sizes, int all_to = -1)
      : configs(tokens.size(), config) {
    Random random(3);
    for (const std::int64_t count : tokens)
      batches.emplace_back(config, kPayloads, count, RoutingPattern::distinct, random);
    for (std::size_t r = 0; r < batches.size(); ++r) {
      if (all_to >= 0) std::ranges::fill(batches[r].expert_ids(), all_to * config.top_k);
      inputs.push_back(batches[r].input(sizes[r]));
    }
    sim = *SimAllToAll::create(configs, {});
  }
  void round(const std::vector<std::int64_t>& sizes) {
    REQUIRE(sim->dispatch(inputs).has_value());
    REQUIRE(sim->sanitize(-1).has_value());
    REQUIRE(sim->experts(kPayloads).has_value());
    REQUIRE(sim->combine(sizes, outputs).has_value());
  }
};

// 17 rows of 16 bytes from byte 16 on leave a slice; those of the two payloads behind it do not.
TEST_CASE("slots: rows that leave a slice are said for whichever payload reaches farthest") {
  AllToAllConfig config = typed_config(2, 1, 8, 1, DataType::bfloat16);
  SlotWorld world(config, {0, 17}, {1, 1}, 1);
  REQUIRE(config.regions(1).row(0, 1, 17) > config.workspace_bytes());
  REQUIRE(config.regions(1).row(2, 1, 17) <= config.workspace_bytes());
  REQUIRE(world.sim->dispatch(world.inputs).has_value());
  const auto leaves = [](const Finding& found) {
    return found.kind == FindingKind::receive_overflow && found.rank == 1 && found.peer == 1 &&
           describe(found).find(
               "bytes past the end of the slice: where slices lie side by side, over the next rank's "
               "counters, and dispatch can hang") != std::string::npos;
  };
  CHECK(std::ranges::count_if(world.sim->findings(), leaves) == 1);
}

TEST_CASE("slots: a rank's own rows that overlap race, and all tokens of that destination are in doubt") {
  const AllToAllConfig config = typed_config(2, 8, 8, 1, DataType::bfloat16);
  SlotWorld world(config, {1, 6}, {2, 2}, 0);  // six rows of rank 1 in room for two: they run into the ids' region
  world.round({2, 2});
  const auto own_race = [](const Finding& found) {
    return found.row && found.row->race && found.kind == FindingKind::torn;
  };
  CHECK(std::ranges::any_of(world.sim->findings(), own_race));
  const auto doubts = world.sim->in_doubt(1), wrong = world.sim->tainted(1);
  REQUIRE(doubts.size() == 6);
  CHECK(std::ranges::count(doubts, 1) == 6);
  CHECK(std::ranges::count(wrong, 1) <= 6);
  for (std::size_t t = 0; t < wrong.size(); ++t) CHECK(doubts[t] >= wrong[t]);
}

// Every order of the slots of one destination, which has room for three rows and gets four: the last one runs over the
// id of the first. What comes out wrong is always in doubt.
TEST_CASE("slots: under each order of the slots the tokens that come out wrong are among those in doubt") {
  const AllToAllConfig config = typed_config(2, 8, 8, 1, DataType::bfloat16);
  std::vector<std::int32_t> order = {0, 1, 2, 3};
  std::int64_t orders = 0, moved = 0;
  std::vector<std::uint8_t> first;
  do {
    SlotWorld world(config, {0, 4}, {3, 3}, 0);
    REQUIRE(world.sim->set_slots(1, order, world.inputs[1]).has_value());
    world.round({3, 3});
    const auto dense = world.batches[1].reference(config, kPayloads, ClosedFormExperts());
    const auto got = decode(config.combine_type, world.outputs[1]);
    REQUIRE(dense.has_value());
    std::vector<std::uint8_t> wrong(4, 0);
    for (std::size_t i = 0; i < got->size(); ++i)
      if ((*got)[i] != dense->output[i]) wrong[i / 8] = 1;
    const auto doubts = world.sim->in_doubt(1);
    for (std::size_t t = 0; t < wrong.size(); ++t) CHECK(doubts[t] >= wrong[t]);
    if (first.empty()) first = wrong;
    moved += wrong == first ? 0 : 1;
    ++orders;
  } while (std::ranges::next_permutation(order).found);
  CHECK(orders == 24);
  CHECK(moved > 0);
}

TEST_CASE("slots: another backend's slots are followed, byte for byte, and refused where they are none") {
  const AllToAllConfig config = typed_config(3, 8, 8, 2, DataType::bfloat16);
  SlotWorld world(config, {5, 8, 2}, {8, 8, 8});
  conformance::Oracle oracle(world.configs);
  oracle.poison(std::byte{0xFF});
  oracle.dispatch(world.inputs);
  REQUIRE(world.sim->dispatch(world.inputs).has_value());
  SlotWorld other(config, {5, 8, 2}, {8, 8, 8});
  for (int rank = 0; rank < 3; ++rank) {
    const auto slots = *world.sim->slots(rank);
    std::vector<std::int32_t> mine = slots;
    std::vector<std::int32_t> largest(3, -1);
    const auto slice = *world.sim->read_slice(rank);
    std::vector<std::int32_t> targets(slots.size());
    std::memcpy(targets.data(), slice.data() + config.layout().topk_target_ranks, 4 * targets.size());
    for (std::size_t i = 0; i < slots.size(); ++i)
      if (targets[i] >= 0) {
        std::int32_t& most = largest[static_cast<std::size_t>(targets[i])];
        most = std::max(most, slots[i]);
      }
    for (std::size_t i = 0; i < slots.size(); ++i)
      if (targets[i] >= 0) mine[i] = largest[static_cast<std::size_t>(targets[i])] - slots[i];
    REQUIRE(other.sim->set_slots(rank, mine, other.inputs[static_cast<std::size_t>(rank)]).has_value());
    mine[0] = 99;
    CHECK_FALSE(world.sim->set_slots(rank, mine, other.inputs[static_cast<std::size_t>(rank)]).has_value());
    mine.pop_back();
    CHECK_FALSE(world.sim->set_slots(rank, mine, other.inputs[static_cast<std::size_t>(rank)]).has_value());
  }
  REQUIRE(other.sim->dispatch(other.inputs).has_value());
  CHECK(conformance::difference(*other.sim->read_slice(1), oracle.slice(1)) != "");
  std::vector<std::vector<std::int32_t>> followed;
  for (int rank = 0; rank < 3; ++rank) followed.push_back(*other.sim->slots(rank));
  conformance::Oracle same(world.configs);
  same.poison(std::byte{0xFF});
  same.follow(followed);
  same.dispatch(other.inputs);
  for (int rank = 0; rank < 3; ++rank)
    CHECK(conformance::difference(*other.sim->read_slice(rank), same.slice(rank)) == "");
}

// Rank 1 has more rows than R: the results of the last ones are looked for behind slice 0, where slice 1 begins.
TEST_CASE("slots: combine reads what lies behind a slice") {
  const AllToAllConfig config = typed_config(2, 1, 64, 1, DataType::bfloat16);
  const std::int64_t rows = 12;
  SlotWorld world(config, {0, rows}, {1, 1}, 0);
  world.round({1, 1});
  const RegionView regions = config.regions(1);
  const auto slice = *world.sim->read_slice(1);
  std::int64_t behind = 0;
  for (std::int64_t slot = 0; slot < rows; ++slot) {
    const std::int64_t at = regions.combine_row(1, slot) - config.workspace_bytes();
    if (at < 0 || at + 128 > config.layout().payload_data) continue;
    ++behind;
    std::vector<std::byte> wanted(slice.begin() + at, slice.begin() + at + 128);
    for (std::size_t i = 0; i < 64; ++i) {  // a sum of one row rounds it: NaN is the canonical one
      std::uint16_t bits;
      std::memcpy(&bits, wanted.data() + 2 * i, 2);
      bits = Bfloat16::store(Bfloat16::load(bits));
      std::memcpy(wanted.data() + 2 * i, &bits, 2);
    }
    CHECK(std::equal(wanted.begin(), wanted.end(), world.outputs[1].begin() + slot * 128));
  }
  CHECK(behind > 0);
}

TEST_CASE("sums: subnormal numbers count as zero, but a single row keeps them, and float32 its NaN bits") {
  constexpr float kSmall = std::numeric_limits<float>::denorm_min();
  CHECK(add_flushed(kSmall, kSmall) == 0.0F);
  CHECK(std::signbit(add_flushed(-kSmall, -0.0F)));
  CHECK(add_flushed(std::numeric_limits<float>::min(), -1.5F * std::numeric_limits<float>::min()) == 0.0F);
  CHECK(add_flushed(1.0F, kSmall) == 1.0F);
  for (const int top_k : {1, 2, 3}) {
    const AllToAllConfig config = typed_config(1, 2, 4, top_k, DataType::float32);
    SlotWorld world(config, {1}, {2});
    conformance::Oracle oracle(world.configs);
    oracle.poison(std::byte{0xFF});
    oracle.dispatch(world.inputs);
    REQUIRE(world.sim->dispatch(world.inputs).has_value());
    const std::uint32_t bits[] = {0x00000001U, 0x7f800123U, 0xffc00001U, 0x80000005U};
    const auto row = std::as_bytes(std::span(bits));
    REQUIRE(world.sim->give_results(0, row).has_value());
    oracle.give_results(0, row);
    REQUIRE(world.sim->combine(std::vector<std::int64_t>{2}, world.outputs).has_value());
    oracle.combine(std::vector<std::int64_t>{2});
    CHECK(world.outputs[0] == oracle.output(0));
    std::uint32_t got[4];
    std::memcpy(got, world.outputs[0].data(), sizeof got);
    if (top_k == 1) CHECK(std::ranges::equal(got, bits));
    if (top_k > 1) CHECK(got[0] == 0);
    if (top_k > 1) CHECK(got[1] == 0x7fffffffU);
  }
}

}  // namespace
}  // namespace a2asim
