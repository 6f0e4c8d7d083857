#include "tools/program/text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

namespace a2asim {
namespace {

bool continues_character(char byte) { return (static_cast<unsigned char>(byte) & 0xC0U) == 0x80U; }  // UTF-8

// Characters, not bytes; wide and combining ones count as one.
std::size_t width_of(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(text, [](char c) { return !continues_character(c); }));
}

// The bytes of the first `characters` characters.
std::size_t bytes_of(std::string_view text, std::size_t characters) {
  std::size_t at = 0;
  for (; at < text.size(); ++at) {
    if (!continues_character(text[at]) && characters-- == 0) break;
  }
  return at;
}

}  // namespace

std::string cut(std::string_view text, std::size_t width) {
  if (width_of(text) <= width) return std::string(text);
  return std::string(text.substr(0, bytes_of(text, width - 2))) + "..";
}

std::vector<std::string> wrap(std::string_view text, std::size_t width, std::size_t hang) {
  std::vector<std::string> lines;
  std::string line;
  const auto flush = [&] {
    lines.push_back(line);
    line.assign(hang, ' ');
  };
  bool fresh = true;  // nothing but the indent is in `line`
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (word.empty()) continue;
    if (!fresh && width_of(line) + 1 + width_of(word) > width) {
      flush();
      fresh = true;
    }
    if (!fresh) line += ' ';
    for (std::size_t room = width - width_of(line); width_of(word) > room; room = width - hang) {
      const std::size_t head = bytes_of(word, room);
      line += word.substr(0, head);
      word.remove_prefix(head);
      flush();
    }
    line += word;
    fresh = false;
  }
  if (!fresh || lines.empty()) lines.push_back(line);
  return lines;
}

std::vector<std::string> table(const std::vector<std::vector<std::string>>& rows,
                               const std::vector<std::size_t>& right) {
  std::vector<std::size_t> widths;
  for (const std::vector<std::string>& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t column = 0; column < row.size(); ++column) {
      widths[column] = std::max(widths[column], width_of(row[column]));
    }
  }
  std::vector<std::string> lines;
  for (const std::vector<std::string>& row : rows) {
    std::string line;
    for (std::size_t column = 0; column < row.size(); ++column) {
      const std::string blanks(widths[column] - width_of(row[column]), ' ');
      const bool to_the_right = std::ranges::find(right, column) != right.end();
      line += (column == 0 ? "" : "  ") + (to_the_right ? blanks + row[column] : row[column] + blanks);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    lines.push_back(std::move(line));
  }
  return lines;
}

std::string ranges(const std::vector<std::size_t>& numbers) {
  std::string out;
  for (std::size_t at = 0; at < numbers.size();) {
    std::size_t last = at;
    while (last + 1 < numbers.size() && numbers[last + 1] == numbers[last] + 1) ++last;
    out += (out.empty() ? "" : ", ") + std::to_string(numbers[at]);
    if (last > at) out += ".." + std::to_string(numbers[last]);
    at = last + 1;
  }
  return out;
}

std::string painted(std::string_view text, std::string_view colour, bool use) {
  return use ? fmt::format("\x1b[{}m{}\x1b[0m", colour, text) : std::string(text);
}

std::string counted(std::size_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string bytes_in_words(std::int64_t bytes) {
  static constexpr std::array<std::string_view, 5> kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB"};
  if (bytes < 1024) return fmt::format("{} B", bytes);
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < kUnits.size(); ++unit) value /= 1024;
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

std::string capitalised(std::string_view words) {
  std::string out(words);
  if (!out.empty() && out[0] >= 'a' && out[0] <= 'z') out[0] = static_cast<char>(out[0] - 32);
  return out;
}

std::string spaced(std::string_view name) {
  std::string out(name);
  std::ranges::replace(out, '_', ' ');
  return out;
}

std::string grouped(std::int64_t number) {
  std::string digits = std::to_string(number);
  for (std::size_t at = digits.size(); at > 3;) digits.insert(at -= 3, ",");
  return digits;
}

std::string sentence(std::string_view words) { return std::string(words) + (words.ends_with('.') ? "" : "."); }

std::string upper(std::string_view word) {
  std::string out(word);
  std::ranges::transform(out, out.begin(), [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
  return out;
}

}  // namespace a2asim
