// `plan --report`: what a deployment takes, as one page; a sweep over ep and tokens as heat maps.
#pragma once

#include <string>

#include "tools/plan/plan.h"

namespace a2asim {

std::string plan_page(const Plan& plan);

}  // namespace a2asim
