// One all-to-all against plain loops: shared by the laws and by the walk over all routings.
#pragma once

#include <string>
#include <vector>

#include "property_tests/law.h"
#include "sim/conformance/laws.h"

namespace a2asim::props {

using conformance::Contents;
using conformance::Round;

// Every byte of every slice after dispatch, sanitize and experts, and combine's outputs, round after round in one
// workspace of exactly the computed size. "" or the first difference.
std::string judge_rounds(const Product& product, const AllToAllConfig& config, const std::vector<Round>& rounds);

}  // namespace a2asim::props
