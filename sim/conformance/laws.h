// Laws of one all-to-all, over any contents: the suite draws worlds for them, the property tests draw and walk more.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "sim/alltoall/batch_data.h"
#include "sim/conformance/bench.h"

namespace a2asim::conformance {

// A rank's batch whose experts may be named anew; its id payload, the last but one, follows.
struct Contents {
  TokenBatch batch;
  std::vector<std::int32_t> ids;
  DispatchInput input(std::int64_t runtime_max) const;
};
using Round = std::vector<Contents>;  // one a rank
std::vector<DispatchInput> inputs_of(const Round& round, std::int64_t runtime_max);
std::int64_t largest_count(const Round& round);  // at least 1

using MakeBench = std::function<Bench(const AllToAllConfig& config)>;  // every rank alike

// Each gives "" or one line. Payloads: hidden states, ids, weights.
std::string conserves_tokens(const MakeBench& make, const AllToAllConfig& config, const std::vector<Round>& rounds);
std::string renaming_experts_changes_nothing(const MakeBench& make, const AllToAllConfig& config,
                                             const std::vector<Round>& rounds);
std::string permuting_ranks_permutes_rows(const MakeBench& make, const AllToAllConfig& config,
                                          const std::vector<Round>& rounds, std::int64_t steps);
// Of captured contents a graph keeps the sizes only. One bench runs by graph, one eagerly.
std::string replay_equals_eager(const MakeBench& make, const AllToAllConfig& config, const std::vector<Round>& captured,
                                const std::vector<Round>& rounds);

}  // namespace a2asim::conformance
