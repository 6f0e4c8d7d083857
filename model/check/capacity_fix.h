// What to change so that no batch exceeds the cap any more, FlashInfer's or a static one. Every fix is tried: the
// deployment is resolved and judged again with it, and only what cures is offered.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/check/checked_engine.h"

namespace a2asim {

// Settings that cure together; none of them can be left out.
struct CapacityFix {
  std::vector<FixSetting> settings;
  double change = 0;  // how far the numbers move, as the logarithm of their ratios
};

enum class CapacityTrouble : std::uint8_t {
  errors,     // what the command itself admits, or what does not start because of it
  any_notes,  // also what follows from limits that the command leaves open
};

// The smallest change first. `report` is what judge_deployment said of the deployment as it is. Of a flag, the most
// that cures is offered: one more token or request a rank would exceed the cap again.
std::vector<CapacityFix> capacity_fixes(const Deployment& deployment, const CheckReport& report,
                                        CapacityTrouble trouble);

// "set VARIABLE=256 or more (the cap is 255 now), or set --chunked-prefill-size 510 (now 512 / dp_size 2 = 256 a rank)"
Advice advice(std::span<const CapacityFix> fixes);

// The variable alone, untried: `needed_tokens` is what a rank wants.
FixSetting raise_cap_variable(const Deployment& deployment, std::int64_t needed_tokens);

}  // namespace a2asim
