// What a scenario's tokens carry, by what the header promises of it: routing of each kind, windows of successive
// rounds, values that every float type holds exactly.
#include "sim/cluster/cluster_contents.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstring>
#include <set>

#include "model/alltoall/routing.h"

namespace a2asim {
namespace {

constexpr int kTopK = 3;

AllToAllConfig config_with(DataType type = DataType::float32) {
  AllToAllConfig config;
  config.ep_size = 4;
  config.top_k = kTopK;
  config.num_experts = 10;  // 3, 3, 2 and 2 a rank
  config.hidden_size = 2;
  config.combine_type = type;
  config.payload_bytes_per_token = {config.combine_bytes_per_token(), 4 * kTopK, 4 * kTopK};
  return config;
}

struct Contents {
  ClusterContents own;
  explicit Contents(Routing::Kind kind, std::int64_t hot = 0, Fidelity fidelity = Fidelity::numeric,
                    std::uint64_t seed = 5)
      : own(config_with(), {}, fidelity, {kind, hot, {}}, seed) {}
  DispatchInput of(int rank, std::int64_t rows, std::int64_t round) {
    REQUIRE(own.reserve(rank, rows).has_value());
    DispatchInput input;
    own.fill(rank, rows, round, input);
    return input;
  }
};

std::vector<std::int32_t> ids_of(const DispatchInput& input) {
  return {input.token_selected_experts.begin(), input.token_selected_experts.end()};
}
std::vector<float> floats_of(std::span<const std::byte> bytes) {
  std::vector<float> out(bytes.size() / sizeof(float));
  std::memcpy(out.data(), bytes.data(), bytes.size());
  return out;
}

}  // namespace

TEST_CASE("contents: round robin takes the experts in turn, the same on every rank and in every round") {
  Contents contents(Routing::Kind::round_robin);
  for (const int rank : {0, 3})
    for (const std::int64_t round : {1, 2, 9})
      CHECK(ids_of(contents.of(rank, 4, round)) == std::vector<std::int32_t>{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 0, 1});
}

TEST_CASE("contents: uniform tokens have distinct experts, and meet all of them alike") {
  Contents contents(Routing::Kind::uniform);
  constexpr std::int64_t kRows = 4000;
  const std::vector<std::int32_t> ids = ids_of(contents.of(1, kRows, 1));
  std::vector<std::int64_t> times(10, 0);
  for (std::size_t at = 0; at < ids.size(); at += kTopK) {
    CHECK(std::set<std::int32_t>(ids.begin() + static_cast<std::ptrdiff_t>(at),
                                 ids.begin() + static_cast<std::ptrdiff_t>(at + kTopK))
              .size() == kTopK);
    for (std::size_t j = 0; j < kTopK; ++j) ++times.at(static_cast<std::size_t>(ids[at + j]));
  }
  for (const std::int64_t one : times) CHECK(std::abs(one - kRows * kTopK / 10) < 150);
  CHECK(ids_of(contents.of(2, kRows, 1)) != ids);  // each rank draws its own
}

TEST_CASE("contents: a hot rank is sent as many as it owns, the others are uniform") {
  for (const int hot : {0, 2}) {
    CAPTURE(hot);
    Contents contents(Routing::Kind::hot_rank, hot);
    const std::int64_t owned = hot == 0 ? 3 : 2;
    const std::vector<std::int32_t> ids = ids_of(contents.of(1, 500, 1));
    std::set<std::int32_t> seen;
    for (std::size_t at = 0; at < ids.size(); at += kTopK) {
      std::set<std::int32_t> token;
      std::int64_t there = 0;
      for (std::size_t j = 0; j < kTopK; ++j) {
        token.insert(ids[at + j]);
        there += target_rank(ids[at + j], 10, 4) == hot ? 1 : 0;
      }
      CHECK(token.size() == kTopK);
      CHECK(there == owned);
      seen.insert(token.begin(), token.end());
    }
    CHECK(seen.size() == (hot == 0 ? 3U : 10U));  // top_k 3: rank 0 owns all of them
  }
}

TEST_CASE("contents: rounds send other windows, and the same round the same, whatever was reserved since") {
  Contents contents(Routing::Kind::uniform);
  std::set<std::vector<float>> seen;
  for (std::int64_t round = 0; round < ClusterContents::kWindows; ++round) {
    const std::vector<float> hidden = floats_of(contents.of(0, 20, round).payloads[0]);
    CHECK(hidden.size() == 40);
    CHECK(seen.insert(hidden).second);
  }
  const auto before = floats_of(contents.of(0, 20, 7).payloads[0]);
  const auto weights = floats_of(contents.of(0, 20, 7).payloads[2]);
  const auto ids = ids_of(contents.of(0, 20, 7));
  static_cast<void>(contents.of(0, 300, 3));
  CHECK(floats_of(contents.of(0, 20, 7).payloads[0]) == before);
  CHECK(floats_of(contents.of(0, 20, 7).payloads[2]) == weights);
  CHECK(ids_of(contents.of(0, 20, 7)) == ids);
  // 97 tokens further in each round: round 1 begins where round 0's 98th token is.
  const auto longer = floats_of(contents.of(0, 98, 0).payloads[0]);
  CHECK(floats_of(contents.of(0, 1, 1).payloads[0]) == std::vector<float>(longer.end() - 2, longer.end()));
}

TEST_CASE("contents: values are small whole numbers, weights 1, 1/2 and 1/4, ids travel with them") {
  Contents contents(Routing::Kind::uniform);
  const DispatchInput input = contents.of(0, 200, 1);
  std::set<float> values, weights;
  for (const float one : floats_of(input.payloads.at(0))) values.insert(one);
  for (const float one : floats_of(input.payloads.at(2))) weights.insert(one);
  CHECK(values == std::set<float>{-2, -1, 0, 1, 2});
  CHECK(weights == std::set<float>{0.25F, 0.5F, 1});
  const std::vector<std::int32_t> ids = ids_of(input);
  CHECK(std::memcmp(input.payloads.at(1).data(), ids.data(), ids.size() * 4) == 0);
  CHECK(input.payloads.at(1).size() == ids.size() * 4);
}

TEST_CASE("contents: routing is the same at every fidelity, and another with another seed") {
  Contents bytes(Routing::Kind::uniform), tags(Routing::Kind::uniform, 0, Fidelity::provenance),
      other(Routing::Kind::uniform, 0, Fidelity::numeric, 6);
  const auto ids = ids_of(bytes.of(2, 50, 3));
  CHECK(ids_of(tags.of(2, 50, 3)) == ids);
  CHECK(tags.of(2, 50, 3).payloads.empty());
  CHECK(ids_of(other.of(2, 50, 3)) != ids);
  CHECK(floats_of(other.of(2, 50, 3).payloads[0]) != floats_of(bytes.of(2, 50, 3).payloads[0]));
}

TEST_CASE("contents: the dummy token goes to its own rank and computes nothing") {
  Contents contents(Routing::Kind::uniform);
  DispatchInput input;
  contents.own.fill_dummy(2, 10, input);
  CHECK(ids_of(input) == std::vector<std::int32_t>(kTopK, 6));  // the first expert of rank 2
  CHECK(floats_of(input.payloads.at(0)) == std::vector<float>(2, 0));
  CHECK(floats_of(input.payloads.at(2)) == std::vector<float>(kTopK, 0));
  std::array<std::int32_t, kTopK> padding;
  std::memcpy(padding.data(), input.payloads.at(1).data(), sizeof padding);
  CHECK(std::ranges::all_of(padding, [](std::int32_t id) { return id == 10; }));
}

TEST_CASE("contents: the oracle adds up the experts' results of each token, but for those of dead ranks") {
  Contents contents(Routing::Kind::uniform);
  const DispatchInput input = contents.of(1, 30, 4);
  const auto hidden = floats_of(input.payloads.at(0)), weights = floats_of(input.payloads.at(2));
  const auto ids = ids_of(input);
  for (const RankMask dead : {RankMask{}, RankMask::of(2)}) {
    const auto oracle = contents.own.reference(1, 30, 4, dead, ClosedFormExperts());
    REQUIRE(oracle.has_value());
    for (std::size_t token = 0; token < 30; ++token)
      for (std::size_t h = 0; h < 2; ++h) {
        double sum = 0;
        for (std::size_t j = 0; j < kTopK; ++j) {
          const std::int32_t expert = ids[token * kTopK + j];
          if (dead.contains(target_rank(expert, 10, 4))) continue;
          sum += weights[token * kTopK + j] * static_cast<double>(1 + expert % 4) / 4 * hidden[token * 2 + h];
        }
        CHECK(oracle->output[token * 2 + h] == doctest::Approx(sum));
      }
  }
}

}  // namespace a2asim
