// Promises of the program to itself. They stay on in release builds: a wrong answer is worse than a stop.
#pragma once

#include <cstdio>
#include <cstdlib>

namespace a2asim {

[[noreturn]] inline void invariant_failed(const char* condition, const char* file, int line, const char* why) {
  std::fprintf(stderr, "a2asim: internal error: %s (%s) at %s:%d; please report it with the input that led here\n", why,
               condition, file, line);
  std::abort();
}

}  // namespace a2asim

// Host code only. For what a caller or a user can get wrong, return an Error instead.
#define A2ASIM_INVARIANT(condition, why) \
  ((condition) ? static_cast<void>(0) : ::a2asim::invariant_failed(#condition, __FILE__, __LINE__, why))
