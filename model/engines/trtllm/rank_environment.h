// Variables that only some ranks have: "2048 on rank 0 only", "1 on ranks 8..15 only".
#pragma once

#include <cstdint>

#include "model/base/result.h"
#include "model/launch/environment.h"

namespace a2asim::trtllm {

// What `rank` has of it. Errors: bad_input for ranks that cannot be read.
Result<Environment> environment_of(const Environment& env, std::int64_t rank);

}  // namespace a2asim::trtllm
