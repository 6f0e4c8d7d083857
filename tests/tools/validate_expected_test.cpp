// What a validation expects of the device's errors, at both sides of each limit; and what each byte of a slice is
// called.
#include "tools/validate/validate_expected.h"

#include <doctest/doctest.h>

namespace a2asim {
namespace {

// Ranks of one configuration, each with as many rows as its R.
struct ExpectedLayer {
  explicit ExpectedLayer(int ranks, std::int64_t cap = 4) {
    AllToAllConfig config;
    config.ep_size = ranks;
    config.num_experts = ranks;
    config.max_num_tokens = cap;
    config.payload_bytes_per_token = {16, 4, 4};
    configs.assign(static_cast<std::size_t>(ranks), config);
    decisions.resize(configs.size());
    inputs.resize(configs.size());
    for (int rank = 0; rank < ranks; ++rank) give(rank, 2, 2);
    outcome.group = outcome.taking_part = RankMask::all(ranks);
  }
  AllToAllConfig& config(int rank) { return configs[static_cast<std::size_t>(rank)]; }
  void give(int rank, std::int64_t runtime_max, std::int64_t rows) {
    DispatchInput& input = inputs[static_cast<std::size_t>(rank)];
    input.runtime_max_tokens_per_rank = runtime_max;
    input.local_num_tokens = rows;
  }
  MirroredLayer layer() const { return {outcome, 0, {}, configs, decisions, inputs, payloads, -1}; }
  std::optional<AllToAllError> refusal() const { return expected_refusal(layer(), outcome.taking_part); }

  StepOutcome outcome;
  std::vector<AllToAllConfig> configs;
  std::vector<RankDecision> decisions;
  std::vector<DispatchInput> inputs;
  ExpertPayloads payloads;
};

TEST_CASE("validate: a device has to refuse R above the cap, rows above R, and more entries than the tables hold") {
  using Kind = AllToAllErrorKind;
  const struct {
    std::int64_t runtime_max, rows;
    int top_k, max_top_k;
    std::optional<AllToAllError> wanted;
  } cases[] = {
      {4, 4, 1, 22, {}},
      {5, 1, 1, 22, AllToAllError{.kind = Kind::over_cap, .rank = 1, .own = 5, .other = 4}},
      {5, 6, 1, 22, AllToAllError{.kind = Kind::over_cap, .rank = 1, .own = 5, .other = 4}},  // the first of two
      {3, 3, 1, 22, {}},
      {3, 4, 1, 22, AllToAllError{.kind = Kind::rows_over_r, .rank = 1, .own = 4, .other = 3}},
      {1, 0, 1, 22, {}},
      {4, 2, 4, 2, {}},  // 8 entries of 4 x 2
      {4, 3, 4, 2, AllToAllError{.kind = Kind::tables_full, .rank = 1, .own = 12, .other = 8}},
      {4, 4, 3, 2, AllToAllError{.kind = Kind::tables_full, .rank = 1, .own = 12, .other = 8}},
  };
  for (const auto& one : cases) {
    CAPTURE(one.runtime_max);
    CAPTURE(one.rows);
    CAPTURE(one.top_k);
    ExpectedLayer world(2);
    world.give(1, one.runtime_max, one.rows);
    world.config(1).top_k = one.top_k;
    world.config(1).max_top_k = one.max_top_k;
    CHECK(world.refusal() == one.wanted);
    CHECK_FALSE(expected_refusal(world.layer(), RankMask::of(0)));  // only of who calls
    world.give(0, 9, 0);                                            // of several the first
    const auto first = world.refusal();
    REQUIRE(first.has_value());
    CHECK(first->rank == 0);
  }
}

// A row is copied in vectors of 16, 8, 4, 2 or 1 bytes, the widest that divide it: its region begins at a multiple.
TEST_CASE("validate: a device has to refuse payloads that begin beside their vectors") {
  const struct {
    int ranks;
    std::int64_t runtime_max;
    std::vector<std::int64_t> payload_bytes;
    int payload;
    std::int64_t off, width;  // of the region's begin behind the tables
  } cases[] = {{1, 4, {4, 16}, -1, 0, 0},     {1, 3, {4, 16}, 1, 12, 16}, {2, 3, {4, 16}, 1, 24, 16},
               {2, 4, {4, 16, 32}, -1, 0, 0}, {1, 2, {4, 8}, -1, 0, 0},   {1, 2, {4, 24}, -1, 0, 0},
               {1, 1, {4, 24}, 1, 4, 8},      {1, 1, {2, 4}, 1, 2, 4},    {1, 1, {2, 12}, 1, 2, 4},
               {1, 1, {2, 6}, -1, 0, 0},      {1, 1, {1, 2}, 1, 1, 2},    {1, 3, {1, 3, 1}, -1, 0, 0},
               {1, 1, {16, 4, 8}, 2, 20, 8},  {1, 1, {8, 16}, 1, 8, 16}};
  for (const auto& one : cases) {
    CAPTURE(one.runtime_max);
    CAPTURE(one.payload_bytes);
    ExpectedLayer world(one.ranks);
    for (int rank = 0; rank < one.ranks; ++rank) {
      world.give(rank, one.runtime_max, 1);
      world.config(rank).payload_bytes_per_token = one.payload_bytes;
    }
    std::optional<AllToAllError> wanted;
    if (one.payload >= 0)
      wanted = AllToAllError{.kind = AllToAllErrorKind::misaligned,
                             .rank = 0,
                             .payload = one.payload,
                             .own = world.config(0).layout().payload_data + one.off,
                             .other = one.width};
    CHECK(world.refusal() == wanted);
    if (one.ranks > 1 && wanted) {
      const auto second = expected_refusal(world.layer(), RankMask::of(1));
      REQUIRE(second.has_value());
      CHECK(second->rank == 1);
    }
  }
}

TEST_CASE("validate: a layer is usual where sizes agree and nobody has more rows than its R") {
  ExpectedLayer world(2);
  CHECK_FALSE(disagrees(world.layer()));
  CHECK(is_usual(world.layer()));
  world.outcome.geometry.receive_overflow = RankMask::of(1);
  CHECK_FALSE(disagrees(world.layer()));
  CHECK_FALSE(is_usual(world.layer()));
  world.outcome.geometry.receive_overflow = {};
  for (bool GeometryVerdict::*field : {&GeometryVerdict::same_r, &GeometryVerdict::same_layout}) {
    world.outcome.geometry.*field = false;
    CHECK(disagrees(world.layer()));
    CHECK_FALSE(is_usual(world.layer()));
    world.outcome.geometry.*field = true;
  }
}

TEST_CASE("validate: an error names what was expected if it says the same in every field") {
  const AllToAllError wanted{.kind = AllToAllErrorKind::over_cap, .rank = 1, .own = 5, .other = 4};
  AllToAllError other = wanted;
  other.own = 6;
  const AllToAllError both[] = {other, wanted};
  CHECK(names(to_error(both), wanted));
  CHECK(names(to_error(std::span(both).last(1)), wanted));
  CHECK_FALSE(names(to_error(std::span(both).first(1)), wanted));
  CHECK_FALSE(names({ErrorKind::runtime_error, to_error(both).message}, wanted));
}

TEST_CASE("validate: the guard's error names two ranks that really differ, with both values") {
  ExpectedLayer world(3);
  world.give(0, 2, 1);
  world.give(1, 3, 1);
  world.config(1).max_num_tokens = 8;
  world.config(1).payload_bytes_per_token = {16, 8, 4};
  using Field = AllToAllField;
  const AllToAllError right{
      .kind = AllToAllErrorKind::differs, .field = Field::runtime_max, .rank = 0, .peer = 1, .own = 2, .other = 3};
  const auto with = [&right](auto&& change) {
    AllToAllError one = right;
    change(one);
    return one;
  };
  const auto field = [&with](Field of, int payload, std::int64_t own, std::int64_t other) {
    return with([=](AllToAllError& one) {
      one.field = of;
      one.payload = payload;
      one.own = own;
      one.other = other;
    });
  };
  const struct {
    AllToAllError said;
    bool holds;
  } cases[] = {
      {right, true},
      {field(Field::max_num_tokens, -1, 4, 8), true},
      {field(Field::max_num_tokens, -1, 4, 9), false},
      {field(Field::payload_bytes, 1, 4, 8), true},
      {field(Field::payload_bytes, 0, 16, 16), false},  // they do not differ
      {field(Field::payload_bytes, 0, 4, 8), false},    // another payload's
      {field(Field::runtime_max, -1, 4, 8), false},     // another field's
      {field(Field::combine_bytes, -1, -1, -2), false},
      {field(Field::runtime_max, -1, 2, 4), false},
      {field(Field::runtime_max, -1, 1, 3), false},
      {with([](AllToAllError& one) { one.kind = AllToAllErrorKind::waits; }), false},
      {with([](AllToAllError& one) { one.rank = -1; }), false},
      {with([](AllToAllError& one) { one.peer = -1; }), false},
      {with([](AllToAllError& one) { std::swap(one.rank, one.peer), std::swap(one.own, one.other); }), true},
      {with([](AllToAllError& one) { std::swap(one.rank, one.peer); }), false},
  };
  for (const auto& one : cases) {
    const Error error = to_error(std::span(&one.said, 1));
    CAPTURE(error.message);
    CHECK(names_disagreement(error, world.layer()) == one.holds);
  }
  const AllToAllError wrong_and_right[] = {cases[2].said, right};
  CHECK(names_disagreement(to_error(wrong_and_right), world.layer()));
  CHECK_FALSE(names_disagreement({ErrorKind::runtime_error, "ranks differ"}, world.layer()));
  for (const int absent : {0, 1}) {  // of ranks that made no call nobody can know a value
    world.outcome.taking_part = RankMask::all(3) - RankMask::of(absent);
    CHECK_FALSE(names_disagreement(to_error(std::span(&right, 1)), world.layer()));
  }
}

TEST_CASE("validate: everybody who calls has to say for whom it waits") {
  ExpectedLayer world(4);
  world.outcome.taking_part = RankMask(0b0101);
  std::vector<AllToAllError> waits;
  for (const int rank : {0, 2})
    for (const int peer : {1, 3}) waits.push_back({.kind = AllToAllErrorKind::waits, .rank = rank, .peer = peer});
  CHECK(unnamed_wait(to_error(waits), world.layer()).empty());
  const char* const without[] = {"rank 0 waits for rank 1", "rank 0 waits for rank 3", "rank 2 waits for rank 1",
                                 "rank 2 waits for rank 3"};
  for (std::size_t i = 0; i < waits.size(); ++i) {
    auto others = waits;
    others.erase(others.begin() + static_cast<std::ptrdiff_t>(i));
    CHECK(unnamed_wait(to_error(others), world.layer()) == without[i]);
    others = waits;
    others[i].kind = AllToAllErrorKind::peer_refused;
    CHECK(unnamed_wait(to_error(others), world.layer()) == without[i]);
  }
  CHECK(unnamed_wait({ErrorKind::runtime_error, "late"}, world.layer()) == without[0]);
  world.outcome.group = world.outcome.taking_part;  // the others have nothing to do
  CHECK(unnamed_wait({ErrorKind::runtime_error, "late"}, world.layer()).empty());
}

// Two ranks, a cap of 4, tables of 3 entries a token. In bytes: flags from 128 and 256, tables of 48 bytes from 384 and
// 512, rows from 640: with R = 3 six of 32, 8 and 8 bytes; six of 10 bytes from the next multiple of 128.
AllToAllConfig config_of_places() {
  AllToAllConfig config;
  config.ep_size = 2;
  config.num_experts = 2;
  config.max_num_tokens = 4;
  config.max_top_k = 3;
  config.payload_bytes_per_token = {32, 8, 8};
  config.hidden_size = 5;
  return config;
}

TEST_CASE("validate: the first and the last byte of each region have their name") {
  const AllToAllConfig config = config_of_places();
  const std::pair<std::int64_t, const char*> places[] = {
      {0, "round counter, entry 0"},
      {3, "round counter, entry 0"},
      {4, "local token counter, entry 0"},
      {7, "local token counter, entry 0"},
      {8, "send counters, entry 0"},
      {11, "send counters, entry 0"},
      {12, "send counters, entry 1"},
      {15, "send counters, entry 1"},
      {16, "receive counters, entry 0"},
      {23, "receive counters, entry 1"},
      {128, "dispatch completion flags, entry 0"},
      {135, "dispatch completion flags, entry 1"},
      {256, "combine completion flags, entry 0"},
      {263, "combine completion flags, entry 1"},
      {384, "top-k target ranks, entry 0"},
      {431, "top-k target ranks, entry 11"},
      {512, "top-k send indices, entry 0"},
      {559, "top-k send indices, entry 11"},
      {640, "payload 0, rank 0, slot 0, byte 0"},
      {671, "payload 0, rank 0, slot 0, byte 31"},
      {672, "payload 0, rank 0, slot 1, byte 0"},
      {735, "payload 0, rank 0, slot 2, byte 31"},
      {736, "payload 0, rank 1, slot 0, byte 0"},
      {831, "payload 0, rank 1, slot 2, byte 31"},
      {832, "payload 1, rank 0, slot 0, byte 0"},
      {879, "payload 1, rank 1, slot 2, byte 7"},
      {880, "payload 2, rank 0, slot 0, byte 0"},
      {927, "payload 2, rank 1, slot 2, byte 7"},
      {928, "outside this rank's regions"},
      {1023, "outside this rank's regions"},
      {1024, "expert output, rank 0, slot 0, byte 0"},
      {1033, "expert output, rank 0, slot 0, byte 9"},
      {1034, "expert output, rank 0, slot 1, byte 0"},
      {1054, "expert output, rank 1, slot 0, byte 0"},
      {1083, "expert output, rank 1, slot 2, byte 9"},
      {1084, "outside this rank's regions"},
  };
  for (const auto& [at, wanted] : places) {
    CAPTURE(at);
    CHECK(place_in_slice(config, 3, at) == wanted);
  }
  CHECK(place_in_slice(config, 1, 640 + 63) == "payload 0, rank 1, slot 0, byte 31");  // by its own R
  CHECK(place_in_slice(config, 1, 640 + 64) == "payload 1, rank 0, slot 0, byte 0");
}

TEST_CASE("validate: between regions that begin at multiples of 128 there is no row") {
  AllToAllConfig config = config_of_places();
  config.payload_alignment = 128;
  config.payload_bytes_per_token = {16, 8};
  CHECK(place_in_slice(config, 3, 640 + 95) == "payload 0, rank 1, slot 2, byte 15");
  CHECK(place_in_slice(config, 3, 640 + 96) == "outside this rank's regions");
  CHECK(place_in_slice(config, 3, 640 + 127) == "outside this rank's regions");
  CHECK(place_in_slice(config, 3, 640 + 128) == "payload 1, rank 0, slot 0, byte 0");
  CHECK(place_in_slice(config, 3, 640 + 128 + 47) == "payload 1, rank 1, slot 2, byte 7");
  CHECK(place_in_slice(config, 3, 640 + 128 + 48) == "outside this rank's regions");
}

}  // namespace
}  // namespace a2asim
