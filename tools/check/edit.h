// A fix as an edit of the text that a launch was read from. Nothing is guessed: the edited text is read again, and it
// must start the same servers, this one with the fix and all others as they were.
//
//   Result<std::string> after = edited_text(text, 0, fix, spellings, env);
//   if (after) io.out << unified_diff("serve.sh", text.text, *after);
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/step/fix.h"
#include "tools/check/launches.h"

namespace a2asim {

// Bytes of a text.
struct TextRange {
  std::size_t begin = 0, end = 0;
};

// Where the text gives this server the option or variable, with its value; nothing where it stands there more than
// once, or as a variable's contents.
std::optional<TextRange> place_of(const LaunchText& text, std::size_t server, const FixStep& step,
                                  const Spellings& spellings);

// Errors: bad_input, why it is left to a person.
Result<std::string> edited_text(const LaunchText& text, std::size_t server, const Fix& fix, const Spellings& spellings,
                                const Environment& env);

// In any order.
bool same_words(std::vector<std::string> a, std::vector<std::string> b);

// One hunk an edit, three lines around it. Empty where nothing differs.
std::string unified_diff(std::string_view path, std::string_view before, std::string_view after);

// The bytes of `before` that differ, and what stands there in `after`.
struct Replacement {
  TextRange range;
  std::string text;
};
Replacement replacement_of(std::string_view before, std::string_view after);

struct LineColumn {
  std::size_t line = 1, column = 1;  // columns count characters
};
LineColumn line_column(std::string_view text, std::size_t byte);

}  // namespace a2asim
