#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <string>
#include <vector>

#include "tools/program/program.h"

namespace {

bool wants_colour() {
  const char* no_color = std::getenv("NO_COLOR");
  const char* term = std::getenv("TERM");
  const bool refused =
      (no_color != nullptr && *no_color != '\0') || (term != nullptr && std::strcmp(term, "dumb") == 0);
  return !refused && isatty(STDOUT_FILENO) == 1;
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // `a2asim .. | head` is no crash: writes fail instead, see below
  a2asim::Io io{std::cin,
                std::cout,
                std::cerr,
                isatty(STDIN_FILENO) == 1,
                wants_colour(),
                isatty(STDERR_FILENO) == 1,
                isatty(STDOUT_FILENO) == 1};
  const int exit_code = a2asim::run_program({argv + (argc > 0 ? 1 : 0), argv + argc}, io);
  errno = 0;
  std::cout.flush();
  if (!std::cout && errno != EPIPE) {
    std::cerr << "a2asim: cannot write to standard output: " << std::strerror(errno) << "; the result is lost\n";
    return a2asim::kUnusableInput;
  }
  return exit_code;
}
