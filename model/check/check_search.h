// The search behind check_deployment: which batches are tried, and the smallest one that shows each kind of trouble.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "model/step/deployment.h"
#include "model/step/finding.h"
#include "model/step/judgement.h"

namespace a2asim {

// A batch with trouble, as decided. Ranks are data-parallel ranks.
struct TroubledBatch {
  Phase phase = Phase::eager_decode;
  std::vector<RankBatch> batches;
  std::vector<RankDecision> decisions;  // one a DP rank (its first expert-parallel rank)
  bool limits_are_explicit = true;      // every count is within a limit that the command states
  // Where ranks in an all-gatherv expect different sizes: the first rank, the one that differs, and what they expect.
  struct Gather {
    std::int64_t rank = 0;
    std::vector<std::int64_t> sizes;
  };
  std::vector<Gather> gathers = {};
};

// What was found in one phase.
struct PhaseOutcome {
  std::int64_t tried = 0;
  std::optional<TroubledBatch> disagrees;        // ranks compute different R, or some raise while others go on
  std::optional<TroubledBatch> over_cap;         // R above the cap: asserted by SGLang or FlashInfer
  std::optional<TroubledBatch> silent_overflow;  // more rows than R on a rank, unchecked
  std::int64_t largest_tokens_per_rank =
      0;                            // the largest R wanted, or rows, in any batch: what the cap would have to be
  std::int64_t least_wasted_r = 0;  // R of the smallest batch, to show waste
  std::int64_t least_rows = 0;      // the largest rows of a rank in that batch
};

// Two batches of different R: experts read rows of the second that nobody filled, over what the first left there.
struct UnusedRows {
  TroubledBatch before, now;
};

struct SearchResult {
  std::array<PhaseOutcome, 5> phases;  // by Phase
  // Decode-like and prefill forwards apart.
  struct Kind {
    std::int64_t tried = 0;
    bool first_raises = false;  // the smallest batch is refused by a rule on every rank: the first request fails
    std::int64_t over_cap = 0;  // batches stopped by the cap assertion
    std::optional<TroubledBatch> raises;  // the smallest batch that every rank refuses
  };
  Kind decode, prefill;
  std::optional<TroubledBatch> idle;      // a step without any request, which every rank runs and FlashInfer refuses
  std::optional<TroubledBatch> capture;   // the smallest bucket that does not fit; captured before any request
  std::optional<UnusedRows> unused_rows;  // in a version that does not sanitize them
  PhaseOutcome draft;                     // steps of the draft model where they are wider than a verify step
  PhaseOutcome& at(Phase phase) { return phases[static_cast<std::size_t>(phase)]; }
  const PhaseOutcome& at(Phase phase) const { return phases[static_cast<std::size_t>(phase)]; }
};

SearchResult search_batches(const Deployment& deployment);

// What the ranks expect in the all-gather of the batch that `decider` decided last, of so many ranks.
void keep_gathers(const Judgement& said, const Decider& decider, std::size_t ranks, TroubledBatch& batch);

// Every count is within a limit that the command states; a single one is always.
bool within_stated_limits(const Deployment& deployment, std::span<const RankBatch> batches);

// A batch pattern: one rank has `first`, all others have `others`. Disagreement needs two different ranks only, and
// every rule in use looks at nothing but its own count, the largest count and the sum.
struct BatchPattern {
  RankBatch first;
  RankBatch others;
  bool operator==(const BatchPattern&) const = default;
};

// Both sides of every number at which a decision can change; in no order. Empty where the phase cannot be reached.
std::vector<BatchPattern> decode_patterns(const Deployment& deployment);
std::vector<BatchPattern> prefill_patterns(const Deployment& deployment);

}  // namespace a2asim
