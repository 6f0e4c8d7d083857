#include "sim/conformance/laws.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/conformance/suite.h"

namespace a2asim::conformance {
namespace {

constexpr std::int32_t kInvalidId = -1;

// The same experts under other names.
class Renaming final : public ExpertNetwork {
 public:
  explicit Renaming(std::vector<std::int32_t> renamed) : renamed_(std::move(renamed)) {}
  std::int32_t renamed(std::int32_t expert) const { return renamed_[static_cast<std::size_t>(expert)]; }
  void forward(std::int64_t expert, std::span<const float> x, std::span<float> y) const override {
    closed_.forward(original(expert), x, y);
  }
  void forward(std::int64_t expert, std::span<const double> x, std::span<double> y) const override {
    closed_.forward(original(expert), x, y);
  }

 private:
  std::int64_t original(std::int64_t expert) const {
    return std::ranges::find(renamed_, static_cast<std::int32_t>(expert)) - renamed_.begin();
  }
  std::vector<std::int32_t> renamed_;
  ClosedFormExperts closed_;
};

// Experts of each rank named in turn: the last becomes the first.
std::vector<std::int32_t> turned_within_ranks(const AllToAllConfig& config) {
  std::vector<std::int32_t> renamed;
  std::int64_t first = 0;
  for (std::int64_t e = 0; e < config.num_experts; ++e) {
    const int rank = owner_of(e, config);
    if (e > 0 && rank != owner_of(e - 1, config)) first = e;
    const bool last = e + 1 == config.num_experts || owner_of(e + 1, config) != rank;
    renamed.push_back(static_cast<std::int32_t>(last ? first : e + 1));
  }
  return renamed;
}

// Where each rank goes: those that own one expert more, and the others, each move on by `steps`.
std::vector<std::size_t> turned_ranks(const AllToAllConfig& config, std::int64_t steps) {
  const std::int64_t larger = config.num_experts % config.ep_size;
  std::vector<std::size_t> places;
  for (std::int64_t rank = 0; rank < config.ep_size; ++rank) {
    const std::int64_t begin = rank < larger ? 0 : larger, count = rank < larger ? larger : config.ep_size - larger;
    places.push_back(static_cast<std::size_t>(begin + (rank - begin + steps) % count));
  }
  return places;
}

// Each expert goes where its rank goes.
std::vector<std::int32_t> moved_with_ranks(const AllToAllConfig& config, const std::vector<std::size_t>& places) {
  std::vector<std::vector<std::int32_t>> owned(places.size());
  for (std::int32_t e = 0; e < config.num_experts; ++e)
    owned[static_cast<std::size_t>(owner_of(e, config))].push_back(e);
  std::vector<std::int32_t> renamed;
  for (std::size_t rank = 0; rank < places.size(); ++rank)
    renamed.insert(renamed.end(), owned[places[rank]].begin(), owned[places[rank]].end());
  return renamed;
}

// Ranks at other places, experts under other names: outputs and receive counters move along, and do not change.
std::string moves_along(const MakeBench& make, const AllToAllConfig& config, const std::vector<Round>& rounds,
                        const std::vector<std::size_t>& places, const Renaming& renaming) {
  const ClosedFormExperts plain;
  Bench before = make(config), after = make(config);
  for (const Round& round : rounds) {
    const std::int64_t runtime_max = largest_count(round);
    std::string wrong = before.round(inputs_of(round, runtime_max), kInvalidId, &kUsualPayloads, &plain);
    if (!wrong.empty()) return "as a network: " + wrong;
    Round moved = round;
    for (std::size_t rank = 0; rank < round.size(); ++rank) {
      Contents& own = moved[places[rank]] = round[rank];
      for (std::int32_t& id : own.ids) id = renaming.renamed(id);
    }
    wrong = after.round(inputs_of(moved, runtime_max), kInvalidId, &kUsualPayloads, &renaming);
    if (!wrong.empty()) return "renamed: " + wrong;
    for (std::size_t rank = 0; rank < round.size(); ++rank) {
      if (before.outputs()[rank] != after.outputs()[places[rank]])
        return fmt::format("the outputs of rank {} change", rank);
      for (std::size_t source = 0; source < round.size(); ++source)
        if (before.received(static_cast<int>(rank)).counters[source] !=
            after.received(static_cast<int>(places[rank])).counters[places[source]])
          return fmt::format("rank {} counts other rows of rank {}", rank, source);
    }
  }
  return "";
}

}  // namespace

DispatchInput Contents::input(std::int64_t runtime_max) const {
  DispatchInput in = batch.input(runtime_max);
  in.token_selected_experts = ids;
  in.payloads.at(in.payloads.size() - 2) = std::as_bytes(std::span(ids));  // before the weights
  return in;
}

std::vector<DispatchInput> inputs_of(const Round& round, std::int64_t runtime_max) {
  std::vector<DispatchInput> all;
  for (const Contents& own : round) all.push_back(own.input(runtime_max));
  return all;
}

std::int64_t largest_count(const Round& round) {
  std::int64_t largest = 1;
  for (const Contents& own : round) largest = std::max(largest, own.batch.tokens());
  return largest;
}

std::string conserves_tokens(const MakeBench& make, const AllToAllConfig& config, const std::vector<Round>& rounds) {
  Bench bench = make(config);
  for (std::size_t i = 0; i < rounds.size(); ++i) {
    const std::string wrong = bench.round(inputs_of(rounds[i], largest_count(rounds[i])), kInvalidId, &kUsualPayloads);
    if (!wrong.empty()) return fmt::format("round {}: {}", i, wrong);
  }
  return "";
}

std::string renaming_experts_changes_nothing(const MakeBench& make, const AllToAllConfig& config,
                                             const std::vector<Round>& rounds) {
  return moves_along(make, config, rounds, turned_ranks(config, 0), Renaming(turned_within_ranks(config)));
}

std::string permuting_ranks_permutes_rows(const MakeBench& make, const AllToAllConfig& config,
                                          const std::vector<Round>& rounds, std::int64_t steps) {
  const std::vector<std::size_t> places = turned_ranks(config, steps);
  return moves_along(make, config, rounds, places, Renaming(moved_with_ranks(config, places)));
}

std::string replay_equals_eager(const MakeBench& make, const AllToAllConfig& config, const std::vector<Round>& captured,
                                const std::vector<Round>& rounds) {
  Bench eager = make(config), graph = make(config);
  for (std::size_t i = 0; i < rounds.size(); ++i) {
    const std::int64_t runtime_max = largest_count(rounds[i]);
    const auto id = graph.fixed()->capture(inputs_of(captured[i], runtime_max), kInvalidId, kUsualPayloads);
    if (!id) return id.error().message;
    const std::vector<DispatchInput> inputs = inputs_of(rounds[i], runtime_max);
    std::string wrong = graph.replay(*id, inputs, kInvalidId, kUsualPayloads);
    if (wrong.empty()) wrong = eager.round(inputs, kInvalidId, &kUsualPayloads);
    if (!wrong.empty()) return fmt::format("round {}: {}", i, wrong);
    if (eager.outputs() != graph.outputs()) return fmt::format("round {}: outputs of the graph differ", i);
  }
  return "";
}

}  // namespace a2asim::conformance
