#include "model/base/one_line.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/base/utf8.h"

namespace a2asim {
namespace {

struct Hidden {
  char32_t first, last;
};
constexpr Hidden kHidden[] = {{0x00, 0x1F},     {0x7F, 0x9F},     {0x61C, 0x61C},   {0x200E, 0x200F},  {0x2028, 0x202E},
                              {0x2066, 0x2069}, {0xFEFF, 0xFEFF}, {0xFFF9, 0xFFFB}, {0xE0000, 0xE007F}};

char32_t code_point(std::string_view character) {
  const auto byte = [&](std::size_t at) { return static_cast<unsigned char>(character[at]); };
  if (character.size() == 1) return byte(0);
  char32_t code = byte(0) & (0x7FU >> character.size());
  for (std::size_t at = 1; at < character.size(); ++at) code = code << 6 | (byte(at) & 0x3FU);
  return code;
}

// The character, or one byte that is none, at the front.
std::string escape_of(std::string_view text) {
  const std::size_t length = utf8_length(text);
  if (length == 0) return fmt::format("\\x{:02x}", static_cast<unsigned>(static_cast<unsigned char>(text[0])));
  const auto code = static_cast<std::uint32_t>(code_point(text.substr(0, length)));
  if (code == '\n') return "\\n";
  if (code == '\r') return "\\r";
  if (code == '\t') return "\\t";
  if (code < 0x80) return fmt::format("\\x{:02x}", code);
  return code > 0xFFFF ? fmt::format("\\U{:08x}", code) : fmt::format("\\u{:04x}", code);
}

// Appends the next character of `text`, escaped where it must be, and takes it off.
void take_character(std::string_view& text, std::string& out) {
  const std::size_t length = printable_length(text);
  if (length > 0)
    out += text.substr(0, length);
  else
    out += escape_of(text);
  text.remove_prefix(std::max<std::size_t>(length > 0 ? length : utf8_length(text), 1));
}

}  // namespace

std::size_t printable_length(std::string_view text) {
  if (!text.empty() && text[0] >= ' ' && text[0] <= '~') return 1;
  const std::size_t length = text.empty() ? 0 : utf8_length(text);
  if (length == 0) return 0;
  const char32_t code = code_point(text.substr(0, length));
  const bool hidden =
      std::ranges::any_of(kHidden, [code](const Hidden& range) { return code >= range.first && code <= range.last; });
  return hidden ? 0 : length;
}

std::string escaped(std::string_view text, LineEnds ends) {
  std::string out;
  out.reserve(text.size());
  while (!text.empty()) {
    if (ends == LineEnds::kept && (text[0] == '\n' || text[0] == '\t')) {
      out += text[0];
      text.remove_prefix(1);
    } else {
      take_character(text, out);
    }
  }
  return out;
}

std::string one_line(std::string_view text, std::size_t max_bytes) {
  std::string out;
  while (!text.empty()) {
    if (out.size() >= max_bytes) return out + "..";
    take_character(text, out);
  }
  return out;
}

}  // namespace a2asim
