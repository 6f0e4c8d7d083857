// The one judgement of a step: from what every rank decided to who takes part, who leaves the all-to-all, who refuses,
// whether the others agree and fit, and which phase it is. check, explore, the simulated cluster and plan all ask here.
//
//   const Judgement said = judge({.decisions = decider->decide(batches), .max_num_tokens = deployment.max_num_tokens});
//   if (said.verdict == Verdict::disagrees) ..
//
// It allocates nothing. With more than 64 ranks, which FlashInfer refuses, it looks at every n-th of them, the first
// included, and bit b of a mask is rank n * b.
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>

#include "model/alltoall/geometry.h"
#include "model/base/rank_mask.h"
#include "model/step/decider.h"
#include "model/step/deployment.h"
#include "model/step/finding.h"
#include "model/step/rank_decision.h"
#include "model/step/verdict.h"

namespace a2asim {

struct DecidedStep {
  std::span<const RankDecision> decisions;  // one an expert-parallel rank
  // The cap, where no `slices` say it rank by rank.
  std::int64_t max_num_tokens = std::numeric_limits<std::int64_t>::max();
  std::span<const RankGeometry> slices = {};  // how each rank built its workspace, with the R and the rows decided
  RankMask absent = {};                       // make no call, and their peers wait for them unless they know (`masked`)
  RankMask masked = {};
  bool refuses_dispatch = false;  // FlashInfer refuses every dispatch, whatever the batch (Deployment::launch_error)
  // The top-k tables hold max_num_tokens * max_top_k / top_k rows; 0: not asked.
  std::int64_t max_top_k = 0, top_k = 1;
};

struct Judgement {
  Verdict verdict = Verdict::agrees;  // the gravest
  Phase phase = Phase::eager_decode;
  bool stopped = false;              // somebody refuses, or waits forever: nothing can follow
  RankMask group;                    // who should take part; empty: the step has no work
  RankMask taking_part;              // in the all-to-all
  RankMask gathering;                // left it for the all-gatherv that stands in its place (#35758, prefill)
  RankMask refused;                  // an assertion or host check of SGLang or FlashInfer raises
  RankMask over_capacity;            // of these: because R is above the cap
  RankMask table_overflow;           // of these: more rows than the top-k tables hold
  int gather_disagreeing_rank = -1;  // the first whose sizes of the all-gatherv differ from those of the first in it
  GeometryVerdict geometry;          // of taking_part and over_capacity: who agrees, the overflow, the largest numbers

  // Nobody is left to wait for those who refuse.
  bool nobody_enters() const { return taking_part.empty() && gathering.empty(); }
  RankMask refused_by_rule() const { return refused - over_capacity - table_overflow; }
  // Everybody who would enter the all-to-all is refused, by the rule: with a first batch like this the server never
  // gets going. Ranks that left for the all-gatherv wait there, so that the step itself may still be a disagreement.
  bool nobody_gets_in() const { return taking_part.empty() && !refused.empty() && refused_by_rule() == refused; }
  bool no_all_to_all() const { return taking_part.empty() && refused.empty(); }
  std::int64_t largest_tokens_per_rank() const { return std::max(geometry.largest_r, geometry.largest_tokens); }
  // Ranks in the all-gatherv expect different sizes of each other.
  void gather_differs_at(int rank);
};

Judgement judge(const DecidedStep& step);
// Whether those in the all-gatherv of the step that `decider` decided last, of so many ranks, expect the same sizes.
void judge_gather(Judgement& said, const Decider& decider, std::size_t ranks);

// Rows that the rank gives to dispatch, the dummy token included.
constexpr std::int64_t sent_rows(const RankDecision& decision) {
  const bool adds_dummy = !decision.replay && decision.sizing.has_dummy_token;
  return adds_dummy && decision.rows < 1 ? 1 : decision.rows;
}
// In place of the all-to-all, should it not raise before.
constexpr bool leaves(const RankDecision& decision) {
  return decision.sizing.branch == SizingBranch::allgather_prefill;
}
// By the rule itself, and not because of the cap.
inline bool raises(const RankDecision& decision) { return decision.raised && !decision.exceeds_cap; }

// Graphs are captured before any request, and SGLang asserts R <= cap there too: the first bucket that is above it.
// Where the command leaves the capture sizes to the machine, the assumed ones prove nothing: `is_settled` is false.
struct FailedCapture {
  std::int64_t bucket = 0;
  std::int64_t runtime_max_tokens_per_rank = 0;
  bool is_settled = true;
};
std::optional<FailedCapture> failed_capture(const Deployment& deployment);

Phase phase_of(std::span<const RankDecision> decisions);

// R is at least four times the rows of the fullest rank: worth a note.
constexpr bool is_wasteful(std::int64_t runtime_max_tokens_per_rank, std::int64_t rows) {
  return rows > 0 && runtime_max_tokens_per_rank >= 4 * rows;
}

}  // namespace a2asim
