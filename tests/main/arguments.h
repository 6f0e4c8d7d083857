// Options of a test program that are not doctest's.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace a2asim::test {

// What follows `name` on the command line.
std::optional<std::string> argument(std::string_view name);

}  // namespace a2asim::test
