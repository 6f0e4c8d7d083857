// Inside the reading of shell texts: patterns, braces and quotes as pure functions on text.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace a2asim {

// Whether a text fits a pattern with *, ? and [..], as `case` and ${V%..} compare. A backslash takes a character as it
// is.
bool matches_pattern(std::string_view text, std::string_view pattern);

// ${V#pattern}, ${V##pattern}, ${V%pattern}, ${V%%pattern}
std::string cut_pattern(std::string_view text, std::string_view pattern, bool front, bool longest);

// ${V/pattern/with}, ${V//pattern/with}
std::string replace_pattern(std::string_view text, std::string_view pattern, std::string_view with, bool all);

// [[ text =~ regex ]], for extended regular expressions without groups and alternatives; nothing for others.
std::optional<bool> matches_regex(std::string_view text, std::string_view regex);

// h{0,1}:{2..4} as bash makes several words of it; one word where it holds no braces that do. Nothing: too many.
std::optional<std::vector<std::string>> brace_words(std::string_view raw);

// What stands in $'..'; nothing where it makes a character that is no part of a text.
std::optional<std::string> ansi_quoted(std::string_view inside);

}  // namespace a2asim
