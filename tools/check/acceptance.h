// Which findings do not count: those that a comment or a2asim.toml ignores with a reason, and those of a baseline.
#pragma once

#include <set>
#include <string>

#include "tools/check/check_formats.h"
#include "tools/check/server_check.h"

namespace a2asim {

// The fingerprints in an earlier `check --format json` or sarif.
using Baseline = std::set<std::string, std::less<>>;
// Errors: bad_input; a file that is not there is answered with the command that writes one.
Result<Baseline> read_baseline(const std::string& path);

// Fills checked.ignored. Errors: bad_input, a comment without a reason or with an id that is none.
Result<void> mark_ignored(const LaunchText& text, const PreparedServer& prepared, const Baseline& baseline,
                          CheckedServer& checked);

}  // namespace a2asim
