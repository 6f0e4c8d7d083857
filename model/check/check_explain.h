// The words of a check: what happens on hardware, why, and what to change. Text only; no decision is taken here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "model/check/check.h"
#include "model/check/check_search.h"

namespace a2asim {

CheckWitness to_witness(const TroubledBatch& batch);

// "ranks 1..3: 2" style: equal neighbours are folded.
std::string fold_ranks(const std::vector<std::string>& per_rank);

// Something to know, with no witness.
CheckFinding make_note(FindingKind kind, Phase phase, std::string message, std::string fix = {});

CheckFinding explain_disagreement(const Deployment& deployment, const TroubledBatch& batch);
CheckFinding explain_over_capacity(const Deployment& deployment, const TroubledBatch& batch,
                                   std::int64_t needed_tokens);
CheckFinding explain_capture(const Deployment& deployment, const TroubledBatch& batch);
CheckFinding explain_draft(const Deployment& deployment, const PhaseOutcome& draft);
CheckFinding explain_silent_overflow(const Deployment& deployment, const TroubledBatch& batch,
                                     std::int64_t needed_tokens);
CheckFinding explain_rejection(const Rejection& rejection);
// The server runs, and stops as soon as it has nothing to do: an error beside the verdict on its batches.
CheckFinding explain_idle_step(const Deployment& deployment, const TroubledBatch& batch);
CheckFinding explain_every_forward(const Deployment& deployment, const TroubledBatch& batch);
CheckFinding explain_waste(const Deployment& deployment, Phase phase, std::int64_t r, std::int64_t rows);

}  // namespace a2asim
