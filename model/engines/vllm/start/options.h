// The options of `vllm serve` and of the API server: those of all versions in one set, and since when a version knows
// one that this program reads.
#pragma once

#include <string_view>

#include "model/launch/argparse.h"
#include "model/step/engine.h"

namespace a2asim::vllm {

// A flag's dest is its name without dashes: "tensor-parallel-size".
const OptionSet& options();
// option: a dest.
bool knows(const Version& version, std::string_view option);

}  // namespace a2asim::vllm
