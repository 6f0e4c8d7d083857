#include "property_tests/laws_alltoall.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>

#include "sim/conformance/suite.h"

namespace a2asim::props {

namespace {

using conformance::inputs_of;
using conformance::largest_count;
constexpr ExpertPayloads kPayloads = conformance::kUsualPayloads;
constexpr std::int32_t kInvalidId = -1;

conformance::MakeBench benches(const Product& product) {
  return [&product](const AllToAllConfig& config) {
    return conformance::Bench(std::vector(static_cast<std::size_t>(config.ep_size), config), product.alltoall(config));
  };
}

// A round on the simulator alone.
Result<void> run(SimAllToAll& sim, const Round& round, conformance::Outputs& outputs,
                 const ExpertPayloads& payloads = kPayloads) {
  const std::int64_t runtime_max = largest_count(round);
  auto ok = sim.dispatch(inputs_of(round, runtime_max));
  if (ok) ok = sim.sanitize(kInvalidId);
  if (ok) ok = sim.experts(payloads);
  return ok ? sim.combine(std::vector<std::int64_t>(round.size(), runtime_max), outputs) : ok;
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

// Hidden states in a format that follows from the world, in as many elements as take whole blocks.
ExpertPayloads draw_format(const Scenario& world, AllToAllConfig& config) {
  const auto drawn = world.seed + static_cast<std::uint64_t>(world.model.top_k + world.model.num_experts);
  const auto type = static_cast<DispatchType>(drawn % 3);
  config.hidden_size = align_up(config.hidden_size, block_elements(type));
  const TokenPayloads payloads =
      token_payloads(type, config.hidden_size, config.top_k, element_bytes(config.combine_type));
  config.payload_bytes_per_token = payloads.bytes;
  config.expert_id_payload = payloads.id_payload;
  return payloads.experts;
}

Round round_of(const Scenario& world, const AllToAllConfig& config, const Step& step, Random& random,
               const ExpertPayloads& payloads = kPayloads) {
  const RoutingPattern pattern = world.routing.kind == Routing::Kind::uniform    ? RoutingPattern::distinct
                                 : world.routing.kind == Routing::Kind::hot_rank ? RoutingPattern::one_rank
                                                                                 : RoutingPattern::with_repeats;
  Round round;
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(config.ep_size); ++rank) {
    TokenBatch batch(config, payloads, step.tokens[rank % step.tokens.size()], pattern, random);
    std::vector<std::int32_t> ids = batch.expert_ids();
    round.push_back({std::move(batch), std::move(ids)});
  }
  return round;
}

std::vector<Round> rounds_of(const Scenario& world, const AllToAllConfig& config,
                             const ExpertPayloads& payloads = kPayloads) {
  Random random(world.seed);
  std::vector<Round> rounds;
  for (const Step& step : world.steps) rounds.push_back(round_of(world, config, step, random, payloads));
  return rounds;
}

}  // namespace

std::string judge_rounds(const Product& product, const AllToAllConfig& config, const std::vector<Round>& rounds) {
  return conformance::conserves_tokens(benches(product), config, rounds);
}

std::string conserves_tokens(const Scenario& world, Trial& trial) {
  const AllToAllConfig config = config_of(world);
  if (config.num_experts % config.ep_size != 0) ++trial.marks["rows to experts with a remainder"];
  return judge_rounds(trial.bench.product(), config, rounds_of(world, config));
}

std::string unequal_sizes_go_where_the_sender_says(const Scenario& world, Trial& trial) {
  AllToAllConfig config = config_of(world);
  const ExpertPayloads payloads = draw_format(world, config);
  config.max_num_tokens += 3;
  Random random(world.seed + 2);
  conformance::Bench bench = benches(trial.bench.product())(config);
  for (const Round& round : rounds_of(world, config, payloads)) {
    std::vector<DispatchInput> inputs;
    for (const Contents& own : round)
      inputs.push_back(own.input(std::max<std::int64_t>(own.batch.tokens() + random.between(0, 3), 1)));
    if (std::string wrong = bench.round(inputs, kInvalidId, &payloads); !wrong.empty()) return wrong;
  }
  return "";
}

std::string renaming_experts_changes_nothing(const Scenario& world, Trial& trial) {
  const AllToAllConfig config = config_of(world);
  const auto make = benches(trial.bench.product());
  return conformance::renaming_experts_changes_nothing(make, config, rounds_of(world, config));
}

std::string permuting_ranks_permutes_rows(const Scenario& world, Trial& trial) {
  const AllToAllConfig config = config_of(world);
  return conformance::permuting_ranks_permutes_rows(benches(trial.bench.product()), config, rounds_of(world, config),
                                                    1 + static_cast<std::int64_t>(world.seed % 7));
}

// The judge of outputs: right ones pass; one row of NaN, and one number that is off, are each one bad token of their
// kind.
std::string judge_sees_what_is_wrong(const Scenario& world, Trial& trial) {
  AllToAllConfig config = config_of(world);
  const ExpertPayloads payloads = draw_format(world, config);
  const Round round = rounds_of(world, config, payloads).back();
  const auto sim = Product().simulator(config);
  conformance::Outputs outputs;
  if (auto ok = run(*sim, round, outputs, payloads); !ok) return ok.error().message;
  for (std::size_t rank = 0; rank < round.size(); ++rank) {
    std::vector<std::byte>& output = outputs[rank];
    const auto oracle = round[rank].batch.reference(config, payloads, ClosedFormExperts());
    if (!oracle) return oracle.error().message;
    const auto judge = [&](std::optional<FindingKind> wanted) {
      FindingLog log(4);
      const auto bad = trial.bench.product().judge_output(config.combine_type, output, *oracle, config.hidden_size,
                                                          Tolerance::one_rounding, {}, log);
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
std::string missing_ranks_are_named(const Scenario& world, Trial& trial) {
  const AllToAllConfig config = config_of(world);
  if (config.ep_size < 2) return "";
  const std::vector<Round> rounds = rounds_of(world, config);
  const int gone = static_cast<int>(world.seed) % config.ep_size;
  const auto& simulator = trial.bench.product().simulator;
  const auto waiting = simulator(config), masked = simulator(config);
  conformance::Outputs outputs;
  for (std::size_t i = 0; i < rounds.size(); ++i) {
    const bool last = i + 1 == rounds.size();
    waiting->set_absent(last ? RankMask::of(gone) : RankMask{});
    masked->set_absent(last ? RankMask::of(gone) : RankMask{});
    if (last) masked->clear_findings();
    if (last) masked->set_active_rank_mask(RankMask::everybody() - RankMask::of(gone));
    const auto stuck = run(*waiting, rounds[i], outputs);
    if (stuck.has_value() == last) return last ? "nobody waits for an absent rank" : stuck.error().message;
    if (last && stuck.error().message.find(fmt::format("waits for rank {}", gone)) == std::string::npos)
      return "it is not said who is waited for: " + stuck.error().message;
    if (auto ok = run(*masked, rounds[i], outputs); !ok) return "a masked rank is waited for: " + ok.error().message;
  }
  for (int rank = 0; rank < config.ep_size; ++rank)
    if (rounds.size() == 1 && masked->recv_counter(gone, rank) != 0) return "a masked rank is sent tokens";
  // The receive counter of a masked source keeps its value of the round before, so that experts take old bytes for its
  // rows (FlashInfer does not refresh it): ids among them may be anything.
  const auto by_old_counter = [&](const Finding& found) {
    return rounds.size() > 1 && found.kind == FindingKind::expert_id_out_of_range;
  };
  for (const Finding& found : masked->findings())
    if (found.severity == Severity::error && !by_old_counter(found))
      return "a round with a masked rank: " + describe(found);
  return outputs[static_cast<std::size_t>(gone)].empty() ? "" : "a masked rank has outputs";
}

std::string replay_equals_eager(const Scenario& world, Trial& trial) {
  const AllToAllConfig config = config_of(world);
  Random other(world.seed + 1);
  std::vector<Round> captured;
  for (const Step& step : world.steps) captured.push_back(round_of(world, config, step, other));
  return conformance::replay_equals_eager(benches(trial.bench.product()), config, captured, rounds_of(world, config));
}

}  // namespace a2asim::props
