// Combine's output against the oracle: NaN, wrong but finite, or right.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "model/alltoall/reference.h"
#include "sim/alltoall/finding_log.h"

namespace a2asim {

// output: [tokens, hidden_size] of `type`, what `rank` got; reference: the oracle for the same tokens. One finding a
// bad token (its first bad element is `value`), copied from `where`, which carries step, layer, phase and root. Returns
// the number of bad tokens. bad_input if sizes do not fit or the type is opaque.
Result<std::int64_t> judge_output(DataType type, std::span<const std::byte> output, const ReferenceResult& reference,
                                  std::int64_t hidden_size, Tolerance tolerance, const Finding& where, FindingLog& log);

}  // namespace a2asim
