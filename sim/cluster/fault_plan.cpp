#include "sim/cluster/fault_plan.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/base/check_invariant.h"

namespace a2asim {
namespace {

GraphChoice choice_of(const std::optional<bool>& graph) {
  return !graph ? GraphChoice::engine : *graph ? GraphChoice::replay : GraphChoice::eager;
}

// It runs eagerly, whether it should or not.
bool is_eager(const Cluster& cluster, const StepInput& input, std::size_t rank) {
  A2ASIM_INVARIANT(rank < cluster.decisions().size(), "a rank decided");
  const RankDecision& decision = cluster.decisions()[rank];
  return decision.participates && !input.absent.contains(static_cast<int>(rank)) && !decision.raised &&
         !decision.replay;
}

std::string why_eager(const Cluster& cluster, std::size_t rank) {
  A2ASIM_INVARIANT(rank < cluster.decisions().size(), "a rank decided");
  const Deployment& deployment = cluster.deployment();
  const ForwardMode mode = cluster.decisions()[rank].mode;
  if (deployment.capture_bs.empty())
    return deployment.graphs_are_disabled ? "CUDA graphs are disabled" : "no decode graph is captured";
  if (!is_cuda_graph(mode))
    return fmt::format("no graph is captured for mode {}, and a rank that prefills makes all run eagerly", name(mode));
  return fmt::format("the batch is larger than the largest captured bucket, {}", deployment.capture_bs.back());
}

}  // namespace

FaultPlan::FaultPlan(const Scenario& scenario, const Topology& topology)
    : scenario_(scenario),
      dp_ranks_(static_cast<std::size_t>(topology.attn_dp_size)),
      ranks_per_replica_(topology.attn_tp_size * topology.attn_cp_size) {}

void FaultPlan::apply(std::int64_t step, const Step& wanted, StepInput& input) {
  A2ASIM_INVARIANT(step >= 0 && wanted.tokens.size() == dp_ranks_, "a step has tokens for every replica");
  input.graph = choice_of(wanted.graph);
  batches_.clear();
  for (std::size_t dp = 0; dp < dp_ranks_; ++dp) batches_.push_back({wanted.mode_of(dp), wanted.tokens[dp]});
  faults_.assign(dp_ranks_ * static_cast<std::size_t>(ranks_per_replica_), RankFault{});
  input.absent = input.masked = {};
  bool any = false;
  for (const Fault& fault : scenario_.faults) {
    if (is_construction_fault(fault.kind)) continue;
    const bool lasts = fault.kind == FaultKind::dead_rank;
    if (fault.step != step && !(lasts && fault.step < step)) continue;
    any = add(fault, input) || any;
  }
  input.batches = batches_;
  input.faults = any ? std::span<const RankFault>(faults_) : std::span<const RankFault>{};
}

template <class Change>
void FaultPlan::for_ranks(const Fault& fault, Change change) {
  A2ASIM_INVARIANT(!fault.rank || *fault.rank < std::ssize(faults_), "a fault is of a rank, or of all");
  if (fault.rank)
    change(faults_[static_cast<std::size_t>(*fault.rank)]);
  else
    std::ranges::for_each(faults_, change);
}

// True when it changes a decision.
bool FaultPlan::add(const Fault& fault, StepInput& input) {
  const std::int64_t rank = fault.rank.value_or(0);
  const auto at = static_cast<std::size_t>(rank);
  A2ASIM_INVARIANT(at < faults_.size(), "a fault is of a rank");
  switch (fault.kind) {
    case FaultKind::skip_rank:
      input.absent.add(static_cast<int>(rank));
      return false;
    case FaultKind::dead_rank:
      input.absent.add(static_cast<int>(rank));
      if (fault.masked) {
        input.masked.add(static_cast<int>(rank));
        // kDeadRankSyncInfo: the scheduler counts it as idle. Of a replica only the first rank's row is read.
        if (rank % ranks_per_replica_ == 0) batches_[static_cast<std::size_t>(rank / ranks_per_replica_)] = {};
      }
      return false;
    case FaultKind::skip_all_gather:
      for_ranks(fault, [](RankFault& own) { own.skip_all_gather = true; });
      return true;
    case FaultKind::stale_counts:
      faults_[at].stale_counts = true;
      return true;
    case FaultKind::wrong_mode:
      faults_[at].mode = fault.mode;
      return true;
    case FaultKind::replay_rank:
      for (std::size_t other = 0; other < faults_.size(); ++other)
        if (!faults_[other].replay || other == at) faults_[other].replay = other == at;
      return true;
    case FaultKind::corrupt_count:
      for_ranks(fault, [&](RankFault& own) { own.corrupt_counts.push_back({fault.source, fault.value}); });
      return true;
    case FaultKind::max_num_tokens:
    case FaultKind::payload_bytes:
      return false;
  }
  return false;
}

Result<void> FaultPlan::check_replays(std::string_view file, std::int64_t step, const Step& wanted,
                                      const StepInput& input, const Cluster& cluster) const {
  A2ASIM_INVARIANT(cluster.decisions().size() == faults_.size(), "every rank decided");
  for (const Fault& fault : scenario_.faults) {
    if (fault.kind != FaultKind::replay_rank || fault.step != step) continue;
    const auto rank = static_cast<std::size_t>(fault.rank.value_or(0));
    if (!is_eager(cluster, input, rank)) continue;
    return scenario_error(file, fault.at,
                          fmt::format("replay_rank: rank {} has no graph to replay in step {}: {}", rank, step,
                                      why_eager(cluster, rank)));
  }
  if (input.graph != GraphChoice::replay) return {};
  for (std::size_t rank = 0; rank < faults_.size(); ++rank) {
    if (faults_[rank] != RankFault{} || !is_eager(cluster, input, rank)) continue;  // a fault may keep a rank from it
    return scenario_error(file, wanted.at,
                          fmt::format("graph is true, but rank {} cannot replay in step {}: {}; leave graph out to let "
                                      "the engine decide",
                                      rank, step, why_eager(cluster, rank)));
  }
  return {};
}

std::int64_t FaultPlan::lost_work(const StepInput& input, const StepOutcome& outcome) {
  A2ASIM_INVARIANT(outcome.stopped || !input.batches.empty(), "a step has batches");
  if (outcome.stopped || !outcome.nobody_enters()) return 0;
  std::int64_t lost = 0;
  for (const RankBatch& batch : input.batches) lost += batch.mode == ForwardMode::idle ? 0 : batch.count;
  return lost;
}

}  // namespace a2asim
