// The lines of a log as the steps of a scenario, and what there is to say about how they came about.
#pragma once

#include <string>
#include <vector>

#include "model/base/result.h"
#include "model/step/deployment.h"
#include "tools/from_log/from_log.h"

namespace a2asim {

// Fills steps, counts and notes of `out`. The result has one comment a step: where it comes from.
// Errors: bad_input when nothing can be placed, or when the steps are more than a scenario file holds.
Result<std::vector<std::string>> add_steps(const LogContents& log, const FromLogOptions& options,
                                           const Deployment& deployment, FromLog& out);

tl::unexpected<Error> too_many_steps(const FromLog& out);

// "line 4", "lines 3, 7 and 12 more".
std::string line_numbers(const std::vector<std::size_t>& first, std::size_t count);

}  // namespace a2asim
