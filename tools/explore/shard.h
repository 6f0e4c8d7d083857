// Which part of an exploration a process takes: --shard I/N, or from the variables of what started it.
#pragma once

#include <functional>
#include <optional>
#include <string>

#include "model/base/result.h"
#include "tools/explore/explore_formats.h"

namespace a2asim {

// "I/N" is counted from 0 or from 1, for 0 and N name the same shard. "auto" reads what a Slurm array, a Kubernetes
// indexed Job or mpirun sets; "auto/N" says how many there are where that does not tell (Kubernetes). variable: getenv.
// Errors: bad_input.
Result<std::optional<Shard>> parse_shard(const std::optional<std::string>& text,
                                         const std::function<const char*(const char*)>& variable);

}  // namespace a2asim
