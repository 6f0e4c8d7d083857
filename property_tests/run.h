// Runs a law over random worlds (rapidcheck draws, shrinks and counts) or over all small ones.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "property_tests/law.h"
#include "property_tests/shares.h"

namespace a2asim::props {

// RC_PARAMS, rapidcheck's own variable: "seed=7 max_success=1000". Without it the seed is fixed, so that every run of
// CI tries the same worlds.
struct RunParams {
  std::uint64_t seed = 30242;
  int max_success = 100;  // worlds a law and generation; laws scale it by themselves
  std::string wrong;      // why RC_PARAMS cannot be used; rapidcheck itself would go on with its defaults
};
RunParams run_params(const char* rc_params);

struct Failure {
  std::int64_t cases = 0;  // tried up to and with the failing one
  Scenario drawn;          // as it was found
  Scenario smallest;       // after shrinking
  std::string why;         // of the smallest
};
struct RunResult {
  std::int64_t cases = 0;
  Shares shares;  // of the worlds of a random run, up to the first failure
  std::optional<Failure> failure;
};

RunResult run_random(const Law& law, std::string_view generation, const RunParams& params, Marks& marks);
// Every world of the space; stops at the first failure, which is not shrunk.
RunResult run_exhaustive(const Law& law, const Space& space, std::string_view generation, Marks& marks);

// Seed and drawn world first, then the smallest one as a file that `a2asim replay` reads, the line that reproduces
// last. `run`: "random" or "exhaustive", how its test case begins.
std::string report(const Law& law, std::string_view run, std::string_view generation, const Failure& failure,
                   const RunParams& params);

}  // namespace a2asim::props
