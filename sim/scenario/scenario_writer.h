// A scenario -> YAML that scenario_reader.h reads back as an equal value.
#pragma once

#include <string>

#include "sim/scenario/scenario.h"

namespace a2asim {

// Keys in a fixed order; what has its default value is left out; one step and one fault a line. ASCII only.
std::string to_yaml(const Scenario& scenario);

}  // namespace a2asim
