// Inside run_way: options that stand behind a server's command and are lost to it.
#pragma once

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/note.h"
#include "model/launch/shell_variables.h"

namespace a2asim {

// Line `number` of the text, without blanks around it.
inline std::string_view line_of(std::string_view text, std::size_t number) {
  for (; number > 1 && !text.empty(); --number) text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
  const std::string_view line = text.substr(0, text.find('\n'));
  const std::size_t begin = line.find_first_not_of(" \t\r");
  return begin == std::string_view::npos ? std::string_view() : line.substr(begin);
}

// Options that begin a line of their own behind the server: the shell ended its command above them.
class LostWords {
 public:
  void add(std::span<const ShellValue> words, std::size_t line) {
    if (words_.empty()) first_line_ = line;
    constexpr std::size_t kMostShown = 12;
    for (const ShellValue& word : words)
      if (words_.size() < kMostShown)
        words_.push_back(word.text);
      else
        more_ = true;
  }

  std::optional<Note> note(std::string_view text) const {
    if (words_.empty()) return std::nullopt;
    const std::string_view before = line_of(text, first_line_ - 1);
    const std::string why =
        before.starts_with('#') ? fmt::format("the comment in line {} ends the command: take it out", first_line_ - 1)
        : before.empty()        ? fmt::format("the empty line {} ends the command: take it out", first_line_ - 1)
                                : fmt::format("is a backslash missing at the end of line {}?", first_line_ - 1);
    return Note{fmt::format("line {}: {}{} is not part of the server's command, in a shell as here; {}", first_line_,
                            fmt::join(words_, " "), more_ ? " .." : "", why),
                true};
  }

 private:
  std::vector<std::string> words_;
  std::size_t first_line_ = 0;
  bool more_ = false;
};

}  // namespace a2asim
