// The tokens of a Python text, read as data.
//   for (const PythonToken& token : python_tokens("f(x, 'a')")) ..
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace a2asim {

struct PythonToken {
  enum class Kind : std::uint8_t { name, number, string, sign, end } kind = Kind::end;
  std::string text;
  std::size_t line = 1;
  bool is_open = false;  // a string with fields: f"{x}"
  bool is(std::string_view sign) const { return kind == Kind::sign && text == sign; }
};

// Comments and blanks are left out, escapes of strings are resolved; behind the last one come some of kind `end`, so
// that readers may look ahead. An unclosed string ends with its line, or with the text.
std::vector<PythonToken> python_tokens(std::string_view text);

}  // namespace a2asim
