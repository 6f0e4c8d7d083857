// Validations for people (text) and for programs (JSON).
#pragma once

#include <nlohmann/json.hpp>
#include <span>
#include <string>

#include "tools/validate/validate.h"

namespace a2asim {

// One line a scenario and guard, the checks that failed or were skipped below it; a summary line last.
std::string validations_as_text(std::span<const ScenarioValidation> all, bool colour);

// {tool, device, scenarios: [..], summary: {passed, failed, skipped}}
nlohmann::ordered_json validations_as_json(std::span<const ScenarioValidation> all, const std::string& device);

}  // namespace a2asim
