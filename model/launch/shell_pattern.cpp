#include "model/launch/shell_pattern.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "model/launch/shell_syntax.h"
#include "model/launch/text_parts.h"

namespace a2asim {
namespace {

constexpr std::size_t kMostBraceWords = 4096;

bool is_between(char c, char first, char last) { return first <= c && c <= last; }

// [:digit:] and its like.
bool is_of_class(std::string_view name, char c) {
  const bool digit = is_between(c, '0', '9'), upper = is_between(c, 'A', 'Z'), lower = is_between(c, 'a', 'z');
  if (name == "digit") return digit;
  if (name == "alpha") return upper || lower;
  if (name == "word") return upper || lower || digit || c == '_';
  if (name == "alnum") return upper || lower || digit;
  if (name == "upper") return upper;
  if (name == "lower") return lower;
  if (name == "space") return c == ' ' || is_between(c, '\t', '\r');
  if (name == "blank") return c == ' ' || c == '\t';
  if (name == "xdigit") return digit || is_between(c, 'A', 'F') || is_between(c, 'a', 'f');
  if (name == "cntrl") return is_between(c, '\0', '\x1f') || c == '\x7f';
  if (name == "graph") return is_between(c, '!', '~');
  if (name == "print") return is_between(c, ' ', '~');
  return name == "punct" && is_between(c, '!', '~') && !upper && !lower && !digit;
}

// Of [a-z], [!x], [[:digit:]]: whether c is in it, and how long it is; 0 when it is none.
struct Bracket {
  std::size_t length = 0;
  bool holds = false;
};
Bracket match_bracket(std::string_view pattern, char c, bool backslash_quotes = true) {
  if (!pattern.starts_with('[')) return {};
  std::size_t at = 1;
  const bool negated = at < pattern.size() && (pattern[at] == '!' || pattern[at] == '^');
  if (negated) ++at;
  bool holds = false;
  const auto letter = [&] {
    if (backslash_quotes && pattern[at] == '\\' && at + 1 < pattern.size()) ++at;
    return pattern[at++];
  };
  for (const std::size_t begin = at; at < pattern.size() && (pattern[at] != ']' || at == begin);) {
    const std::size_t end = pattern.substr(at).starts_with("[:") ? pattern.find(":]", at + 2) : npos;
    if (end != npos) {
      holds |= is_of_class(pattern.substr(at + 2, end - at - 2), c);
      at = end + 2;
      continue;
    }
    const char first = letter();
    if (at + 1 < pattern.size() && pattern[at] == '-' && pattern[at + 1] != ']') {
      ++at;
      holds |= is_between(c, first, letter());
    } else {
      holds |= c == first;
    }
  }
  return at < pattern.size() ? Bracket{at + 1, holds != negated} : Bracket{};
}

// The character, [..] or escaped character that a pattern begins with: its length, and whether it is c. 0: a `*`.
Bracket match_one(std::string_view pattern, char c) {
  if (pattern.empty()) return {1, false};
  if (pattern.front() == '*') return {};
  if (pattern.front() == '?') return {1, true};
  if (pattern.front() == '\\' && pattern.size() > 1) return {2, pattern[1] == c};
  const Bracket bracket = match_bracket(pattern, c);
  return bracket.length > 0 ? bracket : Bracket{1, pattern.front() == c};
}

// Where the quote or expansion at `at` ends; `at` when there is none.
std::size_t last_of(std::string_view raw, std::size_t at) {
  const char c = raw[at];
  std::size_t end = at;
  if (c == '\\') end = at + 1;
  if (c == '\'' || c == '"' || c == '`') end = end_of_quote(raw, at);
  if (c == '$') end = end_of_expansion(raw, at);
  return std::min(end, raw.size() - 1);
}

// The parts between the commas of a brace at `open`, and the place of its end; nothing when it is none.
struct Braces {
  std::vector<std::string_view> parts;
  std::size_t end = 0;
};
std::optional<Braces> read_braces(std::string_view raw, std::size_t open) {
  Braces out;
  int level = 0;
  std::size_t begin = open + 1;
  for (std::size_t at = open; at < raw.size(); at = last_of(raw, at) + 1) {
    const char c = raw[at];
    if (c == '{') ++level;
    if ((c == ',' && level == 1) || (c == '}' && level == 1)) {
      out.parts.push_back(raw.substr(begin, at - begin));
      begin = at + 1;
      out.end = at;
    }
    if (c == '}' && --level == 0) return out;
  }
  return std::nullopt;
}

std::optional<int> range_number(std::string_view text) {
  int value = 0;
  if (text.starts_with('+')) text.remove_prefix(1);
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool all = failed == std::errc{} && end == text.data() + text.size();
  return all ? std::optional(value) : std::nullopt;
}

// 1..4, 01..10..3, a..e
std::vector<std::string> read_sequence(std::string_view text) {
  const std::size_t dots = text.find("..");
  if (dots == npos) return {};
  const std::string_view from = text.substr(0, dots);
  std::string_view to = text.substr(dots + 2), by = "1";
  if (const std::size_t more = to.find(".."); more != npos) by = to.substr(more + 2), to = to.substr(0, more);
  auto first = range_number(from), last = range_number(to);
  const auto step = range_number(by);
  const bool letters = !first && !last && from.size() == 1 && to.size() == 1 && is_shell_name_start(from[0]) &&
                       is_shell_name_start(to[0]) && from[0] != '_' && to[0] != '_';
  if (letters) first = from[0], last = to[0];
  if (!first || !last || !step || *step == INT32_MIN) return {};
  const auto is_padded = [](std::string_view part) {
    return part.size() > 1 && (part[0] == '0' || (part.size() > 2 && part[0] == '-' && part[1] == '0'));
  };
  const std::size_t width = !letters && (is_padded(from) || is_padded(to)) ? std::max(from.size(), to.size()) : 0;
  const std::int64_t size = std::max<std::int64_t>(std::abs(std::int64_t{*step}), 1);
  std::vector<std::string> out;
  for (std::int64_t i = *first; *first <= *last ? i <= *last : i >= *last; i += *first <= *last ? size : -size) {
    out.push_back(letters ? std::string(1, static_cast<char>(i)) : fmt::format("{:0{}}", i, width));
    if (out.size() > kMostBraceWords) break;
  }
  return out;
}

bool add_brace_words(std::string_view raw, std::vector<std::string>& out, int depth);

// The braces at `open` hold these parts: each of them, with what stands around.
bool add_parts(std::string_view raw, std::size_t open, const Braces& braces, const std::vector<std::string>& parts,
               std::vector<std::string>& out, int depth) {
  std::vector<std::string> tails;
  if (!add_brace_words(raw.substr(braces.end + 1), tails, depth + 1)) return false;
  for (const std::string& part : parts)
    for (const std::string& tail : tails) {
      if (out.size() >= kMostBraceWords) return false;
      out.push_back(std::string(raw.substr(0, open)).append(part).append(tail));
    }
  return true;
}

bool add_brace_words(std::string_view raw, std::vector<std::string>& out, int depth) {
  constexpr int kMostDeep = 20;
  if (depth > kMostDeep) return false;
  for (std::size_t at = 0; at < raw.size(); at = last_of(raw, at) + 1) {
    const auto braces = raw[at] == '{' ? read_braces(raw, at) : std::nullopt;
    if (!braces) continue;
    std::vector<std::string> parts;
    if (braces->parts.size() == 1) {
      parts = read_sequence(braces->parts.front());
      if (parts.empty()) continue;
    } else {
      for (const std::string_view part : braces->parts)
        if (!add_brace_words(part, parts, depth + 1)) return false;
    }
    return add_parts(raw, at, *braces, parts, out, depth);
  }
  out.emplace_back(raw);
  return true;
}

}  // namespace

bool matches_pattern(std::string_view text, std::string_view pattern) {
  std::size_t at = 0, in = 0, star = npos, star_at = 0;
  while (at < text.size()) {
    const Bracket one = match_one(pattern.substr(in), text[at]);
    if (one.length == 0) {
      star = in++;
      star_at = at;
    } else if (one.holds) {
      in += one.length;
      ++at;
    } else if (star != npos) {
      in = star + 1;
      at = ++star_at;
    } else {
      return false;
    }
  }
  return pattern.find_first_not_of('*', in) == npos;
}

std::string cut_pattern(std::string_view text, std::string_view pattern, bool front, bool longest) {
  for (std::size_t i = 0; i <= text.size(); ++i) {
    const std::size_t size = longest ? text.size() - i : i;  // of what is cut away
    const std::string_view away = front ? text.substr(0, size) : text.substr(text.size() - size);
    if (matches_pattern(away, pattern))
      return std::string(front ? text.substr(size) : text.substr(0, text.size() - size));
  }
  return std::string(text);
}

std::string replace_pattern(std::string_view text, std::string_view pattern, std::string_view with, bool all) {
  std::string out;
  std::size_t at = 0;
  const bool is_plain = pattern.find_first_of("*?[\\") == npos;
  if (text.empty() && !pattern.empty() && matches_pattern(text, pattern)) return std::string(with);
  while (at < text.size() && !pattern.empty()) {
    std::size_t size = is_plain ? std::min(pattern.size(), text.size() - at) : text.size() - at;
    if (is_plain && text.substr(at, size) != pattern) size = 0;
    while (size > 0 && !matches_pattern(text.substr(at, size), pattern)) --size;
    if (size == 0) {
      out += text[at++];
      continue;
    }
    out += with;
    at += size;
    if (!all) break;
  }
  return out + std::string(text.substr(at));
}

std::optional<bool> matches_regex(std::string_view text, std::string_view regex) {
  if (regex.find_first_of("(){}|") != npos) return std::nullopt;
  const bool from_begin = regex.starts_with('^');
  if (from_begin) regex.remove_prefix(1);
  const bool to_end = regex.ends_with('$') && !regex.ends_with("\\$");
  if (to_end) regex.remove_suffix(1);
  std::vector<bool> reached(text.size() + 1, !from_begin);  // the places that a match of what was read so far ends at
  reached[0] = true;
  while (!regex.empty()) {
    // '^' and '$' elsewhere, and a repetition of nothing, are read in more than one way.
    if (std::string_view("*+?^$").find(regex.front()) != npos) return std::nullopt;
    const std::size_t bracket = match_bracket(regex, 'x', false).length;
    const std::size_t size = bracket > 0 ? bracket : regex.front() == '\\' && regex.size() > 1 ? 2 : 1;
    const std::string_view atom = regex.substr(0, size);
    if (atom == "[" || (size == 2 && is_shell_name_char(atom[1]))) return std::nullopt;
    regex.remove_prefix(size);
    const char times = !regex.empty() && std::string_view("*+?").find(regex.front()) != npos ? regex.front() : '\0';
    if (times != '\0') regex.remove_prefix(1);
    const bool optional = times == '*' || times == '?', repeats = times == '*' || times == '+';
    std::vector<bool> next(text.size() + 1, false);
    for (std::size_t at = 0; at <= text.size(); ++at) {
      if (optional && reached[at]) next[at] = true;
      if (at == text.size() || !(reached[at] || (repeats && next[at]))) continue;
      const bool holds =
          bracket > 0 ? match_bracket(atom, text[at], false).holds : atom == "." || text[at] == atom.back();
      if (holds) next[at + 1] = true;
    }
    reached = std::move(next);
  }
  return to_end ? bool(reached[text.size()]) : std::ranges::find(reached, true) != reached.end();
}

std::optional<std::vector<std::string>> brace_words(std::string_view raw) {
  constexpr std::size_t kMostScanned = 1 << 24;  // each brace looks for its end
  std::vector<std::string> out;
  std::size_t braces = 0;
  for (std::size_t at = 0; at < raw.size(); at = last_of(raw, at) + 1) braces += raw[at] == '{' ? 1 : 0;
  if (braces == 0) return std::vector{std::string(raw)};
  if (braces * raw.size() > kMostScanned) return std::nullopt;
  return add_brace_words(raw, out, 0) ? std::optional(std::move(out)) : std::nullopt;
}

std::optional<std::string> ansi_quoted(std::string_view inside) {
  constexpr std::string_view kLetters = "abefnrtv\\'\"?E", kMeant = "\a\b\033\f\n\r\t\v\\'\"?\033";
  std::string out;
  for (std::size_t i = 0; i < inside.size(); ++i) {
    if (inside[i] != '\\' || i + 1 == inside.size()) {
      out += inside[i];
      continue;
    }
    const char c = inside[++i];
    const bool hex = c == 'x', octal = is_between(c, '0', '7');
    if (const std::size_t found = kLetters.find(c); found != npos) {
      out += kMeant[found];
    } else if (hex || octal) {
      const std::string_view digits = inside.substr(hex ? i + 1 : i, hex ? 2 : 3);
      unsigned value = 0;
      const auto read = std::from_chars(digits.data(), digits.data() + digits.size(), value, hex ? 16 : 8);
      if (value == 0 || value > 0x7f) return std::nullopt;
      out += static_cast<char>(value);
      i += static_cast<std::size_t>(read.ptr - digits.data()) - (hex ? 0 : 1);
    } else if (c == 'u' || c == 'U' || c == 'c') {
      return std::nullopt;
    } else {
      out += '\\', out += c;
    }
  }
  return out;
}

}  // namespace a2asim
