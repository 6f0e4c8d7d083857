// From the witness of a check's finding to the steps that show it in a replay.
//
//   scenario.steps = witness_steps(finding);   // empty: it has none, or one too large to carry
//
// Two batches of which the later one reads what the earlier left are replayed in turn, because which rows stay unfilled
// is up to the routing.
#pragma once

#include <vector>

#include "model/check/check.h"
#include "sim/scenario/scenario.h"

namespace a2asim {

std::vector<Step> witness_steps(const CheckFinding& finding, int turns = 32);

}  // namespace a2asim
