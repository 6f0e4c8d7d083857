// DP chunking (forward_impl_chunked; v0.9.0 to #39107): a step with more tokens than the buffer of a rank holds goes
// through the all-to-all in several rounds, as many on every rank.
#pragma once

#include <algorithm>
#include <cstdint>

#include "model/base/clamped_math.h"

namespace a2asim::vllm {

// most_tokens: of a data-parallel rank; each of its `sp` sequence-parallel ranks has its share.
constexpr std::int64_t num_rounds(std::int64_t most_tokens, std::int64_t sp, std::int64_t chunk) {
  return ceil_div(ceil_div(most_tokens, sp), chunk);
}

// Rows that a rank with `rows` gives to a round: one that is through sends its last row again.
constexpr std::int64_t rows_of_round(std::int64_t rows, std::int64_t round, std::int64_t chunk) {
  return std::clamp<std::int64_t>(rows - round * chunk, 1, chunk);
}

}  // namespace a2asim::vllm
