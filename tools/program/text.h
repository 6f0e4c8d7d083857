// Text for people: lines that fit and tables that align.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/one_line.h"

namespace a2asim {

// At most `width` characters, the last two being ".." where something was cut.
std::string cut(std::string_view text, std::size_t width);

// At blanks, and inside a word only where it is longer than `width`. Lines after the first begin with `hang` blanks.
std::string upper(std::string_view word);  // ASCII letters

inline constexpr std::size_t kTextWidth = 100;  // columns of what people read
std::vector<std::string> wrap(std::string_view text, std::size_t width, std::size_t hang = 0);

// Columns as wide as their widest cell, two blanks apart, no blanks at line ends. `right` lists columns of numbers.
std::vector<std::string> table(const std::vector<std::vector<std::string>>& rows,
                               const std::vector<std::size_t>& right);

// "0", "0..3", "0, 4..15": ascending numbers.
std::string ranges(const std::vector<std::size_t>& numbers);

// Every sequence that painted() writes; all other control characters come from elsewhere, and are escaped.
inline constexpr std::string_view kColours[] = {"\x1b[0m", "\x1b[1m", "\x1b[1;31m", "\x1b[1;32m", "\x1b[1;33m"};
// colour: "1" (bold), "1;31", "1;32" or "1;33"; the text as it is where colours are not to be used.
std::string painted(std::string_view text, std::string_view colour, bool use);

// "2 notes", "1 note".
std::string counted(std::size_t count, std::string_view noun);

// "Ranks derive ..", "over capacity" of "over_capacity", "417,856", and the words with one full stop at their end.
std::string capitalised(std::string_view words);
std::string spaced(std::string_view name);
std::string grouped(std::int64_t number);
std::string sentence(std::string_view words);

// "513 B", "1.5 MiB".
std::string bytes_in_words(std::int64_t bytes);

}  // namespace a2asim
