// The search for a world that breaks a law, without a test framework:
//
//   const auto broken = find_broken(law("agreement"), "pr30450", my_rule, {.worlds = 1000});
//   if (broken) std::cout << broken->why << to_yaml(broken->smallest);
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "property_tests/law.h"

namespace a2asim::props {

struct Broken {
  std::int64_t cases = 0;  // tried up to and with the failing one
  Scenario drawn;          // as it was found
  Scenario smallest;       // after shrinking
  std::string why;         // of the smallest
};

struct Search {
  std::uint64_t seed = 30242;
  std::int64_t worlds = 100;
};

// With a rule of one's own, or with an empty one for the version's. Nothing: all worlds keep the law.
std::optional<Broken> find_broken(const Law& law, std::string_view version, const SizingRule& rule,
                                  const Search& search = {});

}  // namespace a2asim::props
