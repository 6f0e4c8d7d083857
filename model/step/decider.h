// One iteration of the scheduler: the batches of all data-parallel ranks -> what every expert-parallel rank does.
// Check, replay and explore all ask here, so that there is one code path for decisions.
//
//   const std::unique_ptr<Decider> decider = deployment.make_decider();  // the deployment outlives it
//   for (const RankDecision& rank : decider->decide(batches)) ..
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "model/step/rank_batch.h"
#include "model/step/rank_decision.h"

namespace a2asim {

class Decider {
 public:
  virtual ~Decider() = default;

  // batches: one a DP rank. faults: none, or one an EP rank. The result has one entry an EP rank, valid until the next
  // call. Keeps the counts of the step for a later stale_counts. Allocates nothing unless a rank raises.
  virtual std::span<const RankDecision> decide(std::span<const RankBatch> batches,
                                               GraphChoice graph = GraphChoice::engine,
                                               std::span<const RankFault> faults = {}) = 0;

  // --- of the last step
  // The counts as they were exchanged (before a collapse and before any fault).
  virtual std::span<const std::int64_t> counts() const = 0;
  // The list that an EP rank's rule saw; nothing when it saw none.
  virtual std::optional<std::span<const std::int64_t>> dp_global(std::size_t ep_rank) const = 0;
  // Of an EP rank that leaves the all-to-all for an all-gatherv: the rows that it expects of every rank.
  virtual std::vector<std::int64_t> gather_sizes(std::size_t ep_rank) const = 0;
  // Ranks with equal lists expect equal sizes.
  virtual bool gathers_by_list() const { return true; }
};

}  // namespace a2asim
