#include "property_tests/laws_alltoall.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "sim/alltoall/judge.h"
#include "sim/alltoall/sim_alltoall.h"
#include "tests/oracle/oracle.h"

namespace a2asim::props {

DispatchInput Contents::input(std::int64_t runtime_max) const {
  DispatchInput in = batch.input(runtime_max);
  in.token_selected_experts = ids;
  in.payloads[1] = std::as_bytes(std::span(ids));
  return in;
}

namespace {

using Slice = std::vector<std::byte>;
constexpr ExpertPayloads kPayloads{.hidden_payload = 0, .weight_payload = 2};
constexpr std::int32_t kInvalidId = -1;

std::int64_t largest_count(const Round& round) {
  std::int64_t largest = 1;
  for (const Contents& own : round) largest = std::max(largest, own.batch.tokens());
  return largest;
}

std::vector<AllToAllConfig> for_all_ranks(const AllToAllConfig& config) {
  return std::vector<AllToAllConfig>(static_cast<std::size_t>(config.ep_size), config);
}

// The all-to-all under test and the oracle, whose calls a law makes too where it compares.
struct Bench {
  std::unique_ptr<SimAllToAll> sim;
  std::vector<std::vector<std::byte>> outputs;
  test::Oracle oracle;

  explicit Bench(const AllToAllConfig& config) : oracle(for_all_ranks(config)) {
    auto made = SimAllToAll::create(for_all_ranks(config), {});
    A2ASIM_INVARIANT(made.has_value(), "a drawn configuration is valid");
    sim = std::move(*made);
    oracle.poison(std::byte{0xFF});
  }
  std::vector<DispatchInput> inputs(const Round& round, std::int64_t runtime_max) const {
    std::vector<DispatchInput> all;
    for (const Contents& own : round) all.push_back(own.input(runtime_max));
    return all;
  }
  Result<void> run(const Round& round, std::int64_t runtime_max) {
    if (auto ok = sim->dispatch(inputs(round, runtime_max)); !ok) return ok;
    if (auto ok = sim->sanitize(kInvalidId); !ok) return ok;
    if (auto ok = sim->experts(kPayloads); !ok) return ok;
    return sim->combine(std::vector<std::int64_t>(round.size(), runtime_max), outputs);
  }
  std::vector<Slice> slices() const {
    std::vector<Slice> all;
    for (const int rank : sim->local_ranks()) all.push_back(*sim->read_slice(rank));
    return all;
  }
  // "" or the first difference to the oracle.
  std::string compare_slices(std::string_view after) const {
    for (const int rank : sim->local_ranks()) {
      const std::string found = test::difference(*sim->read_slice(rank), oracle.slice(rank));
      if (!found.empty()) return fmt::format("after {}: the slice of rank {}: {}", after, rank, found);
    }
    return "";
  }
  std::string compare_outputs() const {
    for (const int rank : sim->local_ranks()) {
      if (outputs[static_cast<std::size_t>(rank)] != oracle.output(rank))
        return fmt::format("combine: rank {} has other outputs than the oracle", rank);
    }
    return "";
  }
};

std::string judge_round(const AllToAllConfig& config, const Round& round, Bench& bench) {
  const std::int64_t runtime_max = largest_count(round);
  const std::vector<DispatchInput> inputs = bench.inputs(round, runtime_max);
  for (int rank = 0; rank < config.ep_size; ++rank)
    if (std::ssize(*bench.sim->read_slice(rank)) != config.workspace_bytes()) return "the workspace has another size";
  if (auto ok = bench.sim->dispatch(inputs); !ok) return ok.error().message;
  bench.oracle.dispatch(inputs);
  if (std::string wrong = bench.compare_slices("dispatch"); !wrong.empty()) return wrong;
  for (int rank = 0; rank < config.ep_size; ++rank)
    for (int source = 0; source < config.ep_size; ++source)
      if (bench.sim->recv_counter(rank, source) != bench.oracle.received(rank, source))
        return fmt::format("rank {} counts {} rows of rank {}, not {}", rank, bench.sim->recv_counter(rank, source),
                           source, bench.oracle.received(rank, source));
  if (auto ok = bench.sim->sanitize(kInvalidId); !ok) return ok.error().message;
  bench.oracle.sanitize(kInvalidId);
  if (std::string wrong = bench.compare_slices("sanitize"); !wrong.empty()) return wrong;
  if (auto ok = bench.sim->experts(kPayloads); !ok) return ok.error().message;
  bench.oracle.experts(kPayloads);
  if (std::string wrong = bench.compare_slices("experts"); !wrong.empty()) return wrong;
  const std::vector<std::int64_t> all(round.size(), runtime_max);
  if (auto ok = bench.sim->combine(all, bench.outputs); !ok) return ok.error().message;
  bench.oracle.combine(all);
  return bench.compare_outputs();
}

AllToAllConfig config_of(const Scenario& world) {
  AllToAllConfig config;
  config.ep_size = static_cast<int>(world.parallel->world_size());
  config.top_k = static_cast<int>(world.model.top_k);
  config.num_experts = world.model.num_experts;
  config.hidden_size = world.model.hidden_size;
  config.combine_type = world.model.dtype;
  config.max_num_tokens = 1;
  for (const Step& step : world.steps)
    config.max_num_tokens = std::max(config.max_num_tokens, *std::ranges::max_element(step.tokens));
  config.payload_bytes_per_token = {config.combine_bytes_per_token(), 4 * config.top_k, 4 * config.top_k};
  return config;
}

Round round_of(const Scenario& world, const AllToAllConfig& config, const Step& step, Random& random) {
  const RoutingPattern pattern = world.routing.kind == Routing::Kind::uniform    ? RoutingPattern::distinct
                                 : world.routing.kind == Routing::Kind::hot_rank ? RoutingPattern::one_rank
                                                                                 : RoutingPattern::with_repeats;
  Round round;
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(config.ep_size); ++rank) {
    TokenBatch batch(config, kPayloads, step.tokens[rank % step.tokens.size()], pattern, random);
    std::vector<std::int32_t> ids = batch.expert_ids();
    round.push_back({std::move(batch), std::move(ids)});
  }
  return round;
}

std::vector<Round> rounds_of(const Scenario& world, const AllToAllConfig& config) {
  Random random(world.seed);
  std::vector<Round> rounds;
  for (const Step& step : world.steps) rounds.push_back(round_of(world, config, step, random));
  return rounds;
}

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
    const int rank = test::owner_of(e, config);
    if (e > 0 && rank != test::owner_of(e - 1, config)) first = e;
    const bool last = e + 1 == config.num_experts || test::owner_of(e + 1, config) != rank;
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
    owned[static_cast<std::size_t>(test::owner_of(e, config))].push_back(e);
  std::vector<std::int32_t> renamed;
  for (std::size_t rank = 0; rank < places.size(); ++rank)
    renamed.insert(renamed.end(), owned[places[rank]].begin(), owned[places[rank]].end());
  return renamed;
}

// Ranks at other places, experts under other names: outputs and receive counters move along, and do not change.
std::string moves_along(const Scenario& world, const AllToAllConfig& config, const std::vector<std::size_t>& places,
                        const Renaming& renaming) {
  const ClosedFormExperts plain;
  Bench before(config), after(config);
  before.sim->use_network(&plain);
  after.sim->use_network(&renaming);
  for (const Round& round : rounds_of(world, config)) {
    const std::int64_t runtime_max = largest_count(round);
    if (auto ok = before.run(round, runtime_max); !ok) return ok.error().message;
    before.oracle.round(before.inputs(round, runtime_max), kInvalidId, kPayloads);
    if (std::string wrong = before.compare_outputs(); !wrong.empty()) return "as a network: " + wrong;
    Round moved = round;
    for (std::size_t rank = 0; rank < round.size(); ++rank) {
      Contents& own = moved[places[rank]] = round[rank];
      for (std::int32_t& id : own.ids) id = renaming.renamed(id);
    }
    if (auto ok = after.run(moved, runtime_max); !ok) return ok.error().message;
    for (std::size_t rank = 0; rank < round.size(); ++rank) {
      if (before.outputs[rank] != after.outputs[places[rank]])
        return fmt::format("the outputs of rank {} change", rank);
      for (std::size_t source = 0; source < round.size(); ++source)
        if (before.sim->recv_counter(static_cast<int>(rank), static_cast<int>(source)) !=
            after.sim->recv_counter(static_cast<int>(places[rank]), static_cast<int>(places[source])))
          return fmt::format("rank {} counts other rows of rank {}", rank, source);
    }
  }
  return "";
}

}  // namespace

std::string judge_rounds(const AllToAllConfig& config, const std::vector<Round>& rounds) {
  Bench bench(config);
  for (std::size_t i = 0; i < rounds.size(); ++i) {
    const std::string wrong = judge_round(config, rounds[i], bench);
    if (!wrong.empty()) return fmt::format("round {}: {}", i, wrong);
    if (!bench.sim->guards_intact()) return "a write beside a slice";
  }
  return "";
}

std::string conserves_tokens(const Scenario& world, Trial& trial) {
  const AllToAllConfig config = config_of(world);
  if (config.num_experts % config.ep_size != 0) ++trial.marks["rows to experts with a remainder"];
  return judge_rounds(config, rounds_of(world, config));
}

std::string unequal_sizes_go_where_the_sender_says(const Scenario& world, Trial&) {
  AllToAllConfig config = config_of(world);
  config.max_num_tokens += 3;
  Random random(world.seed + 2);
  Bench bench(config);
  for (const Round& round : rounds_of(world, config)) {
    std::vector<std::int64_t> runtime_max;
    std::vector<DispatchInput> inputs;
    for (const Contents& own : round) {
      runtime_max.push_back(std::max<std::int64_t>(own.batch.tokens() + random.between(0, 3), 1));
      inputs.push_back(own.input(runtime_max.back()));
    }
    if (auto ok = bench.sim->dispatch(inputs); !ok) return ok.error().message;
    bench.oracle.dispatch(inputs);
    if (std::string wrong = bench.compare_slices("dispatch"); !wrong.empty()) return wrong;
    if (auto ok = bench.sim->combine(runtime_max, bench.outputs); !ok) return ok.error().message;
    bench.oracle.combine(runtime_max);
  }
  return "";
}

std::string renaming_experts_changes_nothing(const Scenario& world, Trial&) {
  const AllToAllConfig config = config_of(world);
  return moves_along(world, config, turned_ranks(config, 0), Renaming(turned_within_ranks(config)));
}

std::string permuting_ranks_permutes_rows(const Scenario& world, Trial&) {
  const AllToAllConfig config = config_of(world);
  const std::vector<std::size_t> places = turned_ranks(config, 1 + static_cast<std::int64_t>(world.seed % 7));
  return moves_along(world, config, places, Renaming(moved_with_ranks(config, places)));
}

// The judge of outputs: right ones pass; one row of NaN, and one number that is off, are each one bad token of their
// kind.
std::string judge_sees_what_is_wrong(const Scenario& world, Trial&) {
  const AllToAllConfig config = config_of(world);
  const Round round = rounds_of(world, config).back();
  Bench bench(config);
  if (auto ok = bench.run(round, largest_count(round)); !ok) return ok.error().message;
  for (std::size_t rank = 0; rank < round.size(); ++rank) {
    std::vector<std::byte>& output = bench.outputs[rank];
    const auto oracle = round[rank].batch.reference(config, kPayloads, ClosedFormExperts());
    if (!oracle) return oracle.error().message;
    const auto judge = [&](std::optional<FindingKind> wanted) {
      FindingLog log(4);
      const auto bad =
          judge_output(config.combine_type, output, *oracle, config.hidden_size, Tolerance::one_rounding, {}, log);
      return bad && *bad == (wanted ? 1 : 0) && (!wanted || log.count_of(*wanted) == 1);
    };
    if (!judge(std::nullopt)) return fmt::format("right outputs of rank {} are called wrong", rank);
    if (output.empty()) continue;
    const std::int64_t row = config.combine_bytes_per_token();
    const auto at = static_cast<std::size_t>(static_cast<std::int64_t>(world.seed) % round[rank].batch.tokens() * row);
    const std::vector<std::byte> right = output;
    std::fill_n(output.begin() + static_cast<std::ptrdiff_t>(at), row, std::byte{0xFF});
    if (!judge(FindingKind::nan_output)) return fmt::format("NaN in the outputs of rank {} is not seen", rank);
    output = right;
    // The byte with sign and exponent: far above every sum, in each type.
    output[at + static_cast<std::size_t>(element_bytes(config.combine_type)) - 1] = std::byte{0x5B};
    if (!judge(FindingKind::wrong_output))
      return fmt::format("a wrong number in the outputs of rank {} is not seen", rank);
  }
  return "";
}

// In the last round rank `gone` makes no call; before it all do.
std::string missing_ranks_are_named(const Scenario& world, Trial&) {
  const AllToAllConfig config = config_of(world);
  if (config.ep_size < 2) return "";
  const std::vector<Round> rounds = rounds_of(world, config);
  const int gone = static_cast<int>(world.seed) % config.ep_size;
  Bench waiting(config), masked(config);
  for (std::size_t i = 0; i < rounds.size(); ++i) {
    const bool last = i + 1 == rounds.size();
    const std::int64_t runtime_max = largest_count(rounds[i]);
    waiting.sim->set_absent(last ? RankMask::of(gone) : RankMask{});
    masked.sim->set_absent(last ? RankMask::of(gone) : RankMask{});
    if (last) masked.sim->clear_findings();
    if (last) masked.sim->set_active_rank_mask(RankMask::everybody() - RankMask::of(gone));
    const auto stuck = waiting.run(rounds[i], runtime_max);
    if (stuck.has_value() == last) return last ? "nobody waits for an absent rank" : stuck.error().message;
    if (last && stuck.error().message.find(fmt::format("waits for rank {}", gone)) == std::string::npos)
      return "it is not said who is waited for: " + stuck.error().message;
    if (auto ok = masked.run(rounds[i], runtime_max); !ok) return "a masked rank is waited for: " + ok.error().message;
  }
  for (int rank = 0; rank < config.ep_size; ++rank)
    if (rounds.size() == 1 && masked.sim->recv_counter(gone, rank) != 0) return "a masked rank is sent tokens";
  // The receive counter of a masked source keeps its value of the round before, so that experts take old bytes for its
  // rows (FlashInfer does not refresh it): ids among them may be anything.
  const auto by_old_counter = [&](const Finding& found) {
    return rounds.size() > 1 && found.kind == FindingKind::expert_id_out_of_range;
  };
  for (const Finding& found : masked.sim->findings())
    if (found.severity == Severity::error && !by_old_counter(found))
      return "a round with a masked rank: " + describe(found);
  return masked.outputs[static_cast<std::size_t>(gone)].empty() ? "" : "a masked rank has outputs";
}

std::string replay_equals_eager(const Scenario& world, Trial&) {
  const AllToAllConfig config = config_of(world);
  Bench eager(config), graph(config);
  Random other(world.seed + 1);
  for (std::size_t i = 0; i < world.steps.size(); ++i) {
    const Round captured = round_of(world, config, world.steps[i], other);
    const Round round = rounds_of(world, config)[i];
    const std::int64_t runtime_max = largest_count(round);
    const auto id = graph.sim->capture(graph.inputs(captured, runtime_max), kInvalidId, kPayloads);
    if (!id) return id.error().message;
    // R of the inputs is not looked at: it is baked.
    const std::vector<GraphId> ids(round.size(), *id);
    if (auto ok = graph.sim->replay(ids, graph.inputs(round, 0), graph.outputs); !ok) return ok.error().message;
    if (auto ok = eager.run(round, runtime_max); !ok) return ok.error().message;
    if (eager.outputs != graph.outputs) return fmt::format("round {}: outputs of the graph differ", i);
    if (eager.slices() != graph.slices()) return fmt::format("round {}: the graph leaves other bytes", i);
  }
  return "";
}

}  // namespace a2asim::props
