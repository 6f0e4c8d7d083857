#include "sim/scenario/witness_steps.h"

namespace a2asim {
namespace {

std::optional<Step> step_of(const CheckWitness& witness) {
  Step step;
  for (std::size_t rank = 0; rank < witness.tokens_per_dp_rank.size(); ++rank) {
    if (rank >= witness.modes.size()) return std::nullopt;
    const Result<ForwardMode> mode = parse_forward_mode(witness.modes[rank]);
    if (!mode || witness.tokens_per_dp_rank[rank] > kMaxScenarioTokens) return std::nullopt;
    step.mode.push_back(*mode);
    step.tokens.push_back(witness.tokens_per_dp_rank[rank]);
  }
  return step;
}

}  // namespace

std::vector<Step> witness_steps(const CheckFinding& finding, int turns) {
  const std::optional<Step> step = finding.witness ? step_of(*finding.witness) : std::nullopt;
  if (!step) return {};
  if (!finding.before) return {*step};
  const std::optional<Step> before = step_of(*finding.before);
  std::vector<Step> steps;
  for (int turn = 0; before && turn < turns; ++turn) steps.insert(steps.end(), {*before, *step});
  return steps;
}

}  // namespace a2asim
