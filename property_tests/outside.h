// Laws over code outside: property_tests --engine-cmd "PROGRAM ARGS" [--engine-version GEN].
#pragma once

#include <vector>

#include "model/engines/sglang/generation.h"
#include "property_tests/law.h"
#include "tools/program/engine_process.h"

namespace a2asim::props {

// The running program, or nullptr: the versions' own rules are judged. Exits where it cannot be started.
EngineProcess* outside();
// What stands around it where it does not answer; without a program an empty rule.
SizingRule outside_rule();
// The versions whose worlds are drawn: all, or with a program the one that --engine-version names, else the newest.
std::vector<const Version*> judged_versions();
// Whether the version is to break this law: code outside has to keep every one.
bool must_break(const Law& law, std::string_view generation);

}  // namespace a2asim::props
