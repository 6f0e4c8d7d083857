// The program without its process: arguments in, exit code out.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tools/program/io.h"

namespace a2asim {

std::string_view program_version();  // "0.1.0"

// args: without the program's name. Never throws; what cannot be used is one line on io.err.
int run_program(const std::vector<std::string>& args, Io& io);

}  // namespace a2asim
