#include "property_tests/laws_alltoall.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <optional>

#include "sim/alltoall/judge.h"
#include "sim/alltoall/sim_alltoall.h"

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

// Ranges counted out one by one, not by the formula under test.
int owner_of(std::int64_t expert, const AllToAllConfig& config) {
  std::int64_t end = 0;
  for (int rank = 0; rank < config.ep_size; ++rank) {
    end += config.num_experts / config.ep_size + (rank < config.num_experts % config.ep_size ? 1 : 0);
    if (expert < end) return rank;
  }
  return -1;
}

// Tokens that `source` sends to `destination`, in slot order: each once, however many of its experts live there.
std::vector<std::int64_t> sent(const AllToAllConfig& config, const Contents& source, int destination) {
  std::vector<std::int64_t> tokens;
  for (std::int64_t t = 0; t < source.batch.tokens(); ++t) {
    for (int j = 0; j < config.top_k; ++j) {
      if (owner_of(source.ids[static_cast<std::size_t>(t * config.top_k + j)], config) != destination) continue;
      tokens.push_back(t);
      break;
    }
  }
  return tokens;
}

// What dispatch writes into `rank`'s slice, in the order of ranks: each row goes where its SENDER's R says.
void write_rows(const AllToAllConfig& config, const Round& round, int rank,
                const std::vector<std::int64_t>& runtime_max, Slice& slice) {
  for (std::size_t source = 0; source < round.size(); ++source) {
    const DispatchInput in = round[source].input(runtime_max[source]);
    const std::vector<std::int64_t> tokens = sent(config, round[source], rank);
    std::int64_t region = config.layout().payload_data;
    for (std::size_t p = 0; p < config.payload_bytes_per_token.size(); ++p) {
      const std::int64_t bytes = config.payload_bytes_per_token[p];
      std::int64_t at = region + static_cast<std::int64_t>(source) * runtime_max[source] * bytes;
      for (const std::int64_t token : tokens) {
        std::memcpy(slice.data() + at, in.payloads[p].data() + token * bytes, static_cast<std::size_t>(bytes));
        at += bytes;
      }
      region += config.ep_size * runtime_max[source] * bytes;
    }
  }
}

// What a slice must hold: the payload and combine regions of the round, written by plain loops over `slice`.
class Expected {
 public:
  Expected(const AllToAllConfig& config, const Round& round, int rank, std::int64_t runtime_max)
      : config_(config), runtime_max_(runtime_max) {
    regions_.push_back(config.layout().payload_data);
    for (const std::int64_t bytes : config.payload_bytes_per_token)
      regions_.push_back(regions_.back() + config.ep_size * runtime_max * bytes);
    combine_ = regions_.back();
    while (combine_ % 128 != 0) ++combine_;
    for (int source = 0; source < config.ep_size; ++source)
      tokens_.push_back(sent(config, round[static_cast<std::size_t>(source)], rank));
  }

  void sanitize(Slice& slice) const {
    for (int source = 0; source < config_.ep_size; ++source)
      for (std::size_t slot = of(source).size(); slot < static_cast<std::size_t>(runtime_max_); ++slot)
        for (int k = 0; k < config_.top_k; ++k)
          std::memcpy(row(slice, source, slot, 1) + 4 * k, &kInvalidId, sizeof kInvalidId);
  }
  // Which byte of the combine region a rank may write.
  bool may_compute(std::int64_t at) const {
    const std::int64_t index = (at - combine_) / config_.combine_bytes_per_token();
    if (at < combine_ || index >= config_.ep_size * runtime_max_) return false;
    return index % runtime_max_ < static_cast<std::int64_t>(of(static_cast<int>(index / runtime_max_)).size());
  }
  const std::vector<std::int64_t>& of(int source) const { return tokens_[static_cast<std::size_t>(source)]; }

 private:
  std::byte* row(Slice& slice, int source, std::size_t slot, std::size_t payload) const {
    const std::int64_t index = source * runtime_max_ + static_cast<std::int64_t>(slot);
    return slice.data() + regions_[payload] + index * config_.payload_bytes_per_token[payload];
  }

  const AllToAllConfig& config_;
  std::int64_t runtime_max_;
  std::int64_t combine_ = 0;
  std::vector<std::int64_t> regions_;
  std::vector<std::vector<std::int64_t>> tokens_;
};

struct Bench {
  std::unique_ptr<SimAllToAll> sim;
  std::vector<std::vector<std::byte>> outputs;

  explicit Bench(const AllToAllConfig& config) {
    auto made = SimAllToAll::create(std::vector<AllToAllConfig>(static_cast<std::size_t>(config.ep_size), config), {});
    A2ASIM_INVARIANT(made.has_value(), "a drawn configuration is valid");
    sim = std::move(*made);
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
};

// The payload part: counters and flags before it are compared by number.
std::string compare(const AllToAllConfig& config, const Slice& wanted, const Slice& found, int rank,
                    std::string_view after) {
  for (std::size_t at = static_cast<std::size_t>(config.layout().payload_data); at < wanted.size(); ++at)
    if (wanted[at] != found[at])
      return fmt::format("after {}: byte {} of rank {} is not what was sent", after, at, rank);
  return "";
}

std::string judge_slices(const AllToAllConfig& config, const Round& round, std::int64_t runtime_max, Bench& bench) {
  const std::vector<Slice> before = bench.slices();
  if (auto ok = bench.sim->dispatch(bench.inputs(round, runtime_max)); !ok) return ok.error().message;
  const std::vector<Slice> dispatched = bench.slices();
  if (auto ok = bench.sim->sanitize(kInvalidId); !ok) return ok.error().message;
  const std::vector<Slice> sanitized = bench.slices();
  if (auto ok = bench.sim->experts(kPayloads); !ok) return ok.error().message;
  const std::vector<Slice> computed = bench.slices();
  for (int rank = 0; rank < config.ep_size; ++rank) {
    const auto at = static_cast<std::size_t>(rank);
    const Expected expected(config, round, rank, runtime_max);
    if (static_cast<std::int64_t>(before[at].size()) != config.workspace_bytes())
      return "the workspace has another size";
    for (int source = 0; source < config.ep_size; ++source)
      if (bench.sim->recv_counter(rank, source) != static_cast<std::int64_t>(expected.of(source).size()))
        return fmt::format("rank {} counts {} rows of rank {}, not {}", rank, bench.sim->recv_counter(rank, source),
                           source, expected.of(source).size());
    Slice wanted = before[at];
    write_rows(config, round, rank, std::vector<std::int64_t>(round.size(), runtime_max), wanted);
    if (std::string wrong = compare(config, wanted, dispatched[at], rank, "dispatch"); !wrong.empty()) return wrong;
    expected.sanitize(wanted);
    if (std::string wrong = compare(config, wanted, sanitized[at], rank, "sanitize"); !wrong.empty()) return wrong;
    for (std::int64_t i = 0; i < static_cast<std::int64_t>(wanted.size()); ++i)
      if (expected.may_compute(i)) wanted[static_cast<std::size_t>(i)] = computed[at][static_cast<std::size_t>(i)];
    if (std::string wrong = compare(config, wanted, computed[at], rank, "experts"); !wrong.empty()) return wrong;
  }
  return "";
}

std::string judge_combine(const AllToAllConfig& config, const Round& round, const Bench& bench) {
  for (std::size_t rank = 0; rank < round.size(); ++rank) {
    const auto wanted = reference_alltoall(config, round[rank].batch.tokens(), round[rank].ids,
                                           round[rank].batch.weights(), round[rank].batch.payload(0));
    if (!wanted) return wanted.error().message;
    if (*wanted != bench.outputs[rank]) return fmt::format("combine: rank {} has other outputs than the oracle", rank);
  }
  return "";
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
std::string moves_along(const Scenario& world, const AllToAllConfig& config, const std::vector<std::size_t>& places,
                        const Renaming& renaming) {
  const ClosedFormExperts plain;
  Bench before(config), after(config);
  before.sim->use_network(&plain);
  after.sim->use_network(&renaming);
  for (const Round& round : rounds_of(world, config)) {
    const std::int64_t runtime_max = largest_count(round);
    if (auto ok = before.run(round, runtime_max); !ok) return ok.error().message;
    if (std::string wrong = judge_combine(config, round, before); !wrong.empty()) return "as a network: " + wrong;
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
    const std::int64_t runtime_max = largest_count(rounds[i]);
    std::string wrong = judge_slices(config, rounds[i], runtime_max, bench);
    if (!wrong.empty()) return fmt::format("round {}: {}", i, wrong);
    const std::vector<std::int64_t> all(rounds[i].size(), runtime_max);
    if (auto ok = bench.sim->combine(all, bench.outputs); !ok) return ok.error().message;
    wrong = judge_combine(config, rounds[i], bench);
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
    std::vector<Slice> wanted = bench.slices();
    if (auto ok = bench.sim->dispatch(inputs); !ok) return ok.error().message;
    const std::vector<Slice> found = bench.slices();
    for (int rank = 0; rank < config.ep_size; ++rank) {
      Slice& own = wanted[static_cast<std::size_t>(rank)];
      write_rows(config, round, rank, runtime_max, own);
      if (std::string wrong = compare(config, own, found[static_cast<std::size_t>(rank)], rank, "dispatch");
          !wrong.empty())
        return wrong;
    }
    if (auto ok = bench.sim->combine(runtime_max, bench.outputs); !ok) return ok.error().message;
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
    waiting.sim->set_absent(last ? std::uint64_t{1} << gone : 0);
    masked.sim->set_absent(last ? std::uint64_t{1} << gone : 0);
    if (last) masked.sim->clear_findings();
    if (last) masked.sim->set_active_rank_mask(~(std::uint64_t{1} << gone));
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
