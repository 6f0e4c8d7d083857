// What to change in a launch that SGLang refuses while it reads its arguments.
//
// Nothing is promised that was not tried: each change is applied to the arguments as they were given, and the start-up
// rules are run again.
#pragma once

#include "model/engines/sglang/start/server_args_start.h"
#include "model/step/fix.h"

namespace a2asim {

// `refused` is what start_up(rules, given, env) came to, with its error.
Advice fix_for_start(const StartRules& rules, const ServerArgs& given, const Environment& env,
                          const StartOutcome& refused);

}  // namespace a2asim
