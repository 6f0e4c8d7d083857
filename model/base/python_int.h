// Numbers in text, read the way Python's int() reads them: python_int("4_096").value == 4096.
#pragma once

#include <cstdint>
#include <string_view>

namespace a2asim {

// What Python's int() makes of a text: blanks around it, a sign, single underscores between digits. A number outside
// int64 is `too_large`, with value the nearest int64.
struct PythonInt {
  enum class Status : std::uint8_t { ok, invalid, too_large };
  Status status = Status::invalid;
  std::int64_t value = 0;
};
PythonInt python_int(std::string_view text);

std::string_view python_strip(std::string_view text);  // str.strip() of ASCII text
inline bool is_digit(char c) { return c >= '0' && c <= '9'; }

}  // namespace a2asim
