// What the sizes of a step say, in words. Nothing is decided here.
#include <fmt/format.h>

#include <algorithm>

#include "model/base/check_invariant.h"
#include "model/check/check_explain.h"
#include "sim/cluster/cluster.h"

namespace a2asim {
namespace {

// "rank 2", "ranks 0, 4..7"
std::string rank_words(RankMask ranks) {
  A2ASIM_INVARIANT(!ranks.empty(), "there are ranks to name");
  std::string out;
  for (RankMask left = ranks; !left.empty();) {
    const int first = left.first();
    int last = first;
    while (left.contains(last)) {
      left.remove(last);
      if (last + 1 == RankMask::kMost || !left.contains(last + 1)) break;
      ++last;
    }
    out += (out.empty() ? "" : ", ") + std::to_string(first) + (last > first ? fmt::format("..{}", last) : "");
  }
  return (ranks.count() == 1 ? "rank " : "ranks ") + out;
}

class StepFindings {
 public:
  StepFindings(const Cluster& cluster, const StepInput& input, const StepOutcome& outcome)
      : cluster_(cluster), input_(input), outcome_(outcome) {
    A2ASIM_INVARIANT(!input.batches.empty() && cluster.decisions().size() % input.batches.size() == 0,
                     "every replica has as many ranks");
    batch_.phase = outcome.phase;
    batch_.batches.assign(input.batches.begin(), input.batches.end());
    const std::size_t stride = cluster.decisions().size() / input.batches.size();
    for (std::size_t dp = 0; dp < input.batches.size(); ++dp)
      batch_.decisions.push_back(cluster.decisions()[dp * stride]);
  }

  std::vector<Finding> all() {
    A2ASIM_INVARIANT(findings_.empty(), "findings are collected once");
    if (outcome_.group.empty()) return {};
    const GeometryVerdict& geometry = outcome_.geometry;
    if (!geometry.agrees()) disagreement();
    if (outcome_.gather_disagreeing_rank >= 0) gather_disagreement();
    if (!outcome_.over_capacity.empty()) over_capacity();
    if (!(geometry.refuses_combine & outcome_.taking_part).empty()) refused_combine();
    if (!overflowing().empty()) overflow();
    if (outcome_.stopped) missing_ranks();
    if (!outcome_.stopped && geometry.largest_r > geometry.largest_tokens) wasted();
    return std::move(findings_);
  }

 private:
  const RankDecision& decision(int rank) const { return cluster_.decisions()[static_cast<std::size_t>(rank)]; }
  std::int64_t r_of(int rank) const { return decision(rank).sizing.runtime_max_tokens_per_rank; }
  bool is_clean() const { return input_.faults.empty() && input_.absent.empty(); }  // no fault to blame
  RankMask overflowing() const {
    return (outcome_.geometry.receive_overflow & outcome_.taking_part) | outcome_.table_overflow;
  }

  Finding make(FindingKind kind, Severity severity, int rank) const {
    A2ASIM_INVARIANT(rank < cluster_.ep_size(), "a finding is of a rank, or of all");
    Finding found;
    found.kind = kind;
    found.severity = severity;
    found.step = static_cast<int>(outcome_.step);
    found.phase = outcome_.phase;
    found.operation = Operation::decide;
    found.rank = rank;
    Witness witness;
    for (const RankBatch& batch : input_.batches) witness.tokens_per_dp_rank.push_back(batch.count);
    for (const RankDecision& decision : cluster_.decisions())
      witness.runtime_max_tokens_per_rank.push_back(decision.sizing.runtime_max_tokens_per_rank);
    found.witness = std::move(witness);
    return found;
  }

  void disagreement() {
    A2ASIM_INVARIANT(outcome_.geometry.disagreeing_rank >= 0, "somebody disagrees");
    Finding found = make(FindingKind::geometry_disagreement, Severity::error, outcome_.geometry.disagreeing_rank);
    // Of the ranks whose sizes were compared: those that then refuse the call are among them.
    found.peer =
        (outcome_.taking_part | outcome_.over_capacity | outcome_.geometry.refuses_dispatch | outcome_.table_overflow)
            .first();
    found.value = r_of(found.rank);
    found.limit = r_of(found.peer);
    if (outcome_.geometry.same_r) {
      const AllToAllConfig& own = cluster_.config(found.rank);
      const AllToAllConfig& other = cluster_.config(found.peer);
      const bool cap_differs = own.max_num_tokens != other.max_num_tokens;
      found.subject = cap_differs ? "max_num_tokens" : "payload bytes per token";
      found.value = cap_differs ? own.max_num_tokens : own.dispatch_bytes_per_token();
      found.limit = cap_differs ? other.max_num_tokens : other.dispatch_bytes_per_token();
      found.fix = "construct every rank with the same " + found.subject;
    } else if (is_clean()) {
      const CheckFinding explained = explain_disagreement(cluster_.deployment(), batch_);
      found.message = "geometry_disagreement: " + explained.message;
      found.fix = explained.fix;
    }
    findings_.push_back(std::move(found));
  }

  void gather_disagreement() {
    const int rank = outcome_.gather_disagreeing_rank, first = outcome_.gathering.first();
    A2ASIM_INVARIANT(rank >= 0 && rank != first, "a rank agrees with itself");
    const std::vector<std::int64_t> own = cluster_.gather_sizes(rank), other = cluster_.gather_sizes(first);
    // A rank that never gathered the counts knows its own alone: nobody expects rows of a rank that its list has not.
    const auto expected = [](const std::vector<std::int64_t>& sizes, std::size_t source) {
      return source < sizes.size() ? sizes[source] : 0;
    };
    const std::size_t sources = std::max(own.size(), other.size());
    std::size_t source = 0;
    while (source < sources && expected(own, source) == expected(other, source)) ++source;
    const bool by_rows = source < sources;
    Finding found = make(FindingKind::geometry_disagreement, Severity::error, rank);
    found.peer = first;
    found.value = by_rows ? expected(own, source) : std::ssize(own);
    found.limit = by_rows ? expected(other, source) : std::ssize(other);
    found.subject = "source sizes of the all-gatherv";
    found.message = fmt::format(
        "geometry_disagreement: ranks compute different sizes of the all-gatherv: {}; a rank that expects more than is "
        "sent waits forever, the others misplace rows",
        by_rows ? fmt::format("of rank {} rank {} expects {} rows and rank {} {}", source, rank, found.value, first,
                              found.limit)
                : fmt::format("rank {} has counts of {} rank{} and rank {} of {}", rank, found.value,
                              found.value == 1 ? "" : "s", first, found.limit));
    findings_.push_back(std::move(found));
    if (by_rows) gather_deadlock(source);
  }

  // The rows of one rank go to those who expect some; who does not expect any never comes to that part of the
  // collective.
  void gather_deadlock(std::size_t source) {
    RankMask waiting, elsewhere;
    for (const int rank : outcome_.gathering) {
      const std::vector<std::int64_t> sizes = cluster_.gather_sizes(rank);
      (source < sizes.size() && sizes[source] > 0 ? waiting : elsewhere).add(rank);
    }
    if (waiting.empty() || elsewhere.empty()) return;
    Finding found = make(FindingKind::missing_rank, Severity::error, waiting.first());
    found.peer = elsewhere.first();
    found.root = FindingKind::geometry_disagreement;
    found.message = fmt::format("missing_rank: {} wait{} for {} forever: they expect no rows of rank {}",
                                rank_words(waiting), waiting.count() == 1 ? "s" : "", rank_words(elsewhere), source);
    findings_.push_back(std::move(found));
  }

  void over_capacity() {
    const int rank = outcome_.over_capacity.first();
    Finding found = make(FindingKind::over_capacity, Severity::error, rank);
    found.value = r_of(rank);
    found.limit = cluster_.config(rank).max_num_tokens;
    found.message =
        fmt::format("over_capacity: {}: AssertionError: runtime_max_tokens_per_rank {} exceeds max_num_tokens {}",
                    rank_words(outcome_.over_capacity), found.value, found.limit);
    if (is_clean()) found.fix = explain_over_capacity(cluster_.deployment(), batch_, found.value).fix;
    findings_.push_back(std::move(found));
  }

  void refused_combine() {
    const RankMask ranks = outcome_.geometry.refuses_combine & outcome_.taking_part;
    Finding found = make(FindingKind::over_capacity, Severity::error, ranks.first());
    found.operation = Operation::combine;
    found.value = r_of(found.rank);
    found.limit = cluster_.config(found.rank).max_num_tokens;
    found.subject = "combine region";
    found.message = fmt::format(
        "over_capacity: {}: RuntimeError in combine: its region for runtime_max_tokens_per_rank {} "
        "does not fit the workspace",
        rank_words(ranks), found.value);
    findings_.push_back(std::move(found));
  }

  void overflow() {
    const RankMask ranks = overflowing();
    Finding found = make(FindingKind::receive_overflow, Severity::error, ranks.first());
    found.operation = Operation::dispatch;
    found.value = decision(found.rank).rows;
    found.limit = r_of(found.rank);
    found.message = fmt::format(
        "receive_overflow: {}: {} rows with runtime_max_tokens_per_rank {}; nothing checks it, the "
        "rows run into the neighbour's slots{}",
        rank_words(ranks), found.value, found.limit,
        outcome_.table_overflow.empty() ? "" : " and out of the top-k tables");
    if (is_clean()) found.fix = explain_silent_overflow(cluster_.deployment(), batch_, found.value).fix;
    findings_.push_back(std::move(found));
  }

  std::string why_missing(int rank) const {
    if (input_.absent.contains(rank)) return "it takes no part";
    if (outcome_.over_capacity.contains(rank)) return "it raised: R is above max_num_tokens";
    if (outcome_.refused.contains(rank)) {
      const RankDecision& own = decision(rank);
      return own.raised ? fmt::format("it raised {}: {}", name(own.raised->kind), own.raised->message)
                        : fmt::format("FlashInfer refused its call with runtime_max_tokens_per_rank {}", r_of(rank));
    }
    if (outcome_.gathering.contains(rank)) return "it is in the all-gatherv";
    return outcome_.taking_part.contains(rank) ? "it is in the all-to-all" : "it has no work";
  }

  // Everybody in a collective waits for everybody who is not in it.
  void missing_ranks() {
    const RankMask refuse_combine = outcome_.geometry.refuses_combine & outcome_.taking_part;
    for (const RankMask inside : {outcome_.taking_part - refuse_combine, outcome_.gathering}) {
      for (const int r : inside.empty() ? RankMask{} : outcome_.group - inside) {
        Finding found = make(FindingKind::missing_rank, Severity::error, inside.first());
        found.operation = refuse_combine.contains(r) ? Operation::combine : Operation::dispatch;
        found.peer = r;
        if (outcome_.over_capacity.contains(r)) found.root = FindingKind::over_capacity;
        found.message = fmt::format("missing_rank: {} wait{} for rank {} forever: {}", rank_words(inside),
                                    inside.count() == 1 ? "s" : "", r, why_missing(r));
        findings_.push_back(std::move(found));
      }
    }
  }

  void wasted() {
    Finding found = make(FindingKind::wasted, Severity::note, -1);
    const std::int64_t unused = outcome_.geometry.largest_r - outcome_.geometry.largest_tokens;
    found.value = cluster_.ep_size() * unused;
    found.limit = cluster_.ep_size() * outcome_.geometry.largest_r;
    found.message =
        fmt::format("wasted: {} of {} row slots per rank are beyond need: R = {}, the largest batch has {} rows",
                    found.value, found.limit, outcome_.geometry.largest_r, outcome_.geometry.largest_tokens);
    findings_.push_back(std::move(found));
  }

  const Cluster& cluster_;
  const StepInput& input_;
  const StepOutcome& outcome_;
  TroubledBatch batch_;
  std::vector<Finding> findings_;
};

}  // namespace

std::vector<Finding> step_findings(const Cluster& cluster, const StepInput& input, const StepOutcome& outcome) {
  return StepFindings(cluster, input, outcome).all();
}

}  // namespace a2asim
