// What a command may touch: standard input, output and error, handed in so that tests can stand in for them.
#pragma once

#include <istream>
#include <ostream>

namespace a2asim {

struct Io {
  std::istream& in;
  std::ostream& out;  // results
  std::ostream& err;  // messages
  bool in_is_terminal = false;
  bool colour = false;           // out is a terminal, and neither NO_COLOR nor TERM=dumb speaks against it
  bool err_is_terminal = false;  // then long work may show its progress there
  bool out_is_terminal = false;
};

// The exit codes of every command.
inline constexpr int kNothingWrong = 0;
inline constexpr int kErrorFound = 1;     // a finding of severity error
inline constexpr int kUnusableInput = 2;  // said in one line on standard error

}  // namespace a2asim
