// A test case that cannot run on this machine calls this and returns.
#pragma once

#include <string>

namespace a2asim::test {

// What ctest takes for skipped.
inline constexpr int kSkipped = 77;

// Prints "SKIPPED: why". Where nothing failed and every test case that ran called it, the program ends with kSkipped.
void skip(const std::string& why);

}  // namespace a2asim::test
