// Characters: which bytes are UTF-8, and what is escaped before a person sees it.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>

#include "model/base/one_line.h"
#include "model/base/utf8.h"

namespace a2asim {
namespace {

std::string encoded(std::uint32_t code) {
  const auto rest = [&](int shift) { return static_cast<char>(0x80 | (code >> shift & 0x3F)); };
  if (code < 0x80) return {static_cast<char>(code)};
  if (code < 0x800) return {static_cast<char>(0xC0 | code >> 6), rest(0)};
  if (code < 0x10000) return {static_cast<char>(0xE0 | code >> 12), rest(6), rest(0)};
  return {static_cast<char>(0xF0 | code >> 18), rest(12), rest(6), rest(0)};
}

// What Unicode calls controls, marks of direction, separators of lines, tags and what has no width of its own.
bool is_hidden(std::uint32_t code) {
  return code < 0x20 || (code >= 0x7F && code <= 0x9F) || code == 0x61C || code == 0x200E || code == 0x200F ||
         (code >= 0x2028 && code <= 0x202E) || (code >= 0x2066 && code <= 0x2069) || code == 0xFEFF ||
         (code >= 0xFFF9 && code <= 0xFFFB) || (code >= 0xE0000 && code <= 0xE007F);
}

std::string shown(std::uint32_t code) {
  if (!is_hidden(code)) return encoded(code);
  if (code == '\n') return "\\n";
  if (code == '\r') return "\\r";
  if (code == '\t') return "\\t";
  return code < 0x80     ? fmt::format("\\x{:02x}", code)
         : code > 0xFFFF ? fmt::format("\\U{:08x}", code)
                         : fmt::format("\\u{:04x}", code);
}

TEST_CASE("characters: each one of Unicode is as long as RFC 3629 says, and stands as it is or as an escape") {
  std::uint32_t wrong = 0, first = 0;
  for (std::uint32_t code = 0; code < 0x110000; ++code) {
    if (code >= 0xD800 && code <= 0xDFFF) continue;
    const std::string text = encoded(code);
    const bool good = utf8_length(text) == text.size() && utf8_length(text + "x") == text.size() &&
                      printable_length(text) == (is_hidden(code) ? 0 : text.size()) && escaped(text) == shown(code) &&
                      one_line(text) == shown(code);
    if (!good && wrong++ == 0) first = code;
  }
  CHECK_MESSAGE(wrong == 0, wrong, " characters, first ", fmt::format("U+{:04X}", first));
}

TEST_CASE("characters: bytes that are none are found, and shown one by one") {
  std::size_t wrong = 0;
  for (unsigned first = 0x80; first < 0x100; ++first)  // alone, cut, or in front of a letter
    for (const std::string& behind : {std::string(), std::string("a"), std::string("\x80"),
                                      std::string("\xbf"
                                                  "a")}) {
      const std::string text = static_cast<char>(first) + behind;
      const bool is_pair = first >= 0xC2 && first < 0xE0 && !behind.empty() && (behind[0] & 0xC0) == 0x80;
      wrong += utf8_length(text) != (is_pair ? 2U : 0U);
      if (!is_pair) wrong += !escaped(text).starts_with(fmt::format("\\x{:02x}", first)) || printable_length(text) != 0;
    }
  CHECK(wrong == 0);
  for (std::uint32_t code = 0xD800; code <= 0xDFFF; ++code) wrong += utf8_length(encoded(code)) != 0;  // surrogates
  for (std::uint32_t code = 0x110000; code < 0x200000; code += 0x1000) wrong += utf8_length(encoded(code)) != 0;
  CHECK(wrong == 0);
  const auto overlong = [](std::uint32_t code, int bytes) {
    return bytes == 2 ? std::string{static_cast<char>(0xC0 | code >> 6), static_cast<char>(0x80 | (code & 0x3F))}
           : bytes == 3
               ? std::string{'\xE0', static_cast<char>(0x80 | code >> 6), static_cast<char>(0x80 | (code & 0x3F))}
               : std::string{'\xF0', static_cast<char>(0x80 | code >> 12), static_cast<char>(0x80 | (code >> 6 & 0x3F)),
                             static_cast<char>(0x80 | (code & 0x3F))};
  };
  for (std::uint32_t code = 0; code < 0x80; ++code) wrong += utf8_length(overlong(code, 2)) != 0;
  for (std::uint32_t code = 0; code < 0x800; ++code) wrong += utf8_length(overlong(code, 3)) != 0;
  for (std::uint32_t code = 0; code < 0x10000; ++code) wrong += utf8_length(overlong(code, 4)) != 0;
  CHECK(wrong == 0);
  CHECK(utf8_length("") == 1);
  CHECK(printable_length("") == 0);
  CHECK(utf8_length("\xe2\x82") == 0);
  CHECK(utf8_length("\xf0\x9f\x99") == 0);
}

TEST_CASE("characters: a line is cut behind the character that reaches its size") {
  for (std::size_t size = 1; size <= 6; ++size) {
    const std::string line = one_line("abcdef", size);
    CHECK(line == (size < 6 ? std::string("abcdef").substr(0, size) + ".." : "abcdef"));
  }
  CHECK(one_line("a\nb", 2) == "a\\n..");
  CHECK(escaped("a\n\tb\r", LineEnds::kept) == "a\n\tb\\r");
  CHECK(escaped("a\n\tb\r") == "a\\n\\tb\\r");
}

}  // namespace
}  // namespace a2asim
