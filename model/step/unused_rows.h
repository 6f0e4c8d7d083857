// Receive rows that nobody filled, where a version does not sanitize them: what integers tell of the bytes.
//
// Experts run over all [ep_size, R] rows. What an unfilled row holds was left there by an earlier step. Expert ids of
// that step are alive and cost time only; bytes that nobody wrote are an id of no harm, too. But a step with another R
// lays out its regions elsewhere: then the row's ids are hidden states, weights or expert outputs, read as expert ids.
// On hardware that is an illegal memory access.
//
//   if (reads_foreign_bytes(before, now, shape)) ..   // `now` comes some time after `before`
//
// Which slots a token fills is up to the router, which integers do not know: the answer is whether some routing does
// it. A server meets it sooner or later, and so does a replay of the two steps in turn.
#pragma once

#include <cstdint>
#include <vector>

#include "model/step/model_shapes.h"

namespace a2asim {

// What a token takes in the slice of a destination.
struct RowShape {
  std::int64_t hidden_bytes = 0;  // also of an expert output
  std::int64_t top_k = 0;         // int32 ids, float32 weights
  std::int64_t num_experts = 0;
};

// A step that ran: everybody took part with one R.
struct SentRows {
  std::int64_t runtime_max_tokens_per_rank = 0;
  std::vector<std::int64_t> rows;  // by rank. A dummy token is none: its bytes are zeros
};

// The same step as a router that spreads tokens evenly is sure to deliver it: about half of a rank's share.
SentRows surely_delivered(SentRows sent, const RowShape& shape);

bool reads_foreign_bytes(const SentRows& before, const SentRows& now, const RowShape& shape);

}  // namespace a2asim
