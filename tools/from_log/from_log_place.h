// Which batch lines of a log belong to one iteration of the scheduler.
//
// Ranks of one server run in lockstep (they gather their counts in every iteration) and write into one stream, so the
// order of the file is nearly the order of time. Two rules:
// - With iteration numbers ("Decode batch [40]", SGLANG_LOG_FORWARD_ITERS): lines of one kind and one number. Kinds
//   stay apart: in older versions a decode batch bears the number at which its result was read, a prefill its own.
// - Without: lines are sorted by time stamp, equal stamps in the order of the file. A line joins the newest step of its
//   kind if that step began at most `window` before and its rank has no line in it or in a later step; else it begins a
//   step of its own. A step holds prefill lines or decode lines, never both: the log does not say that they coincide.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/step/topology.h"
#include "tools/from_log/from_log_lines.h"

namespace a2asim {

struct LogStep {
  BatchLine::Kind kind = BatchLine::Kind::decode;
  std::optional<std::int64_t> time_ms;  // of its first line
  std::optional<std::int64_t> iteration;
  std::vector<std::pair<std::size_t, std::size_t>> lines;  // data-parallel rank, index into the batches
};

struct LinePlacement {
  std::vector<LogStep> steps;
  std::vector<std::pair<std::size_t, std::string_view>> not_placed;  // line number, reason
  std::vector<std::size_t> ambiguous;                                // line numbers that fit the step before as well
  std::size_t out_of_order = 0;                                      // lines whose stamp lies before an earlier line's
  bool by_iteration = false;
};

struct PlaceOptions {
  Topology topology;
  std::int64_t window_ms = 1000;
  std::int64_t replica = 0;
};

LinePlacement place_lines(std::span<const BatchLine> batches, const PlaceOptions& options);

}  // namespace a2asim
