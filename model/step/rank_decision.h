// What an expert-parallel rank does in a step. Everything below it (routing, workspace, kernels, judgement, reports) is
// the same for every engine.
#pragma once

#include <cstdint>
#include <optional>

#include "model/base/result.h"
#include "model/step/batch.h"
#include "model/step/sizing_rule.h"

namespace a2asim {

// What one expert-parallel rank does in the step.
struct RankDecision {
  bool participates = false;  // false: the step has no work at all, or a fault took the rank away
  bool replay = false;        // a captured graph, else eager
  bool is_extend = false;     // is_extend_in_batch as this rank has it
  ForwardMode mode = ForwardMode::idle;
  std::int64_t bucket = 0;    // requests, when replaying
  std::int64_t rows = 0;      // rows of this rank's hidden states, padding included
  std::int64_t real_rows = 0; // of these, rows that belong to a request
  SizingDecision sizing;      // R and the branch; with `raised`, the R that the rule wanted, or 0
  bool exceeds_cap = false;   // R > max_num_tokens: refused by the engine or FlashInfer in eager and at capture
  std::optional<Error> raised;
};

}  // namespace a2asim
