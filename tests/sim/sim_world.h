// A small cluster with contents, for tests of the simulated all-to-all.
#pragma once

#include "sim/alltoall/sim_alltoall.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "sim/alltoall/batch_data.h"
#include "sim/alltoall/judge.h"

namespace a2asim::test {

inline const ExpertPayloads kPayloads{0, 2};

inline AllToAllConfig config_of(int ep_size, std::int64_t max_num_tokens, std::int64_t hidden = 8, int top_k = 1) {
  AllToAllConfig config;
  config.ep_size = ep_size;
  config.top_k = top_k;
  config.num_experts = 2 * ep_size;
  config.max_num_tokens = max_num_tokens;
  config.hidden_size = hidden;
  config.payload_bytes_per_token = {2 * hidden, 4 * top_k, 4 * top_k};
  return config;
}

// A cluster with contents; `to` >= 0 sends every token to the first expert of that rank.
struct World {
  std::vector<AllToAllConfig> configs;
  std::unique_ptr<SimAllToAll> sim;
  std::vector<TokenBatch> batches;
  std::vector<std::vector<std::byte>> outputs;
  Random random{11};
  ExpertPayloads payloads = kPayloads;

  explicit World(std::vector<AllToAllConfig> ranks, SimOptions options = {}) : configs(std::move(ranks)) {
    auto made = SimAllToAll::create(configs, options);
    REQUIRE(made.has_value());
    sim = std::move(*made);
  }

  void draw(const std::vector<std::int64_t>& tokens, int to = -1) {
    batches.clear();
    for (std::size_t r = 0; r < configs.size(); ++r) {
      batches.emplace_back(configs[r], payloads, tokens[r], RoutingPattern::with_repeats, random);
      if (to >= 0) std::fill(batches[r].expert_ids().begin(), batches[r].expert_ids().end(), 2 * to);
    }
  }
  std::vector<DispatchInput> inputs(const std::vector<std::int64_t>& runtime_max) const {
    std::vector<DispatchInput> list;
    for (std::size_t r = 0; r < batches.size(); ++r) list.push_back(batches[r].input(runtime_max[r]));
    return list;
  }
  Result<void> round(const std::vector<std::int64_t>& runtime_max) {
    if (auto ok = sim->dispatch(inputs(runtime_max)); !ok) return ok;
    if (auto ok = sim->sanitize(-1); !ok) return ok;
    if (auto ok = sim->experts(payloads); !ok) return ok;
    return sim->combine(runtime_max, outputs);
  }
  // Tokens whose output differs from the oracle, per rank, by their findings.
  FindingLog judge() const {
    FindingLog log(1 << 20);
    for (std::size_t r = 0; r < configs.size(); ++r) {
      const auto oracle = batches[r].reference(configs[r], payloads, ClosedFormExperts());
      REQUIRE(oracle.has_value());
      Finding where;
      where.rank = static_cast<int>(r);
      REQUIRE(judge_output(configs[r].combine_type, outputs[r], *oracle, configs[r].hidden_size,
                           Tolerance::one_rounding, where, log)
                  .has_value());
    }
    return log;
  }
};

inline std::int64_t count(const World& world, FindingKind kind) { return world.sim->log().count_of(kind); }

// The first finding of a kind whose row is of this payload.
inline const Finding* find_row(const World& world, FindingKind kind, int payload) {
  for (const Finding& finding : world.sim->findings()) {
    if (finding.kind == kind && finding.row && finding.row->payload == payload) return &finding;
  }
  return nullptr;
}

inline const Finding* find(const World& world, FindingKind kind) {
  for (const Finding& finding : world.sim->findings()) {
    if (finding.kind == kind) return &finding;
  }
  return nullptr;
}

}  // namespace a2asim::test
