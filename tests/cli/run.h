// The program, run in this process: everything but the process itself (that is process_test.cpp).
#pragma once

#include <sstream>
#include <string>
#include <vector>

#include "tools/program/program.h"

namespace a2asim {

struct Outcome {
  int exit_code = -1;
  std::string out;
  std::string err;
};

inline Outcome run(const std::vector<std::string>& args, const std::string& input = "", bool in_is_terminal = false) {
  std::istringstream in(input);
  std::ostringstream out;
  std::ostringstream err;
  Io io{in, out, err, in_is_terminal, false};
  const int exit_code = run_program(args, io);
  return {exit_code, out.str(), err.str()};
}

}  // namespace a2asim
