// SGLang as an engine: what model/step/engine.h asks for.
#pragma once

#include "model/engines/sglang/generation.h"
#include "model/step/engine.h"

namespace a2asim {

extern const Engine kSglang;

// One of kSglang's versions, with its rules.
inline const Generation& as_generation(const Version& version) { return static_cast<const Generation&>(version); }

}  // namespace a2asim
