// What a person gave, safe to print:  fmt::format("now {}", one_line(value, 60))
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace a2asim {

// Control characters written as escapes, and cut after `max_bytes` with "..": what a person gave, safe to print in one
// line of a terminal.
std::string one_line(std::string_view text, std::size_t max_bytes = 400);

}  // namespace a2asim
