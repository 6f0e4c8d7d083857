#include "model/step/judgement.h"

#include <algorithm>

#include "model/base/check_invariant.h"

namespace a2asim {
namespace {

// The same as rows > max_num_tokens * max_top_k / top_k, without a division for every rank.
bool exceeds_tables(const RankGeometry& own, const DecidedStep& step) {
  if (step.max_top_k >= step.top_k && own.local_num_tokens <= own.max_num_tokens) return false;
  return step.max_top_k > 0 && static_cast<__int128>(own.local_num_tokens) * step.top_k >
                                   static_cast<__int128>(own.max_num_tokens) * step.max_top_k;
}

struct Seen {
  bool participates = false, replay = false, extend = false, verify = false;
};
Seen look_at(std::span<const RankDecision> decisions) {
  Seen any;
  for (const RankDecision& decision : decisions) {
    any.participates |= decision.participates;
    any.replay |= decision.replay;
    any.extend |= decision.is_extend;
    any.verify |= decision.mode == ForwardMode::target_verify;
  }
  return any;
}

Phase phase_of(const Seen& any) {
  return any.extend   ? Phase::prefill
         : any.verify ? Phase::verify
         : any.replay ? Phase::graph_decode
                      : Phase::eager_decode;
}

// Refusals of the engine's rule and of FlashInfer's Python class (R <= cap) come before anything is launched. Says
// whether the rank's sizes count: it takes part, or would but for the cap.
bool classify(int rank, const RankDecision& decision, const RankGeometry& own, const DecidedStep& step,
              Judgement& said) {
  const bool gathers = leaves(decision);
  if (!gathers && (decision.exceeds_cap || own.runtime_max_tokens_per_rank > own.max_num_tokens)) {
    said.over_capacity.add(rank);
    said.refused.add(rank);
    return true;
  }
  if (decision.raised || (!gathers && step.refuses_dispatch)) {
    said.refused.add(rank);
    return false;
  }
  if (gathers) {
    said.gathering.add(rank);
    return false;
  }
  said.taking_part.add(rank);
  // FlashInfer does not check this either; the kernel would leave its tables. The simulated rank stops here.
  if (exceeds_tables(own, step)) said.table_overflow.add(rank);
  return true;
}

Verdict verdict_of(const Judgement& said) {
  if (said.nobody_gets_in() && said.gathering.empty()) return Verdict::rejected;
  const bool together = !said.stopped || said.nobody_enters();
  if (!said.geometry.agrees() || !together || !said.refused_by_rule().empty()) return Verdict::disagrees;
  const bool fits =
      said.over_capacity.empty() && said.geometry.receive_overflow.empty() && said.geometry.refuses_combine.empty();
  return fits ? Verdict::agrees : Verdict::over_capacity;
}

}  // namespace

Phase phase_of(std::span<const RankDecision> decisions) { return phase_of(look_at(decisions)); }

std::optional<FailedCapture> failed_capture(const Deployment& deployment) {
  for (std::size_t bucket = 0; bucket < deployment.baked.size(); ++bucket)
    for (const SizingDecision& rank : deployment.baked[bucket])
      if (rank.runtime_max_tokens_per_rank > deployment.max_num_tokens)
        return FailedCapture{deployment.capture_bs[bucket], rank.runtime_max_tokens_per_rank,
                             deployment.graph_max_bs.is_explicit};
  return std::nullopt;
}

void Judgement::gather_differs_at(int rank) {
  A2ASIM_INVARIANT(gathering.contains(rank), "the rank is in the all-gatherv");
  gather_disagreeing_rank = rank;
  stopped = true;
  verdict = Verdict::disagrees;
}

// NCCL does not compare them either: whoever expects more rows than are sent waits forever, the others misplace them.
void judge_gather(Judgement& said, const Decider& decider, std::size_t ranks) {
  if (said.gathering.empty()) return;
  const std::size_t every = (ranks + RankMask::kMost - 1) / RankMask::kMost;
  const std::size_t first = static_cast<std::size_t>(said.gathering.first()) * every;
  for (const int bit : said.gathering) {
    const std::size_t rank = static_cast<std::size_t>(bit) * every;
    const auto list = decider.dp_global(rank), other = decider.dp_global(first);
    const bool same_list = decider.gathers_by_list() && list && other && std::ranges::equal(*list, *other);
    if (rank == first || same_list || decider.gather_sizes(rank) == decider.gather_sizes(first)) continue;
    return said.gather_differs_at(bit);
  }
}

Judgement judge(const DecidedStep& step) {
  const std::size_t every = (step.decisions.size() + RankMask::kMost - 1) / RankMask::kMost;
  A2ASIM_INVARIANT(step.slices.empty() || (every <= 1 && step.slices.size() == step.decisions.size()),
                   "slices: none, or one a rank");
  Judgement said;
  const Seen any = look_at(step.decisions);
  said.phase = phase_of(any);
  if (!any.participates) return said;
  const auto ep_size = static_cast<std::int64_t>(step.decisions.size());
  said.group = RankMask::all(static_cast<int>((step.decisions.size() + every - 1) / every)) - step.masked;
  RankGeometry one_size{.max_num_tokens = step.max_num_tokens,
                        .slice_bytes = std::numeric_limits<std::int64_t>::max()};
  for (const int rank : said.group - step.absent) {
    const RankDecision& decision = step.decisions[static_cast<std::size_t>(rank) * every];
    if (!decision.participates) continue;
    if (step.slices.empty()) {
      one_size.runtime_max_tokens_per_rank = decision.sizing.runtime_max_tokens_per_rank;
      one_size.local_num_tokens = sent_rows(decision);
    }
    const RankGeometry& own = step.slices.empty() ? one_size : step.slices[static_cast<std::size_t>(rank)];
    A2ASIM_INVARIANT(own.runtime_max_tokens_per_rank == decision.sizing.runtime_max_tokens_per_rank,
                     "slices say the R that was decided");
    if (classify(rank, decision, own, step, said)) said.geometry.add(rank, own, ep_size);
  }
  const RankMask cannot = said.taking_part & (said.geometry.refuses_dispatch | said.table_overflow);
  said.refused |= cannot;
  said.taking_part -= cannot;
  const RankMask anybody = said.taking_part | said.gathering | said.refused;
  said.stopped = !anybody.empty() && said.taking_part != said.group && said.gathering != said.group;
  said.verdict = verdict_of(said);
  return said;
}

}  // namespace a2asim
