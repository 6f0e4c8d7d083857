// Should a law abort (A2ASIM_INVARIANT) or crash, the world that it was given is told all the same.
#pragma once

#include <string_view>

#include "property_tests/run.h"

namespace a2asim::props {

// While one lives, SIGABRT, SIGSEGV, SIGBUS, SIGFPE and SIGILL print what report() would say of the world being tried,
// write its file, and end the process. One at a time.
class LastWords {
 public:
  LastWords(const Law& law, std::string_view run, std::string_view generation, const RunParams& params);
  ~LastWords();
  LastWords(const LastWords&) = delete;
  LastWords& operator=(const LastWords&) = delete;

  // nullptr: none. `world` outlives the trial of it; nothing is copied, an exhaustive walk passes millions.
  void trying(const Scenario* world, std::int64_t number);
};

}  // namespace a2asim::props
