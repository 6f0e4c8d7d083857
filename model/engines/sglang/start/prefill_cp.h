// Prefill context parallelism, which SGLang lets the model decide: it forces DP attention, dense MLPs on every rank, an
// attention that is split over all of a replica, and for most an all-to-all over DeepEP.
//
// SGLang: ServerArgs._handle_model_specific_adjustments (server_args.py), from June 2026 _deepseek_family_overrides
// (arg_groups/overrides.py) and validate_deepseek_v4_cp (arg_groups/deepseek_v4_hook.py).
#pragma once

#include <optional>

#include "model/engines/sglang/start/server_args_start.h"

namespace a2asim {

// Runs before the handlers. What it raises is its answer.
std::optional<Error> handle_prefill_context_parallelism(const StartRules& rules, StartOutcome& outcome);

}  // namespace a2asim
