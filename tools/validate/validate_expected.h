// What a validation expects of the device's errors, and where in a slice a byte lies.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "model/alltoall/error.h"
#include "sim/cluster/cluster_mirror.h"

namespace a2asim {

// Ranks that would use different sizes in this layer.
bool disagrees(const MirroredLayer& layer);

// Nobody writes another's rows: sizes agree, and no rank has more rows than its R.
bool is_usual(const MirroredLayer& layer);

// What the device has to refuse before any write: the input of the first such rank of `ranks`.
std::optional<AllToAllError> expected_refusal(const MirroredLayer& layer, RankMask ranks);

// Is this among what the error says?
bool names(const Error& error, const AllToAllError& expected);
// Two ranks that really differ, with both values.
bool names_disagreement(const Error& error, const MirroredLayer& layer);
// Every rank that calls waits for every rank that does not. Empty, or what is not said.
std::string unnamed_wait(const Error& error, const MirroredLayer& layer);

// "receive counters, entry 2", "payload 1, rank 0, slot 3, byte 5", ..: by this rank's own configuration and R.
std::string place_in_slice(const AllToAllConfig& config, std::int64_t runtime_max, std::int64_t at_bytes);

}  // namespace a2asim
