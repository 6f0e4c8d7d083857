// The rows behind generation.h.
#pragma once

#include "model/engines/trtllm/generation.h"

namespace a2asim::trtllm {

std::vector<Generation> make_generations();  // oldest first
std::span<const Hazard> hazards();

}  // namespace a2asim::trtllm
