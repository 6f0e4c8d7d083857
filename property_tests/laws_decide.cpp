// Laws over decisions: what every rank derives from its own view, without any memory.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>

#include "model/base/check_invariant.h"
#include "model/check/check.h"
#include "model/engines/sglang/static_caps.h"
#include "model/step/decider.h"
#include "property_tests/law.h"

namespace a2asim::props {
namespace {

using Decisions = std::span<const RankDecision>;

bool gathers(const RankDecision& decision) { return decision.sizing.branch == SizingBranch::allgather_prefill; }
bool refuses(const RankDecision& decision) { return decision.raised && !decision.exceeds_cap; }
// It derives a size that others rely on.
bool sizes(const RankDecision& decision) { return decision.participates && !refuses(decision) && !gathers(decision); }
std::int64_t size_of(const RankDecision& decision) { return decision.sizing.runtime_max_tokens_per_rank; }
std::int64_t rows_of(const RankDecision& decision) {
  return !decision.replay && decision.sizing.has_dummy_token ? std::max<std::int64_t>(decision.rows, 1) : decision.rows;
}

std::string sizes_text(Decisions decisions) {
  std::vector<std::int64_t> all;
  for (const RankDecision& decision : decisions) all.push_back(size_of(decision));
  return fmt::format("R [{}]", fmt::join(all, ", "));
}

std::string disagreement(Decisions decisions) {
  std::int64_t taking_part = 0, refusing = 0, gathering = 0;
  const RankDecision* first = nullptr;
  bool differs = false;
  for (const RankDecision& decision : decisions) {
    if (!decision.participates) continue;
    ++taking_part;
    refusing += refuses(decision) ? 1 : 0;
    gathering += gathers(decision) ? 1 : 0;
    if (!sizes(decision)) continue;
    if (first == nullptr) first = &decision;
    differs = differs || size_of(*first) != size_of(decision);
  }
  if (refusing != 0 && refusing != taking_part) return fmt::format("{} of {} ranks refuse", refusing, taking_part);
  if (gathering != 0 && gathering != taking_part) return fmt::format("{} of {} ranks gather", gathering, taking_part);
  return differs ? "ranks differ: " + sizes_text(decisions) : "";
}

void mark_list(const Decider& decider, std::size_t replicas, Marks& marks) {
  const auto list = decider.dp_global(0);
  if (!list || list->size() != replicas || replicas < 2) return;
  const auto uneven = [](std::span<const std::int64_t> counts) {
    return std::ranges::any_of(counts, [&](std::int64_t count) { return count != counts.front(); });
  };
  if (uneven(decider.counts())) ++marks[uneven(*list) ? "SUM_LEN keeps counts apart" : "MAX_LEN evens counts out"];
}

void mark_rank(const Deployment& deployment, const RankBatch& batch, const RankDecision& decision, Marks& marks) {
  if (decision.raised) ++marks[decision.exceeds_cap ? "the cap refuses" : "the rule refuses"];
  if (!decision.participates || decision.raised) return;
  ++marks[std::string(text(decision.sizing.branch))];
  if (decision.sizing.has_dummy_token) ++marks["dummy token"];
  if (decision.replay && decision.real_rows == 0) ++marks["idle rank replays padding"];
  if (!decision.replay && decision.real_rows == 0) ++marks["idle rank runs eagerly"];
  if (decision.replay && decision.rows > decision.real_rows && decision.real_rows > 0) ++marks["bucket pads"];
  const bool has_graphs = !deployment.capture_bs.empty() && is_cuda_graph(batch.mode);
  if (!has_graphs || batch.count == 0 || decision.is_extend) return;
  if (!decision.replay && batch.count > deployment.capture_bs.back()) ++marks["above the largest bucket"];
  if (decision.replay && batch.count == deployment.capture_bs.back()) ++marks["at the largest bucket"];
}

// Calls judge(deployment, step, decisions) for every step until it returns something; the steps share one Decider.
template <class Judge>
std::string for_each_step(const Scenario& world, Trial& trial, Judge judge) {
  const Deployment* deployment = trial.bench.deployment(world);
  if (deployment == nullptr) {
    ++trial.marks["the engine does not start"];
    return "";
  }
  const auto decider = trial.bench.product().decider(*deployment);
  for (std::size_t i = 0; i < world.steps.size(); ++i) {
    const StepBatches step = step_batches(world, i);
    const Decisions decisions = decider->decide(step.batches, step.graph);
    if (cannot_replay(step.graph, decisions)) {
      ++trial.marks["a wish to replay that cannot be"];
      break;
    }
    if (step.graph == GraphChoice::replay) ++trial.marks["a wish to replay"];
    mark_list(*decider, step.batches.size(), trial.marks);
    const std::size_t width = decisions.size() / step.batches.size();
    for (std::size_t rank = 0; rank < decisions.size(); ++rank)
      mark_rank(*deployment, step.batches[rank / width], decisions[rank], trial.marks);
    if (std::string wrong = judge(*deployment, step, decisions); !wrong.empty())
      return fmt::format("step {}: {}", i, wrong);
  }
  return "";
}

bool has_work(const StepBatches& step) {
  return std::ranges::any_of(step.batches, [](const RankBatch& batch) { return batch.count > 0; });
}

}  // namespace

std::string ranks_agree(const Scenario& world, Trial& trial) {
  return for_each_step(
      world, trial, [](const Deployment&, const StepBatches&, Decisions decisions) { return disagreement(decisions); });
}

std::string fits_exactly(const Scenario& world, Trial& trial) {
  return for_each_step(world, trial, [](const Deployment& deployment, const StepBatches&, Decisions decisions) {
    for (std::size_t rank = 0; rank < decisions.size(); ++rank) {
      const RankDecision& decision = decisions[rank];
      if (!sizes(decision) || decision.exceeds_cap) continue;
      if (size_of(decision) < std::max<std::int64_t>(rows_of(decision), 1))
        return fmt::format("rank {} has {} rows and R {}", rank, rows_of(decision), size_of(decision));
      if (size_of(decision) > deployment.max_num_tokens)
        return fmt::format("rank {}: R {} is above the cap {}", rank, size_of(decision), deployment.max_num_tokens);
    }
    return std::string();
  });
}

std::string wastes_nothing(const Scenario& world, Trial& trial) {
  return for_each_step(world, trial, [](const Deployment&, const StepBatches&, Decisions decisions) {
    std::int64_t rows = 1, largest = 0;
    for (const RankDecision& decision : decisions) {
      if (!sizes(decision)) continue;
      rows = std::max(rows, rows_of(decision));
      largest = std::max(largest, size_of(decision));
    }
    return largest > rows ? fmt::format("R {} where no rank has more than {} rows", largest, rows) : std::string();
  });
}

std::string idle_ranks_take_part(const Scenario& world, Trial& trial) {
  return for_each_step(world, trial, [](const Deployment& deployment, const StepBatches& step, Decisions decisions) {
    const std::size_t width = decisions.size() / step.batches.size();
    for (std::size_t rank = 0; rank < decisions.size(); ++rank) {
      if (decisions[rank].participates != has_work(step))
        return fmt::format("rank {} {}", rank,
                           has_work(step) ? "stays away from a step with work" : "works for nobody");
    }
    for (std::size_t replica = 0; replica < step.batches.size(); ++replica) {
      const RankBatch& batch = step.batches[replica];
      const Decisions own = decisions.subspan(replica * width, width);
      if (std::ranges::any_of(own, [](const RankDecision& one) { return one.raised.has_value(); })) continue;
      std::int64_t real = 0;
      for (const RankDecision& one : own) real += one.real_rows;
      // Other engines verify in every step that is no prefill.
      const bool drafts = is_of_first_engine(*deployment.generation)
                              ? batch.mode == ForwardMode::target_verify || batch.mode == ForwardMode::draft_extend
                              : batch.mode != ForwardMode::extend && batch.mode != ForwardMode::mixed;
      const std::int64_t wanted = batch.count * (drafts ? deployment.num_tokens_per_bs : 1);
      if (real != wanted) return fmt::format("replica {} carries {} of its {} tokens", replica, real, wanted);
    }
    return std::string();
  });
}

namespace {

bool is_same(const RankDecision& a, const RankDecision& b) {
  return a.participates == b.participates && a.replay == b.replay && a.is_extend == b.is_extend &&
         a.bucket == b.bucket && a.rows == b.rows && a.real_rows == b.real_rows && size_of(a) == size_of(b) &&
         a.sizing.branch == b.sizing.branch && a.exceeds_cap == b.exceeds_cap &&
         a.raised.has_value() == b.raised.has_value();
}

}  // namespace

std::string permuting_ranks_permutes(const Scenario& world, Trial& trial) {
  const Deployment* deployment = trial.bench.deployment(world);
  if (deployment == nullptr) return "";
  const auto& decider = trial.bench.product().decider;
  const auto straight = decider(*deployment), turned = decider(*deployment);
  for (std::size_t i = 0; i < world.steps.size(); ++i) {
    StepBatches step = step_batches(world, i);
    const Decisions before = straight->decide(step.batches, step.graph);
    const std::size_t replicas = step.batches.size(), width = before.size() / replicas;
    std::ranges::rotate(step.batches, step.batches.begin() + static_cast<std::ptrdiff_t>((i + 1) % replicas));
    std::ranges::reverse(step.batches);
    const Decisions after = turned->decide(step.batches, step.graph);
    for (std::size_t rank = 0; rank < before.size(); ++rank) {
      const std::size_t replica = rank / width;
      const std::size_t moved = replicas - 1 - (replica + replicas - (i + 1) % replicas) % replicas;
      const RankDecision &a = before[rank], &b = after[moved * width + rank % width];
      if (!is_same(a, b)) return fmt::format("step {}: rank {} decides otherwise when ranks are permuted", i, rank);
    }
  }
  return "";
}

// With faults given, even none that does anything, every rank decides alone. Asked for every choice of graphs.
std::string sharing_changes_nothing(const Scenario& world, Trial& trial) {
  const Deployment* deployment = trial.bench.deployment(world);
  if (deployment == nullptr) return "";
  const auto& decider = trial.bench.product().decider;
  for (const GraphChoice graph : {GraphChoice::engine, GraphChoice::eager, GraphChoice::replay}) {
    const auto together = decider(*deployment), alone = decider(*deployment);
    for (std::size_t i = 0; i < world.steps.size(); ++i) {
      const StepBatches step = step_batches(world, i);
      const std::vector<RankFault> no_faults(static_cast<std::size_t>(deployment->topology.tp_size));
      const Decisions shared = together->decide(step.batches, graph);
      const Decisions own = alone->decide(step.batches, graph, no_faults);
      for (std::size_t rank = 0; rank < shared.size(); ++rank)
        if (!is_same(shared[rank], own[rank])) return fmt::format("step {}: rank {} alone decides otherwise", i, rank);
    }
  }
  return "";
}

namespace {

// The witness of a finding, decided again.
std::string witness_misleads(Decider& decider, const CheckWitness& witness) {
  std::vector<RankBatch> batches;
  for (std::size_t rank = 0; rank < witness.tokens_per_dp_rank.size(); ++rank) {
    const auto mode = parse_forward_mode(witness.modes[rank]);
    if (!mode) return "the witness has a mode that nobody knows: " + witness.modes[rank];
    batches.push_back({*mode, witness.tokens_per_dp_rank[rank]});
  }
  const std::string found = disagreement(decider.decide(batches));
  return found.empty() ? "the witness of the disagreement shows none" : "";
}

}  // namespace

std::string check_is_sound(const Scenario& world, Trial& trial) {
  const Deployment* deployment = trial.bench.deployment(world);
  if (deployment == nullptr || !deployment->rejections.empty()) return "";
  const CheckReport& report = trial.bench.check_report();
  ++trial.marks[report.verdict == Verdict::agrees          ? "check: agrees"
                : report.verdict == Verdict::disagrees     ? "check: disagrees"
                : report.verdict == Verdict::over_capacity ? "check: over capacity"
                                                           : "check: rejected"];
  for (const CheckFinding& finding : report.findings)
    if (finding.kind == FindingKind::geometry_disagreement && finding.severity == Severity::error) {
      if (!finding.witness) return "a disagreement without a witness";
      const auto decider = trial.bench.product().decider(*deployment);
      if (std::string wrong = witness_misleads(*decider, *finding.witness); !wrong.empty()) return wrong;
    }
  if (report.verdict != Verdict::agrees && report.verdict != Verdict::over_capacity) return "";
  return for_each_step(world, trial, [&](const Deployment&, const StepBatches& step, Decisions decisions) {
    if (step.graph != GraphChoice::engine) return std::string();  // a scenario's wish is no question of check
    if (std::string found = disagreement(decisions); !found.empty())
      return fmt::format("check says {}, but {}", name(report.verdict), found);
    const auto spills = [](const RankDecision& one) { return sizes(one) && rows_of(one) > size_of(one); };
    const bool over = std::ranges::any_of(decisions, [](const RankDecision& one) { return one.exceeds_cap; });
    const bool spill = std::ranges::any_of(decisions, spills);
    if (report.verdict != Verdict::agrees || (!over && !spill)) return std::string();
    return std::string("check says agrees, but a batch exceeds ") + (over ? "the cap" : "its R");
  });
}

std::string larger_caps_fit(const Scenario& world, Trial& trial) {
  const StaticCapRow* row = find_static_cap(*world.parallel->moe_a2a_backend);
  A2ASIM_INVARIANT(row != nullptr, "the space draws backends of fixed capacity");
  const Product& product = trial.bench.product();
  const auto verdict_at = [&](std::int64_t cap) {
    Scenario capped = world;
    capped.env[std::string(row->env)] = std::to_string(cap);
    const Result<ScenarioDeployment> deployed = product.deploy(capped, {});
    if (!deployed || deployed->deployment == nullptr) return Verdict::rejected;
    return product.check(*deployed->deployment).verdict;
  };
  const std::int64_t cap = *world.parallel->max_num_tokens;
  const Verdict small = verdict_at(cap), large = verdict_at(2 * cap), ample = verdict_at(256);
  if (small == Verdict::over_capacity) ++trial.marks["a static cap is exceeded"];
  if (small == Verdict::agrees && large != Verdict::agrees)
    return fmt::format("{} fits with a cap of {}, and is {} with {}", row->env, cap, name(large), 2 * cap);
  return ample == Verdict::over_capacity ? fmt::format("{} is over capacity with 256", row->env) : "";
}

std::string dying_canary(const Scenario& world, Trial& trial) {
  A2ASIM_INVARIANT(canary(world, trial).empty(), "no step has three tokens");
  return "";
}

std::string throwing_canary(const Scenario& world, Trial& trial) {
  if (!canary(world, trial).empty()) throw std::runtime_error("three tokens");
  return "";
}

std::string canary(const Scenario& world, Trial& trial) {
  return for_each_step(world, trial, [](const Deployment&, const StepBatches& step, Decisions) {
    std::int64_t all = 0;
    for (const RankBatch& batch : step.batches) all += batch.count;
    return all < 3 ? std::string() : fmt::format("{} tokens in a step: no world has three", all);
  });
}

}  // namespace a2asim::props
