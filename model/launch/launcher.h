// Inside launch reading: what stands in front of a server's command, mpirun, srun or docker run, and says about it.
#pragma once

#include <span>
#include <vector>

#include "model/launch/launch_command.h"
#include "model/launch/shell_expand.h"

namespace a2asim {

// `before`: the words in front of the front end. Sets the image, which variables reach every rank, and those that only
// some ranks have: `mpirun -n 1 -x A=1 SERVER : -n 7 SERVER` gives A the value "1 on ranks 0..0 only".
void read_launcher(std::span<const ShellValue> before, LaunchCommand& command);

// mpirun -n 1 SERVER : -n 1 OTHER: each as a command of its own. Empty where all start the same server.
std::vector<std::vector<ShellValue>> programs_of_mpi(std::span<const ShellValue> words);

}  // namespace a2asim
