// One all-to-all against plain loops: shared by the laws and by the walk over all routings.
#pragma once

#include <string>
#include <vector>

#include "property_tests/law.h"
#include "sim/alltoall/batch_data.h"

namespace a2asim::props {

// A rank's batch whose experts may be named anew; its id payload follows.
struct Contents {
  TokenBatch batch;
  std::vector<std::int32_t> ids;
  DispatchInput input(std::int64_t runtime_max) const;
};
using Round = std::vector<Contents>;  // one a rank

// Every byte of every slice after dispatch, sanitize and experts, and combine's outputs, round after round in one
// workspace of exactly the computed size. "" or the first difference.
std::string judge_rounds(const AllToAllConfig& config, const std::vector<Round>& rounds);

}  // namespace a2asim::props
