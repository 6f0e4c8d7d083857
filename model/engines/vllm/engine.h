// vLLM as an engine: what model/step/engine.h asks for.
#pragma once

#include "model/step/engine.h"

namespace a2asim {

extern const Engine kVllm;

}  // namespace a2asim
