#include "sim/scenario/scenario_reader_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <optional>
#include <vector>

#include "model/base/check_invariant.h"
#include "model/base/json_reader.h"
#include "model/base/utf8.h"

namespace a2asim::yaml {
namespace {

// The code unit that a JSON escape at the front of `text` stands for: a backslash, u and four hexadecimal digits.
std::optional<std::uint32_t> escaped_unit(std::string_view text) {
  std::uint32_t unit = 0;
  if (text.size() < 6 || !text.starts_with("\\u")) return std::nullopt;
  const auto [end, error] = std::from_chars(text.data() + 2, text.data() + 6, unit, 16);
  return error == std::errc{} && end == text.data() + 6 ? std::optional(unit) : std::nullopt;
}

std::size_t end_of_line(std::string_view text, std::size_t from) {
  return std::min(text.find('\n', from), text.size());
}

// Where a scalar in quotes ends that begins at `from`: at its closing quote.
std::size_t end_of_quotation(std::string_view text, std::size_t from) {
  A2ASIM_INVARIANT(from < text.size(), "a quotation begins in the text");
  const char quote = text[from];
  std::size_t at = from + 1;
  while (at < text.size() && text[at] != quote) at += quote == '"' && text[at] == '\\' ? 2 : 1;
  return std::min(at, text.size());
}

}  // namespace

// yaml-cpp would guess an encoding or take anything; a scenario is UTF-8 text without control characters.
void check_characters(std::string_view text) {
  Position at{1, 1};
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    const auto c = static_cast<unsigned char>(text.front());
    if (length == 0)
      refuse(at, fmt::format("byte 0x{:02x} is not UTF-8; a scenario is a text file, save it as UTF-8", c));
    if ((c < 0x20 && c != '\n' && c != '\r' && c != '\t') || c == 0x7F) {
      refuse(at, fmt::format("control character 0x{:02x}; a scenario is a text file, remove it", c));
    }
    ++at.column;
    if (c == '\n') at = {at.line + 1, 1};
    text.remove_prefix(length);
  }
}

Position Rewritten::position(Position at) const {
  A2ASIM_INVARIANT(at.line >= 0 && at.column >= 0, "a place is in the text");
  const auto before = [](const Position& a, const Position& b) {
    return a.line != b.line ? a.line < b.line : a.column < b.column;
  };
  const auto line = std::ranges::lower_bound(joins, Position{at.line, 0}, before);
  const auto here = std::ranges::lower_bound(joins, at, before);
  return {at.line, at.column + 2 * static_cast<int>(here - line)};
}

Rewritten join_surrogates(std::string_view text) {
  Rewritten out;
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  const bool may_be_json = first != std::string_view::npos && text[first] == '{';
  if (!may_be_json || text.find("\\u") == std::string_view::npos || !read_json(text)) {
    out.text = text;
    return out;
  }
  Position at{1, 1};
  for (std::size_t i = 0; i < text.size();) {
    const auto high = escaped_unit(text.substr(i));
    const auto low = high ? escaped_unit(text.substr(i + 6)) : std::nullopt;
    std::size_t taken = text[i] == '\\' ? 2 : 1;  // an escaped backslash begins no escape
    if (high && low && *high >> 10 == 0xD800 >> 10 && *low >> 10 == 0xDC00 >> 10) {
      out.text += fmt::format("\\U{:08X}", 0x10000 + ((*high & 0x3FF) << 10) + (*low & 0x3FF));
      out.joins.push_back(at);
      at.column -= 2;  // of the rewritten text
      taken = 12;
    } else {
      out.text += text.substr(i, taken);
    }
    at.column += static_cast<int>(taken);
    if (text[i] == '\n') at = {at.line + 1, 1};
    i += taken;
  }
  return out;
}

void check_brackets(std::string_view text, Position at) {
  std::size_t i = 0;
  for (int line = 1; line < at.line; ++line) i = std::min(end_of_line(text, i) + 1, text.size());
  std::size_t line_begin = i;
  std::vector<Position> open;
  bool may_quote = true;  // an apostrophe inside a word begins no quotation
  i += static_cast<std::size_t>(at.column - 1);
  if (i >= text.size() || (text[i] != '[' && text[i] != '{')) return;
  for (; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '[' || c == '{') {
      open.push_back({at.line, static_cast<int>(i - line_begin) + 1});
      if (open.size() > kMaxDepth)
        refuse(open.back(), fmt::format("nested deeper than {}; a scenario needs five levels", kMaxDepth));
    } else if (c == ']' || c == '}') {
      open.pop_back();
      if (open.empty()) return;
    } else if ((c == '"' || c == '\'') && may_quote) {
      for (const std::size_t end = end_of_quotation(text, i); i < end; ++i)
        if (text[i] == '\n') {
          ++at.line;
          line_begin = i + 1;
        }
    } else if (c == '#' && i > 0 && (text[i - 1] == ' ' || text[i - 1] == '\n')) {
      i = end_of_line(text, i) - 1;
    } else if (c == '\n') {
      ++at.line;
      line_begin = i + 1;
    }
    if (c != ' ' && c != '\n') may_quote = c == '[' || c == '{' || c == ',' || c == ':';
  }
  if (open.empty()) return;
  refuse(open.back(), "the bracket that opens here is not closed; close it, or complete the text");
}

}  // namespace a2asim::yaml
