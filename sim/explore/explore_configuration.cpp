#include "sim/explore/explore_configuration.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/base/check_invariant.h"
#include "model/check/check_explain.h"
#include "model/check/finding_info.h"
#include "sim/scenario/scenario_writer.h"

namespace a2asim {
namespace {

std::size_t index_of(Phase phase) {
  return static_cast<std::size_t>(std::ranges::find(kExplorePhases, phase) - kExplorePhases.begin());
}

Step step_of(std::span<const RankBatch> batches) {
  A2ASIM_INVARIANT(!batches.empty(), "a step has batches");
  Step step;
  bool same = true;
  std::optional<ForwardMode> first;
  for (const RankBatch& batch : batches) {
    step.tokens.push_back(batch.count);
    step.mode.push_back(batch.mode);
    if (batch.count == 0) continue;
    same = same && (!first || *first == batch.mode);
    first = batch.mode;
  }
  if (same && first) step.mode = {*first};
  return step;
}

std::string first_error(std::span<const RankDecision> decisions) {
  for (const RankDecision& decision : decisions)
    if (decision.raised) return fmt::format("{}: {}", name(decision.raised->kind), decision.raised->message);
  return {};
}

CheckFinding explain(const Deployment& deployment, const TroubledBatch& batch, ExploreOutcome outcome,
                     std::int64_t needed) {
  A2ASIM_INVARIANT(!batch.decisions.empty(), "a batch was decided");
  std::int64_t r = 0, rows = 0;
  for (const RankDecision& decision : batch.decisions) {
    r = std::max(r, decision.sizing.runtime_max_tokens_per_rank);
    rows = std::max(rows, sent_rows(decision));
  }
  switch (outcome) {
    case ExploreOutcome::disagrees:
      return explain_disagreement(deployment, batch);
    case ExploreOutcome::overflow: {
      CheckFinding finding = explain_silent_overflow(deployment, batch, needed);
      finding.kind = FindingKind::receive_overflow;
      return finding;
    }
    case ExploreOutcome::over_cap:
      return explain_over_capacity(deployment, batch, needed);
    case ExploreOutcome::refused: {
      CheckFinding finding = explain_every_forward(deployment, batch);
      finding.phase = batch.phase;
      finding.message = "every rank refuses this batch: " + first_error(batch.decisions);
      finding.consequence = finding_info(finding.kind).on_hardware(Situation::one_batch);
      return finding;
    }
    default:
      break;
  }
  CheckFinding finding = explain_waste(deployment, batch.phase, r, rows);
  finding.witness = to_witness(batch);
  return finding;
}

struct Judged {
  ExploreOutcome outcome;
  Phase phase;
  bool operator==(const Judged&) const = default;
};

Judged judged(std::span<const RankBatch> batches, const Deployment& deployment, Decider& decider) {
  const std::span<const RankDecision> decisions = decider.decide(batches);
  Judgement said = judge({.decisions = decisions, .max_num_tokens = deployment.max_num_tokens});
  judge_gather(said, decider, decisions.size());
  return {outcome_of(said), said.phase};
}

// The smallest count below `count` that keeps what `still` asks for, or `count`: all of the small ones are tried, of
// the others the middle between one that does not and one that does.
template <class Still>
std::int64_t smallest_count(std::int64_t count, const Still& still) {
  constexpr std::int64_t kTriedOneByOne = 24;
  for (std::int64_t tried = 0; tried < std::min(count, kTriedOneByOne); ++tried)
    if (still(tried)) return tried;
  for (std::int64_t below = kTriedOneByOne - 1; count - below > 1;) {
    const std::int64_t middle = below + (count - below) / 2;
    (still(middle) ? count : below) = middle;
  }
  return count;
}

// The same outcome in the same phase with every count as small as the others allow.
std::vector<RankBatch> shrunk(std::vector<RankBatch> batches, const Deployment& deployment, Decider& decider) {
  const Judged wanted = judged(batches, deployment, decider);
  for (bool changed = true; changed;) {
    changed = false;
    for (RankBatch& one : batches) {
      const RankBatch before = one;
      const auto take = [&](std::int64_t count) {
        one = {count == 0 ? ForwardMode::idle : before.mode, count};
        return judged(batches, deployment, decider) == wanted;
      };
      const std::int64_t count = smallest_count(before.count, take);
      one = {count == 0 ? ForwardMode::idle : before.mode, count};
      changed = changed || count < before.count;
    }
  }
  return batches;
}

// Why the server does not start, or empty.
std::string start_error(const Deployment& deployment) {
  if (!deployment.rejections.empty()) {
    const Rejection& first = deployment.rejections.front();
    return fmt::format("{}: {}: {}", first.handler, name(first.error.kind), first.error.message);
  }
  if (const auto failed = failed_capture(deployment))
    return fmt::format("graph capture: bucket {} needs runtime_max_tokens_per_rank {}, max_num_tokens is {}",
                       failed->bucket, failed->runtime_max_tokens_per_rank, deployment.max_num_tokens);
  return {};
}

}  // namespace

std::string witness_name(std::string_view generation, std::size_t exploring_class, Phase phase,
                         ExploreOutcome outcome) {
  std::string class_of = class_name(exploring_class);
  std::ranges::replace(class_of, '+', '-');  // the name is that of a file, too
  return fmt::format("{}-{}-{}-{}", generation, class_of, name(phase), name(outcome));
}

ExploreOutcome outcome_of(const Judgement& said) {
  if (said.gather_disagreeing_rank >= 0) return ExploreOutcome::disagrees;
  if (said.group.empty() || said.gathering == said.group) return ExploreOutcome::unused;
  if (said.verdict == Verdict::rejected) return ExploreOutcome::refused;
  // A clear error everywhere, but for R = 0 beside an R above the cap: FlashInfer's own check of unequal sizes.
  const bool by_host = !(said.geometry.refuses_dispatch - said.over_capacity).empty();
  if (said.nobody_enters() && !by_host)
    return said.over_capacity.empty() ? ExploreOutcome::refused : ExploreOutcome::over_cap;
  if (said.verdict == Verdict::disagrees) return ExploreOutcome::disagrees;
  if (!said.geometry.receive_overflow.empty()) return ExploreOutcome::overflow;
  const bool wastes = is_wasteful(said.geometry.largest_r, said.geometry.largest_tokens);
  return wastes ? ExploreOutcome::wasteful : ExploreOutcome::safe;
}

const ExploreBatches& ConfigurationExplorer::batches_of(const Deployment& deployment) {
  std::unique_ptr<ExploreBatches>& place = batches_[ExploreBatches::key(deployment)];
  if (!place) place = std::make_unique<ExploreBatches>(deployment);
  return *place;
}

void ConfigurationExplorer::ask_ahead(const ExploreConfiguration& configuration, bool batches) {
  if (!gathering_) return;
  do {
    const auto resolved = explore_deployment(generation_, configuration, rule_of(*gathering_));
    if (!resolved || !start_error(**resolved).empty() || !batches) continue;
    const std::unique_ptr<Decider> decider = (*resolved)->make_decider();
    const ExploreBatches& all = batches_of(**resolved);
    for (std::size_t ordinal = 0; ordinal < all.size(); ++ordinal) decider->decide(all.at(ordinal));
  } while (gathering_->ask_gathered());
}

std::int64_t ConfigurationExplorer::count_cases(const ExploreConfiguration& configuration) {
  ask_ahead(configuration, false);
  const auto deployment = explore_deployment(generation_, configuration, rule_);
  if (!deployment || !start_error(**deployment).empty()) return 0;
  return static_cast<std::int64_t>(batches_of(**deployment).size());
}

void ConfigurationExplorer::record(const ExploreConfiguration& configuration, ExploreClass& into) {
  for (std::size_t ordinal = 0; ordinal < cases_.size(); ++ordinal) {
    const Case& what = cases_[ordinal];
    const auto outcome = static_cast<std::size_t>(what.outcome);
    A2ASIM_INVARIANT(what.phase < into.cells.size() && outcome < kExploreOutcomes, "a case has a cell");
    ExploreCell& cell = into.cells[what.phase];
    ++cell.cases[outcome];
    // Configurations come in order, so the first witness is the smallest one.
    if (what.outcome < ExploreOutcome::wasteful || !what.by_itself || cell.witness[outcome]) continue;
    ExploreWitness& first = cell.witness[outcome].emplace();
    first.configuration = configuration.ordinal;
    first.batch = static_cast<std::int64_t>(ordinal);
    first.needed = largest_[what.phase];
  }
}

void ConfigurationExplorer::complete(const ExploreConfiguration& configuration, ExploreWitness& witness) {
  const auto resolved = explore_deployment(generation_, configuration, rule_);
  A2ASIM_INVARIANT(resolved.has_value(), "what was explored can be deployed");
  const Deployment& deployment = **resolved;
  const std::unique_ptr<Decider> decider = deployment.make_decider();
  const ExploreBatches& all = batches_of(deployment);
  const auto ordinal = static_cast<std::size_t>(witness.batch);
  if (ordinal >= all.size()) return;  // a user's rule answers otherwise by now, and whoever runs it says so
  const std::span<const RankBatch> found = all.at(ordinal);
  const std::vector<RankBatch> batches = shrunk({found.begin(), found.end()}, deployment, *decider);
  const auto [outcome, phase] = judged(batches, deployment, *decider);
  const std::span<const RankDecision> decisions = decider->decide(batches);
  A2ASIM_INVARIANT(!batches.empty() && decisions.size() % batches.size() == 0, "every replica has as many ranks");
  const std::size_t stride = decisions.size() / batches.size();
  TroubledBatch troubled{phase, batches, {}, true};
  for (std::size_t rank = 0; rank < batches.size(); ++rank) troubled.decisions.push_back(decisions[rank * stride]);
  Judgement said = judge({.decisions = decisions, .max_num_tokens = deployment.max_num_tokens});
  judge_gather(said, *decider, decisions.size());
  keep_gathers(said, *decider, decisions.size(), troubled);
  witness.ranks = deployment.topology.tp_size;
  witness.finding = explain(deployment, troubled, outcome, witness.needed);
  witness.finding.severity = is_error(outcome) ? Severity::error : Severity::note;
  Scenario scenario = explore_scenario(generation_, configuration);
  scenario.name = witness_name(generation_.name, configuration.exploring_class, phase, outcome);
  scenario.steps = {step_of(batches)};
  witness.scenario = to_yaml(scenario);
}

void ConfigurationExplorer::explore(const ExploreConfiguration& configuration, std::int64_t limit,
                                    GenerationExploration& into) {
  A2ASIM_INVARIANT(configuration.exploring_class < into.classes.size(), "a configuration has a class");
  ExploreClass& own_class = into.classes[configuration.exploring_class];
  const auto refuse = [&](const std::string& why) {
    ++own_class.refused_configurations;
    if (own_class.refusal_at >= 0) return;
    own_class.refusal_at = configuration.ordinal;
    own_class.refusal = why;
  };
  ask_ahead(configuration, true);
  ++into.configurations;
  ++own_class.configurations;
  const auto resolved = explore_deployment(generation_, configuration, rule_);
  if (!resolved) return refuse(resolved.error().message);
  const Deployment& deployment = **resolved;
  if (const std::string why = start_error(deployment); !why.empty()) return refuse(why);

  const std::unique_ptr<Decider> decider = deployment.make_decider();
  const ExploreBatches& batches = batches_of(deployment);
  cases_.clear();
  largest_.fill(0);
  std::array<std::int64_t, 2> tried{};  // decode, prefill
  std::string dead;
  for (std::size_t ordinal = 0; ordinal < batches.size(); ++ordinal) {
    const std::span<const RankBatch> batch = batches.at(ordinal);
    const std::span<const RankDecision> decisions = decider->decide(batch);
    Judgement said = judge({.decisions = decisions, .max_num_tokens = deployment.max_num_tokens});
    judge_gather(said, *decider, decisions.size());
    const std::size_t phase = index_of(said.phase);
    cases_.push_back({outcome_of(said), static_cast<std::uint8_t>(phase)});
    largest_[phase] = std::max(largest_[phase], said.largest_tokens_per_rank());
    const bool prefill = said.phase == Phase::prefill;
    // As in check: a first request that everybody refuses means that the server never gets going.
    if (++tried[prefill ? 1 : 0] == 1 && said.nobody_gets_in())
      dead = fmt::format("the first {} is refused: {}", prefill ? "prefill" : "decode", first_error(decisions));
  }
  if (!dead.empty()) {
    refuse(dead);
    for (Case& what : cases_) {
      what.by_itself = what.outcome == ExploreOutcome::refused;
      what.outcome = ExploreOutcome::refused;
    }
  }
  if (limit >= 0 && static_cast<std::size_t>(limit) < cases_.size()) cases_.resize(static_cast<std::size_t>(limit));
  into.cases += static_cast<std::int64_t>(cases_.size());
  record(configuration, own_class);
}

}  // namespace a2asim
