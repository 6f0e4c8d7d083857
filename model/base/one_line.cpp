#include "model/base/one_line.h"

#include <fmt/format.h>

namespace a2asim {
namespace {

bool continues_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U; }  // UTF-8

std::string escaped(char c) {
  switch (c) {
    case '\n':
      return "\\n";
    case '\r':
      return "\\r";
    case '\t':
      return "\\t";
    default:
      return fmt::format("\\x{:02x}", static_cast<unsigned>(static_cast<unsigned char>(c)));
  }
}

}  // namespace

std::string one_line(std::string_view text, std::size_t max_bytes) {
  std::string out;
  for (const char c : text) {
    if (out.size() >= max_bytes && !continues_character(c)) return out + "..";
    const bool control = static_cast<unsigned char>(c) < 0x20 || c == 0x7F;
    out += control ? escaped(c) : std::string(1, c);
  }
  return out;
}

}  // namespace a2asim
