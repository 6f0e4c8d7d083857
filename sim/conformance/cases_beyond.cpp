// What FlashInfer's grids leave out: unequal and zero tokens, a workspace that just fits, more tokens than a GPU has
// multiprocessors, several rounds, special values, captured graphs, ranks that disagree.
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "model/alltoall/number_types.h"
#include "sim/conformance/suite.h"

namespace a2asim::conformance {
namespace {

void unequal_tokens(Trial& trial) {
  const std::vector<AllToAllConfig> configs(8, usual_config(8, 128, 64, 8, 256));
  Bench bench = trial.bench(configs);
  trial.need(bench, Capability::zero_tokens);
  trial.need(bench, Capability::changing_r);
  Random random(1);
  const std::vector<std::vector<std::int64_t>> rounds = {{0, 128, 7, 64, 1, 100, 33, 128},
                                                         {3, 0, 0, 0, 0, 0, 0, 0},
                                                         {0, 0, 0, 0, 0, 0, 0, 0},
                                                         {1, 1, 1, 1, 1, 1, 1, 1},
                                                         {128, 128, 128, 128, 128, 128, 128, 128}};
  for (const auto& tokens : rounds) {
    const std::int64_t largest = *std::max_element(tokens.begin(), tokens.end());
    const auto batches = draw(configs, kUsualPayloads, tokens, RoutingPattern::distinct, random);
    trial.holds(bench.round(inputs_of(batches, std::max<std::int64_t>(1, largest)), -1, &kUsualPayloads));
  }
}

void check_fit(Trial& trial, int ep_size) {
  const std::vector<AllToAllConfig> configs(static_cast<std::size_t>(ep_size),
                                            usual_config(ep_size, 5, 24, 2, 3 * ep_size));
  Bench bench = trial.bench(configs);
  Random random(2);
  const std::vector<std::int64_t> tokens(configs.size(), 5);
  const auto batches = draw(configs, kUsualPayloads, tokens, RoutingPattern::one_rank, random);
  const std::string wrong = bench.round(inputs_of(batches, 5), -1, &kUsualPayloads);
  trial.check(wrong.empty(), fmt::format("ep {}: {}", ep_size, wrong));
}

void just_fits(Trial& trial) {
  for (const int ep_size : {1, 2, 3, 8}) check_fit(trial, ep_size);
}

void most_ranks(Trial& trial) { check_fit(trial, kMaxRanks); }

void many_tokens(Trial& trial) {
  const std::vector<AllToAllConfig> configs(8, usual_config(8, 256, 256, 8, 256));
  Bench bench = trial.bench(configs);
  Random random(3);
  const std::vector<std::int64_t> tokens(8, 200);
  const auto batches = draw(configs, kUsualPayloads, tokens, RoutingPattern::distinct, random);
  trial.holds(bench.round(inputs_of(batches, 256), -1, &kUsualPayloads));
}

// Rounds of the same sizes with other contents: what one leaves behind must not show in the next.
void old_rows(Trial& trial) {
  const std::vector<AllToAllConfig> configs(4, usual_config(4, 8, 32, 4, 16));
  Bench bench = trial.bench(configs);
  Random random(7);
  for (const std::int64_t count : {8, 3, 8, 1, 5}) {
    const std::vector<std::int64_t> tokens(4, count);
    const auto batches = draw(configs, kUsualPayloads, tokens, RoutingPattern::distinct, random);
    trial.holds(bench.round(inputs_of(batches, 8), -1, &kUsualPayloads));
  }
}

// NaN, infinity and the largest numbers, and 0 beside them. (No subnormals: published kernels flush them.)
void special_values(Trial& trial) {
  for (const DataType type : {DataType::bfloat16, DataType::float16}) {
    const std::vector<AllToAllConfig> configs(2, usual_config(2, 6, 16, 2, 4, type));
    Bench bench = trial.bench(configs);
    trial.need(bench, Capability::sum_order);
    Random random(8);
    const auto batches = draw(configs, kUsualPayloads, {6, 6}, RoutingPattern::distinct, random);
    std::vector<DispatchInput> inputs = inputs_of(batches, 6);
    std::vector<std::vector<std::byte>> hidden(2);
    for (std::size_t rank = 0; rank < 2; ++rank) {
      hidden[rank].assign(inputs[rank].payloads[0].begin(), inputs[rank].payloads[0].end());
      with_number_type(type, [&]<class Number>(Number) {
        constexpr float kInfinity = std::numeric_limits<float>::infinity();
        const float special[] = {std::numeric_limits<float>::quiet_NaN(), kInfinity, -kInfinity, 60000.0F, 0.0F};
        for (std::size_t i = 0; (2 * i + 1) * sizeof(typename Number::Storage) <= hidden[rank].size(); ++i) {
          const auto bits = Number::store(special[i % 5]);
          std::memcpy(hidden[rank].data() + 2 * i * sizeof bits, &bits, sizeof bits);
        }
      });
      inputs[rank].payloads[0] = hidden[rank];
    }
    trial.holds(bench.round(inputs, -1, &kUsualPayloads));
  }
}

void captured(Trial& trial) {
  const std::vector<AllToAllConfig> configs(4, usual_config(4, 16, 64, 4, 12));
  Bench bench = trial.bench(configs);
  trial.need(bench, Capability::graphs);
  Random random(4);
  const std::vector<std::int64_t> bucket(4, 16);
  const auto contents = [&] { return draw(configs, kUsualPayloads, bucket, RoutingPattern::distinct, random); };
  const auto first = contents();
  const auto graph = bench.fixed()->capture(inputs_of(first, 16), -1, kUsualPayloads);
  trial.check(graph.has_value(), graph ? "" : graph.error().message);
  for (int round = 0; round < 3; ++round) {
    const auto batches = contents();
    trial.holds(bench.replay(*graph, inputs_of(batches, 16), -1, kUsualPayloads));
    trial.holds(bench.round(inputs_of(batches, 16), -1, &kUsualPayloads));
  }
}

// R is 4 on rank 0 and 2 on rank 1. Rank 1's hidden rows for rank 0 land on rows 2 and 3, and rank 0 looks for them on
// rows 4 and 5, where rank 1's shorter regions put its ids and weights. Nobody writes a byte twice.
void disagreeing(Trial& trial) {
  const std::vector<AllToAllConfig> configs(2, usual_config(2, 8, 8, 1, 2));
  Bench bench = trial.bench(configs, false);
  for (const Capability needed : {Capability::unequal_r, Capability::readable_workspace}) trial.need(bench, needed);
  Random random(5);
  std::vector<TokenBatch> batches = draw(configs, kUsualPayloads, {1, 2}, RoutingPattern::distinct, random);
  // Routing alone is forced: everything to rank 0.
  for (TokenBatch& batch : batches) std::fill(batch.expert_ids().begin(), batch.expert_ids().end(), 0);
  trial.holds(bench.dispatch(std::vector<DispatchInput>{batches[0].input(4), batches[1].input(2)}));
  if (bench.can(Capability::slot_order)) {
    const auto slice = bench.fixed()->read_slice(0);
    trial.check(slice.has_value(), "its slice cannot be read");
    const std::int64_t begin = configs[0].layout().payload_data, row = 16;
    const auto row_is = [&](std::int64_t at, std::span<const std::byte> wanted) {
      trial.check(std::equal(wanted.begin(), wanted.end(), slice->begin() + begin + at * row),
                  fmt::format("row {} of rank 0 holds other bytes", at));
    };
    const std::vector<std::byte> poison(16, std::byte{0xFF});
    row_is(0, batches[0].payload(0));
    row_is(1, poison);
    row_is(2, batches[1].payload(0).first(16));
    row_is(3, batches[1].payload(0).subspan(16));
  }
  trial.check(bench.received(0).counters[1] == 2, "the counter of rank 1 is not 2");
  // Rank 0 is self-consistent and right; rank 1 reads what rank 0 computed from poison.
  trial.holds(bench.sanitize(-1));
  trial.holds(bench.experts(&kUsualPayloads));
  const std::string wrong = bench.combine();
  trial.check(wrong.empty() || !bench.can(Capability::sum_order), wrong);  // what is read is garbage: any order shows
}

}  // namespace

std::span<const Case> beyond_cases() {
  static const Case list[] = {{"unequal and zero tokens, several rounds", unequal_tokens},
                              {"a workspace that just fits, every token to one rank", just_fits},
                              {"64 ranks", most_ranks},
                              {"more than 132 tokens in all", many_tokens, true},
                              {"rounds leave nothing for the next", old_rows},
                              {"NaN, infinity and the largest numbers", special_values},
                              {"replay of a capture equals the eager run", captured},
                              {"ranks that disagree write by their own R and read by their own R", disagreeing}};
  return list;
}

}  // namespace a2asim::conformance
