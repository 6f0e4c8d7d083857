#include "model/check/nodes.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "model/check/check_search.h"
#include "model/check/checked_engine.h"
#include "model/check/node_findings.h"

namespace a2asim {
namespace {

class TwoDeciders final : public Decider {
 public:
  TwoDeciders(const Deployment& own, const Deployment& other)
      : own_(own.make_decider()), other_(other.make_decider()) {}

  std::span<const RankDecision> decide(std::span<const RankBatch> batches, GraphChoice graph,
                                       std::span<const RankFault> faults) override {
    const auto replays = [](const RankDecision& rank) { return rank.participates && rank.replay; };
    join(batches, graph, faults);
    if (std::ranges::any_of(decisions_, replays) && !std::ranges::all_of(decisions_, replays))
      join(batches, GraphChoice::eager, faults);
    return decisions_;
  }
  std::span<const std::int64_t> counts() const override { return own_->counts(); }
  std::optional<std::span<const std::int64_t>> dp_global(std::size_t rank) const override {
    return of(rank).dp_global(rank);
  }
  std::vector<std::int64_t> gather_sizes(std::size_t rank) const override { return of(rank).gather_sizes(rank); }
  bool gathers_by_list() const override { return own_->gathers_by_list() && other_->gathers_by_list(); }

 private:
  void join(std::span<const RankBatch> batches, GraphChoice graph, std::span<const RankFault> faults) {
    const auto first = own_->decide(batches, graph, faults), second = other_->decide(batches, graph, faults);
    decisions_.assign(first.begin(), first.end());
    const auto half = static_cast<std::ptrdiff_t>(decisions_.size() / 2);
    std::copy(second.begin() + half, second.end(), decisions_.begin() + half);
  }
  const Decider& of(std::size_t rank) const { return rank < decisions_.size() / 2 ? *own_ : *other_; }

  std::unique_ptr<Decider> own_, other_;
  std::vector<RankDecision> decisions_;
};

// The smallest batch on which ranks of the two nodes part.
std::optional<TroubledBatch> parting_batch(const Deployment& own, const Deployment& other) {
  const auto decider = checked_engine(own).decider_beside(own, other);
  if (!decider) return std::nullopt;
  std::vector<BatchPattern> patterns;
  for (const Deployment* node : {&own, &other})
    for (const auto& some : {decode_patterns(*node), prefill_patterns(*node)})
      for (const BatchPattern& pattern : some)
        patterns.insert(patterns.end(), {pattern, {pattern.others, pattern.first}});
  std::ranges::stable_sort(patterns, {}, [](const BatchPattern& p) { return p.first.count + p.others.count; });
  const auto replicas = static_cast<std::size_t>(own.topology.attn_dp_size);
  std::optional<TroubledBatch> unsure;  // the command leaves open whether a rank may have so much
  for (const BatchPattern& pattern : patterns) {
    std::vector<RankBatch> batches(replicas, pattern.others);
    std::fill(batches.begin(), batches.begin() + static_cast<std::ptrdiff_t>(replicas / 2), pattern.first);
    const bool stated = within_stated_limits(own, batches) && within_stated_limits(other, batches);
    if (!stated && unsure) continue;
    const auto decisions = decider->decide(batches, GraphChoice::engine, {});
    const Judgement said = judge({.decisions = decisions});
    if (said.verdict != Verdict::disagrees) continue;
    TroubledBatch out{said.phase, batches, {}, stated};
    for (std::size_t rank = 0; rank < replicas; ++rank)
      out.decisions.push_back(decisions[rank * (decisions.size() / replicas)]);
    if (stated) return out;
    unsure = std::move(out);
  }
  return unsure;
}

bool is_one_shape(const Topology& a, const Topology& b) {
  return a.tp_size == b.tp_size && a.attn_dp_size == b.attn_dp_size && a.ep_size == b.ep_size &&
         a.attn_tp_size == b.attn_tp_size;
}

void compare(const NodeCommand& first, const NodeCommand& other) {
  const Deployment &own = *first.deployment, &its = *other.deployment;
  CheckReport& report = *other.report;
  const std::size_t before = report.findings.size();
  checked_engine(own).add_differences(own, its, report);
  if (report.findings.size() == before && first.report->static_cap != report.static_cap)
    add_difference(
        report, Severity::error,
        differs("the buffer, in tokens per rank,", first.report->static_cap.value_or(0), report.static_cap.value_or(0)),
        "no version compares it: ranks lay their buffers out for other sizes",
        give_all("a buffer of", first.report->static_cap.value_or(0)));
  const bool parted = std::any_of(report.findings.begin() + static_cast<std::ptrdiff_t>(before), report.findings.end(),
                                  [](const CheckFinding& one) { return one.severity == Severity::error; });
  const bool starts = own.rejections.empty() && its.rejections.empty();
  const bool alone = !has(*first.report, FindingKind::geometry_disagreement) &&
                     !has(report, FindingKind::geometry_disagreement) && !has(report, FindingKind::rejected);
  if (parted || !starts || !alone || own.topology.attn_dp_size < 2 || !own.derives_sizes || !its.derives_sizes ||
      !is_one_shape(own.topology, its.topology))
    return;
  const auto batch = parting_batch(own, its);
  if (!batch) return;
  CheckFinding finding = explain_disagreement(own, *batch);
  finding.kind = FindingKind::nodes_differ;
  if (!batch->limits_are_explicit) finding.severity = Severity::warning;
  finding.message = "ranks of the first node and of this one part: " + finding.message;
  finding.advise("give every node the same options: graph modes, capture sizes and limits");
  report.findings.push_back(std::move(finding));
}

std::string range_of(const NodeShare& share) {  // "replicas 0 to 3 are", "node 1 is"
  return share.count == 1 ? fmt::format("{} {} is", share.what.substr(0, share.what.size() - 1), share.first)
                          : fmt::format("{} {} to {} are", share.what, share.first, share.first + share.count - 1);
}

// Which parts are started twice, and which by nobody.
void check_shares(std::span<const NodeCommand> nodes) {
  std::vector<NodeShare> shares;
  std::int64_t started = 0;
  for (const NodeCommand& node : nodes) {
    const auto share = checked_engine(*node.deployment).node_share();
    if (!share) return;
    for (const NodeShare& one : shares)
      if (one.first < share->first + share->count && share->first < one.first + one.count) {
        add_difference(*node.report, Severity::warning,
                       range_of(*share) + " started here and on another node",
                       "each command starts a server of its own, or the second waits for a rank number that is taken",
                       "give every node its own part of them");
        return;
      }
    shares.push_back(*share);
    started += share->count;
  }
  if (started >= shares.front().all) return;
  add_difference(*nodes.back().report, Severity::warning,
                 fmt::format("these commands start {} of {} {}", started, shares.front().all, shares.front().what),
                 "the ranks that are started wait for the others", "check the commands of the other nodes, too");
}

}  // namespace

std::unique_ptr<Decider> two_deciders(const Deployment& own, const Deployment& other) {
  return std::make_unique<TwoDeciders>(own, other);
}

std::int64_t check_nodes(std::span<const NodeCommand> nodes) {
  std::vector<std::size_t> before;
  for (const NodeCommand& node : nodes) before.push_back(node.report->findings.size());
  for (const NodeCommand& node : nodes.subspan(1)) compare(nodes.front(), node);
  check_shares(nodes);
  std::int64_t differences = 0;
  for (std::size_t at = 0; at < nodes.size(); ++at) {
    CheckReport& report = *nodes[at].report;
    for (std::size_t i = before[at]; i < report.findings.size(); ++i)
      differences += report.findings[i].severity == Severity::note ? 0 : 1;
    if (before[at] < report.findings.size()) settle_verdict(report);
  }
  return differences;
}

}  // namespace a2asim
