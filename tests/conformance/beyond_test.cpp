// What FlashInfer's grids leave out: unequal and zero tokens, a workspace that just fits, more tokens than a GPU has
// multiprocessors, several rounds, captured graphs, ranks that disagree.
#include <algorithm>
#include <cstring>
#include <vector>

#include "tests/conformance/round.h"

namespace a2asim::conformance {
namespace {

const ExpertPayloads kPayloads{0, 2};

AllToAllConfig config_of(int ep_size, std::int64_t max_num_tokens, std::int64_t hidden, int top_k,
                         std::int64_t num_experts) {
  AllToAllConfig config;
  config.ep_size = ep_size;
  config.top_k = top_k;
  config.num_experts = num_experts;
  config.max_num_tokens = max_num_tokens;
  config.hidden_size = hidden;
  config.payload_bytes_per_token = {2 * hidden, 4 * top_k, 4 * top_k};
  return config;
}

std::vector<TokenBatch> draw(const std::vector<AllToAllConfig>& configs, const std::vector<std::int64_t>& tokens,
                            RoutingPattern routing, Random& random) {
  std::vector<TokenBatch> batches;
  for (std::size_t r = 0; r < configs.size(); ++r)
    batches.emplace_back(configs[r], kPayloads, tokens[r], routing, random);
  return batches;
}

}  // namespace

CONFORMANCE_TEST("unequal and zero tokens, several rounds") {
  const std::vector<AllToAllConfig> configs(8, config_of(8, 128, 64, 8, 256));
  Pair pair(backend, configs);
  Random random(1);
  const std::vector<std::vector<std::int64_t>> rounds = {{0, 128, 7, 64, 1, 100, 33, 128},
                                                         {3, 0, 0, 0, 0, 0, 0, 0},
                                                         {0, 0, 0, 0, 0, 0, 0, 0},
                                                         {1, 1, 1, 1, 1, 1, 1, 1},
                                                         {128, 128, 128, 128, 128, 128, 128, 128}};
  for (const auto& tokens : rounds) {
    const std::int64_t largest = *std::max_element(tokens.begin(), tokens.end());
    pair.round(draw(configs, tokens, RoutingPattern::distinct, random), std::max<std::int64_t>(1, largest), -1,
               &kPayloads);
  }
}

CONFORMANCE_TEST("a workspace that just fits, every token to one rank") {
  for (const int ep_size : {1, 2, 3, 8, 64}) {
    CAPTURE(ep_size);
    const std::vector<AllToAllConfig> configs(static_cast<std::size_t>(ep_size),
                                              config_of(ep_size, 5, 24, 2, 2 * ep_size + 1));
    Pair pair(backend, configs);
    Random random(2);
    const std::vector<std::int64_t> tokens(configs.size(), 5);
    pair.round(draw(configs, tokens, RoutingPattern::one_rank, random), 5, -1, &kPayloads);
  }
}

CONFORMANCE_TEST("more than 132 tokens in all") {
  const std::vector<AllToAllConfig> configs(8, config_of(8, 256, 256, 8, 256));
  Pair pair(backend, configs);
  Random random(3);
  const std::vector<std::int64_t> tokens(8, 200);
  pair.round(draw(configs, tokens, RoutingPattern::distinct, random), 256, -1, &kPayloads);
}

CONFORMANCE_TEST("replay of a capture equals the eager run") {
  const std::vector<AllToAllConfig> configs(4, config_of(4, 16, 64, 4, 10));
  Pair pair(backend, configs);
  Random random(4);
  const std::vector<std::int64_t> bucket(4, 16);
  const auto graph =
      pair.backend().capture(inputs_of(draw(configs, bucket, RoutingPattern::distinct, random), 16), -1, kPayloads);
  REQUIRE(graph.has_value());
  for (int round = 0; round < 3; ++round) {
    const std::vector<TokenBatch> batches = draw(configs, bucket, RoutingPattern::distinct, random);
    pair.replay(*graph, batches, 16, kPayloads);
    pair.round(batches, 16, -1, &kPayloads);
  }
}

// R is 4 on rank 0 and 2 on rank 1. Rank 1's hidden rows for rank 0 land on rows 2 and 3, and rank 0 looks for them on
// rows 4 and 5, where rank 1's shorter regions put its ids and weights.
CONFORMANCE_TEST("ranks that disagree write by their own R and read by their own R") {
  AllToAllConfig config = config_of(2, 8, 8, 1, 2);
  const std::vector<AllToAllConfig> configs(2, config);
  const auto all_to_all = make(backend, configs, false);
  REQUIRE(all_to_all->poison(std::byte{0xFF}).has_value());
  Random random(5);
  std::vector<TokenBatch> batches = draw(configs, {1, 2}, RoutingPattern::distinct, random);
  // Routing alone is forced: everything to rank 0.
  for (TokenBatch& batch : batches) std::fill(batch.expert_ids().begin(), batch.expert_ids().end(), 0);
  const std::vector<DispatchInput> inputs = {batches[0].input(4), batches[1].input(2)};
  REQUIRE(all_to_all->dispatch(inputs).has_value());
  const auto slice = all_to_all->read_slice(0);
  REQUIRE(slice.has_value());
  const std::int64_t begin = config.layout().payload_data, row = 16;
  const auto row_is = [&](std::int64_t at, std::span<const std::byte> wanted) {
    return std::equal(wanted.begin(), wanted.end(), slice->begin() + begin + at * row);
  };
  const std::vector<std::byte> poison(16, std::byte{0xFF});
  CHECK(row_is(0, batches[0].payload(0)));
  CHECK(row_is(1, poison));
  CHECK(row_is(2, batches[1].payload(0).first(16)));
  CHECK(row_is(3, batches[1].payload(0).subspan(16)));
  for (const int payload : {1, 2}) {  // 4 bytes a row, regions of 2 ranks x 2 rows: rank 1's are the last two
    std::vector<std::byte> mixture(poison.begin(), poison.begin() + 8);
    mixture.insert(mixture.end(), batches[1].payload(payload).begin(), batches[1].payload(payload).end());
    CHECK(row_is(3 + payload, mixture));
  }
  std::int32_t counter = 0;
  std::memcpy(&counter, slice->data() + config.layout().recv_counters + 4, 4);
  CHECK(counter == 2);

  // Rank 0 is self-consistent and right; rank 1 reads what rank 0 computed from poison.
  REQUIRE(all_to_all->sanitize(-1).has_value());
  REQUIRE(all_to_all->experts(kPayloads).has_value());
  Outputs outputs;
  REQUIRE(all_to_all->combine(std::vector<std::int64_t>{4, 2}, outputs).has_value());
  const auto dense = decode(config.combine_type, outputs[1]);
  REQUIRE(dense.has_value());
  CHECK(dense->size() == 16);
  CHECK((outputs[0].size() == 16));
}

}  // namespace a2asim::conformance
