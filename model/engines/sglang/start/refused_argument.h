// What to change in an argument that SGLang's argparse refuses.
#pragma once

#include <span>
#include <string>

#include "model/engines/sglang/generation.h"

namespace a2asim {

// Words that argparse calls unrecognized: the option that was probably meant, the versions that have it, or to leave
// them out.
std::string fix_for_unrecognized(const Generation& generation, std::span<const std::string> words);

// Where a value may be one of a version that is newer than all that is known here: what to give instead of it, or "".
std::string fix_for_newer_choice(const Generation& generation, std::span<const std::string> argv);

// The nearest of the values that this version takes, and the first version that takes the value as it is written.
// `argv` is refused by the option list of `generation` for one of its choices.
std::string fix_for_refused_argument(const Generation& generation, std::span<const std::string> argv);

}  // namespace a2asim
