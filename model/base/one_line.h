// What somebody else wrote, safe to print: the one escape of the program.
//
//   fmt::format("now {}", one_line(value, 60))
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace a2asim {

// Bytes of the character at the front of `text` if it can be shown as it is; 0 for control characters (C0, DEL, C1),
// marks that turn the direction of text, separators of lines, tags that cannot be seen, and bytes that are no UTF-8.
std::size_t printable_length(std::string_view text);

// Such characters as escapes: \n, \x1b, \u202e. Text of several lines keeps its line ends and tabs.
enum class LineEnds { escaped, kept };
std::string escaped(std::string_view text, LineEnds ends = LineEnds::escaped);

// escaped(), cut after `max_bytes` with "..".
std::string one_line(std::string_view text, std::size_t max_bytes = 400);

}  // namespace a2asim
