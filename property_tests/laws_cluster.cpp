// Laws over the simulated cluster: what sizes do to rows and outputs, step after step in the same memory.
#include <fmt/format.h>

#include <algorithm>

#include "property_tests/law.h"
#include "sim/cluster/replay.h"

namespace a2asim::props {
namespace {

constexpr FindingKind kRowKinds[] = {FindingKind::misplaced, FindingKind::stale, FindingKind::unwritten,
                                     FindingKind::torn, FindingKind::expert_id_out_of_range};

void mark_outcome(const StepOutcome& outcome, const FindingLog& log, Marks& marks) {
  for (const FindingKind kind : kRowKinds)
    if (log.count_of(kind) > 0) ++marks[fmt::format("row: {}", name(kind))];
  for (const FindingKind kind : {FindingKind::nan_output, FindingKind::wrong_output})
    if (log.count_of(kind) > 0) ++marks[std::string(name(kind))];
  if (!outcome.geometry.receive_overflow.empty() && !outcome.stopped) ++marks["receive overflow runs on"];
  if (!outcome.refused.empty() && outcome.refused != outcome.group) ++marks["some ranks refuse, their peers wait"];
  if (!outcome.gathering.empty() && outcome.gathering == outcome.group) ++marks["prefill is gathered"];
}

// Calls judge(cluster, outcome) after every step that runs, until it returns something or a step stops the run.
template <class Judge>
std::string for_each_outcome(const Scenario& world, Fidelity fidelity, Trial& trial, Judge judge) {
  Cluster* cluster = trial.bench.cluster(world, fidelity);
  if (cluster == nullptr) return "";
  for (std::size_t i = 0; i < world.steps.size(); ++i) {
    const StepBatches step = step_batches(world, i);
    const Result<StepOutcome> outcome = trial.bench.product().step(*cluster, step.input());
    if (cannot_replay(step.graph, cluster->decisions())) break;
    if (!outcome) return fmt::format("step {} is refused: {}", i, outcome.error().message);
    mark_outcome(*outcome, cluster->log(), trial.marks);
    if (std::string wrong = judge(*cluster, *outcome); !wrong.empty()) return fmt::format("step {}: {}", i, wrong);
    if (outcome->stopped) break;
  }
  return "";
}

std::string row_findings(const FindingLog& log) {
  for (const FindingKind kind : kRowKinds)
    if (log.count_of(kind) > 0) return fmt::format("{} x {}", log.count_of(kind), name(kind));
  return "";
}

}  // namespace

std::string outputs_equal_the_oracle(const Scenario& world, Trial& trial) {
  return for_each_outcome(world, Fidelity::numeric, trial, [&](const Cluster& cluster, const StepOutcome& outcome) {
    if (cluster.alltoall() != nullptr && !cluster.alltoall()->guards_intact())
      return std::string("a write beside a slice");
    if (outcome.bad_tokens == 0) return std::string();
    const Finding* first = nullptr;
    for (const Finding& found : cluster.log().findings())
      if (found.kind == FindingKind::nan_output || found.kind == FindingKind::wrong_output) first = &found;
    return fmt::format("{} outputs are wrong{}", outcome.bad_tokens, first != nullptr ? ": " + describe(*first) : "");
  });
}

std::string reads_nothing_stale(const Scenario& world, Trial& trial) {
  if (world.model.num_experts % world.parallel->world_size() != 0) ++trial.marks["experts with a remainder"];
  return for_each_outcome(world, Fidelity::provenance, trial,
                          [](const Cluster& cluster, const StepOutcome&) { return row_findings(cluster.log()); });
}

std::string fidelities_agree(const Scenario& world, Trial& trial) {
  Cluster* integers = trial.bench.cluster(world, Fidelity::geometry);
  Cluster* tags = trial.bench.cluster(world, Fidelity::provenance);
  Cluster* bytes = trial.bench.cluster(world, Fidelity::numeric);
  if (integers == nullptr || tags == nullptr || bytes == nullptr) return "";
  const auto& run = trial.bench.product().step;
  for (std::size_t i = 0; i < world.steps.size(); ++i) {
    const StepBatches step = step_batches(world, i);
    const auto a = run(*integers, step.input()), b = run(*tags, step.input()), c = run(*bytes, step.input());
    if (cannot_replay(step.graph, integers->decisions())) break;
    if (!a || !b || !c) return fmt::format("step {} is refused", i);
    mark_outcome(*c, bytes->log(), trial.marks);
    for (const StepOutcome& other : {*b, *c}) {
      const bool same = a->verdict == other.verdict && a->phase == other.phase && a->stopped == other.stopped &&
                        a->group == other.group && a->taking_part == other.taking_part &&
                        a->gathering == other.gathering && a->refused == other.refused &&
                        a->over_capacity == other.over_capacity &&
                        a->geometry.receive_overflow == other.geometry.receive_overflow &&
                        a->traffic.rows_reserved == other.traffic.rows_reserved;
      if (!same) return fmt::format("step {}: integers say {}, rows say {}", i, name(a->verdict), name(other.verdict));
    }
    if (b->traffic.rows_sent != c->traffic.rows_sent || b->traffic.dispatch_bytes != c->traffic.dispatch_bytes)
      return fmt::format("step {}: {} rows sent by tags, {} by bytes", i, b->traffic.rows_sent, c->traffic.rows_sent);
    for (const FindingKind kind :
         {FindingKind::misplaced, FindingKind::stale, FindingKind::unwritten, FindingKind::torn}) {
      // Where a version does not sanitize, tags cannot tell whether what lies in unused rows is an id that lives.
      if (kind == FindingKind::stale && !integers->deployment().invalid_expert_id) continue;
      if (tags->log().count_of(kind) != bytes->log().count_of(kind))
        return fmt::format("step {}: {} counted {} by tags, {} by bytes", i, name(kind), tags->log().count_of(kind),
                           bytes->log().count_of(kind));
    }
    if (a->stopped) break;
  }
  return "";
}

namespace {

// The verdict of a step from the decisions alone, rank by rank.
Verdict plain_verdict(std::span<const RankDecision> decisions, std::int64_t cap, bool launches) {
  std::int64_t all = 0, refuse = 0, over = 0, gather = 0, overflow = 0;
  std::int64_t least = 0, most = 0;
  for (const RankDecision& decision : decisions) {
    if (!decision.participates) continue;
    const bool gathers = decision.sizing.branch == SizingBranch::allgather_prefill;
    const std::int64_t r = decision.sizing.runtime_max_tokens_per_rank;
    ++all;
    gather += gathers ? 1 : 0;
    if (!gathers && r > cap)
      ++over;
    else if (decision.raised || (!gathers && (!launches || r < 1)))
      ++refuse;
    if (gathers || (decision.raised && r <= cap)) continue;
    least = most == 0 ? r : std::min(least, r);
    most = std::max(most, r);
    overflow += std::max<std::int64_t>(decision.rows, !decision.replay && decision.sizing.has_dummy_token ? 1 : 0) > r;
  }
  if (all == 0) return Verdict::agrees;
  if (refuse == all) return Verdict::rejected;
  if (least != most || refuse != 0 || (gather != 0 && gather != all) || (over != 0 && over != all))
    return Verdict::disagrees;
  return over != 0 || overflow != 0 ? Verdict::over_capacity : Verdict::agrees;
}

}  // namespace

std::string verdicts_are_plain(const Scenario& world, Trial& trial) {
  return for_each_outcome(world, Fidelity::geometry, trial, [](const Cluster& cluster, const StepOutcome& outcome) {
    const Deployment& deployment = cluster.deployment();
    if (!outcome.table_overflow.empty()) return std::string();  // the top-k tables are a limit of their own
    const Verdict plain = plain_verdict(cluster.decisions(), deployment.max_num_tokens, !deployment.launch_error);
    return outcome.verdict == plain
               ? std::string()
               : fmt::format("the cluster says {}, its sizes say {}", name(outcome.verdict), name(plain));
  });
}

std::string one_digest(const Scenario& world, Trial& trial) {
  ReplayOptions options;
  options.fidelity = Fidelity::numeric;
  const auto& replay = trial.bench.product().replay;
  const Result<ReplayReport> first = replay(world, options), second = replay(world, options);
  if (!first || !second) return "";
  if (first->digest != second->digest) return "two runs of one world differ";
  return first->bad_tokens == second->bad_tokens && first->counts == second->counts ? "" : "two runs count differently";
}

// In worlds where ranks disagree, too: the shadow tells of every row that made an output wrong.
std::string wrong_outputs_have_a_row_to_blame(const Scenario& world, Trial& trial) {
  Scenario one_layer = world;
  one_layer.model.layers = 1;  // tainted() is of the last layer
  return for_each_outcome(one_layer, Fidelity::numeric, trial, [](const Cluster& cluster, const StepOutcome&) {
    for (const Finding& found : cluster.log().findings()) {
      if (found.kind != FindingKind::nan_output && found.kind != FindingKind::wrong_output) continue;
      if (cluster.tainted(found.rank)[static_cast<std::size_t>(found.token)] == 0)
        return fmt::format("no row of token {} of rank {} is found wrong, but its output is", found.token, found.rank);
    }
    return std::string();
  });
}

// Faults may do anything, but nothing is wrong with the bytes of a step in which ranks agree and everything fits, and
// nobody waits unseen.
std::string consequences_have_causes(const Scenario& world, Trial& trial) {
  ReplayOptions options;
  options.fidelity = Fidelity::numeric;
  const Result<ReplayReport> report = trial.bench.product().replay(world, options);
  if (!report) return "";
  for (const ReplayedStep& step : report->steps) {
    const StepOutcome& outcome = step.outcome;
    if (outcome.verdict == Verdict::agrees && outcome.bad_tokens != 0)
      return fmt::format("step {}: ranks agree, and {} outputs are wrong", outcome.step, outcome.bad_tokens);
    if (outcome.verdict == Verdict::agrees && outcome.stopped)
      return fmt::format("step {}: it stops, and the verdict is agrees", outcome.step);
    const bool has_work = std::ranges::any_of(step.batches, [](const RankBatch& batch) { return batch.count > 0; });
    if (outcome.verdict == Verdict::disagrees && has_work && step.findings.empty())
      return fmt::format("step {}: ranks disagree, and no finding says so", outcome.step);
    if (outcome.bad_tokens != 0) ++trial.marks["a fault reaches the outputs"];
    if (outcome.stopped) ++trial.marks["a fault stops the run"];
  }
  return "";
}

}  // namespace a2asim::props
