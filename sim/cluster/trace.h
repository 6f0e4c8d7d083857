// A replay as Chrome trace events (JSON), for chrome://tracing or https://ui.perfetto.dev.
//
// One track a rank, complete events only. Time is made up and exact: a row that is sent, computed over or read back
// takes one microsecond, and a collective ends for all ranks with the slowest. So what is wide in the picture is what
// moves or computes many row slots, wasted ones included.
#pragma once

#include <string>

#include "sim/cluster/replay.h"

namespace a2asim {

// Of the steps that the report kept.
std::string chrome_trace(const ReplayReport& report);

}  // namespace a2asim
