// What a slice must hold after a dispatch of agreeing ranks, by the plainest loops: independent of every backend.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "sim/alltoall/batch_data.h"

namespace a2asim::conformance {

// tokens[source][destination]: the tokens that source sends there, in slot order.
using SentTokens = std::vector<std::vector<std::vector<std::int64_t>>>;
SentTokens sent_tokens(const std::vector<AllToAllConfig>& configs, const std::vector<TokenBatch>& batches);

// Checks counters, top-k tables and every received row of every payload in every slice; with `invalid_id`, that the id
// rows at and above the counters hold it. runtime_max: everybody's R.
void check_received(AllToAll& all_to_all, const std::vector<AllToAllConfig>& configs,
                    const std::vector<TokenBatch>& batches, std::int64_t runtime_max, const std::int32_t* invalid_id);

// Combine's outputs against the exact order of operations (bit for bit) and against the float64 oracle.
void check_outputs(const std::vector<AllToAllConfig>& configs, const std::vector<TokenBatch>& batches,
                   const ExpertPayloads& payloads, const std::vector<std::vector<std::byte>>& outputs);

std::vector<DispatchInput> inputs_of(const std::vector<TokenBatch>& batches, std::int64_t runtime_max);

}  // namespace a2asim::conformance
