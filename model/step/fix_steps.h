// Fixes beside the plain ones of fix.h.
#pragma once

#include <initializer_list>
#include <string>

#include "model/step/fix.h"

namespace a2asim {

Fix choose(std::string words);  // what no program can do
Fix at_least(Fix fix);          // larger values do, too
Fix all_of(std::initializer_list<Fix> fixes);

}  // namespace a2asim
