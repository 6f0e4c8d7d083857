// What the worlds of a run are like: a law that has seen no idle rank says nothing of idle ranks.
#pragma once

#include <cstdint>
#include <string>

#include "sim/scenario/scenario.h"

namespace a2asim::props {

struct Shares {
  std::int64_t worlds = 0;
  // Of these:
  std::int64_t idle = 0;       // a step in which some ranks have no work, and others have
  std::int64_t unequal = 0;    // a step of unequal counts
  std::int64_t at_edge = 0;    // a count at a bucket, one above it, or at the rank's limit
  std::int64_t remainder = 0;  // experts that do not divide among the ranks
  std::int64_t several_steps = 0;
  std::int64_t graphs = 0;
  std::int64_t must_replay = 0;                              // graph: true
  std::int64_t mixed = 0, draft_extend = 0, named_idle = 0;  // modes

  void count(const Scenario& world);
  void add(const Shares& other);
};
std::string text(const Shares& shares);  // parts of a thousand

}  // namespace a2asim::props
