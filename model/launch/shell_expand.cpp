#include "model/launch/shell_expand.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "model/launch/shell_syntax.h"

namespace a2asim {
namespace {

constexpr std::size_t kMostExpandedBytes = 1 << 20;  // A=$A$A again and again would fill the memory
constexpr std::size_t kMostMatchedBytes = 4096;      // of a text that a pattern is cut from: its cost is a square
constexpr int kMostNested = 60;
constexpr std::size_t npos = std::string_view::npos;

bool is_blank(char c) { return c == ' ' || c == '\t' || c == '\n'; }
bool is_digits(std::string_view text) { return !text.empty() && text.find_first_not_of("0123456789") == npos; }

std::optional<std::int64_t> to_number(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == npos) return 0;  // an empty variable counts as 0 in arithmetic
  text = text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
  std::int64_t number = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), number);
  return failed == std::errc{} && end == text.data() + text.size() ? std::optional(number) : std::nullopt;
}

// Of [a-z], [!x]: whether c is in it, and how long it is; 0 when it is none.
struct Bracket {
  std::size_t length = 0;
  bool holds = false;
};
Bracket match_bracket(std::string_view pattern, char c) {
  const std::size_t close = pattern.find(']', 2);
  if (pattern.front() != '[' || close == npos) return {};
  std::string_view set = pattern.substr(1, close - 1);
  const bool negated = set.front() == '!' || set.front() == '^';
  if (negated) set.remove_prefix(1);
  bool holds = false;
  for (std::size_t i = 0; i < set.size(); ++i) {
    const bool is_range = i + 2 < set.size() && set[i + 1] == '-';
    holds |= is_range ? set[i] <= c && c <= set[i + 2] : set[i] == c;
    if (is_range) i += 2;
  }
  return {close + 1, holds != negated};
}

std::string change_case(std::string text, bool upper, bool all) {
  for (std::size_t i = 0; i < (all ? text.size() : std::min<std::size_t>(text.size(), 1)); ++i) {
    char& c = text[i];
    if (upper && c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
    if (!upper && c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return text;
}

// ${V#pattern}, ${V##pattern}, ${V%pattern}, ${V%%pattern}
std::string cut(std::string_view text, std::string_view pattern, bool front, bool longest) {
  for (std::size_t i = 0; i <= text.size(); ++i) {
    const std::size_t size = longest ? text.size() - i : i;  // of what is cut away
    const std::string_view away = front ? text.substr(0, size) : text.substr(text.size() - size);
    if (matches_pattern(away, pattern))
      return std::string(front ? text.substr(size) : text.substr(0, text.size() - size));
  }
  return std::string(text);
}

std::string replace(std::string_view text, std::string_view pattern, std::string_view with, bool all) {
  std::string out;
  std::size_t at = 0;
  while (at < text.size() && !pattern.empty()) {
    std::size_t size = text.size() - at;
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

std::string ansi_quoted(std::string_view inside) {
  std::string out;
  for (std::size_t i = 0; i < inside.size(); ++i) {
    if (inside[i] != '\\' || i + 1 == inside.size()) {
      out += inside[i];
      continue;
    }
    const char c = inside[++i];
    out += c == 'n' ? '\n' : c == 't' ? '\t' : c;
  }
  return out;
}

// What stands between ${ and }: a name, [@] or [2] behind it, and the operation on it.
struct Parameter {
  std::string_view name, index, operation;
};
std::optional<Parameter> read_parameter(std::string_view inside) {
  Parameter out;
  std::size_t end = 0;
  while (end < inside.size() && is_shell_name_char(inside[end])) ++end;
  if (end == 0 && !inside.empty() && std::string_view("@*#?$!-").find(inside.front()) != npos) end = 1;
  if (end == 0 || (end > 1 && !is_shell_name_start(inside.front()) && !is_digits(inside.substr(0, end))))
    return std::nullopt;
  out.name = inside.substr(0, end);
  if (inside.substr(end).starts_with('[')) {
    const std::size_t close = inside.find(']', end);
    if (close == npos) return std::nullopt;
    out.index = inside.substr(end + 1, close - end - 1);
    end = close + 1;
  }
  out.operation = inside.substr(end);
  return out;
}

}  // namespace

bool matches_pattern(std::string_view text, std::string_view pattern) {
  std::size_t at = 0, in = 0, star = npos, star_at = 0;
  while (at < text.size()) {
    const std::string_view rest = pattern.substr(in);
    const Bracket bracket = rest.empty() ? Bracket{} : match_bracket(rest, text[at]);
    if (!rest.empty() && rest.front() == '*') {
      star = in++;
      star_at = at;
    } else if (bracket.length != 0 && bracket.holds) {
      in += bracket.length;
      ++at;
    } else if (bracket.length == 0 && !rest.empty() && (rest.front() == '?' || rest.front() == text[at])) {
      ++in;
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

void ShellVariables::set(const std::string& name, ShellValue value) {
  values.insert_or_assign(name, std::move(value));
  arrays.erase(name);
}

void ShellVariables::unset(const std::string& name) {
  values.erase(name);
  arrays.erase(name);
  exported.erase(name);
}

// Words as they come; `word` is the one that is being put together.
struct ShellExpander::Output {
  std::vector<ShellValue> fields;
  ShellValue word;
  bool in_word = false;  // an empty quoted word is a word too
  bool splits = true;

  void add(std::string_view text) {
    word.text += text;
    in_word = true;
  }
  void add_open(std::string_view source) {
    add(source);
    word.is_open = true;
  }
  void end_word() {
    if (in_word) fields.push_back(std::exchange(word, {}));
    in_word = false;
  }
};

std::vector<ShellValue> ShellExpander::fields(std::string_view raw) {
  Output out;
  expand(raw, /*quoted=*/false, out);
  out.end_word();
  return std::move(out.fields);
}

ShellValue ShellExpander::word(std::string_view raw) {
  Output out;
  out.splits = false;
  expand(raw, /*quoted=*/false, out);
  return std::move(out.word);
}

ShellValue ShellExpander::text(std::string_view raw) {
  Output out;
  out.splits = false;
  expand(raw, /*quoted=*/true, out);
  return std::move(out.word);
}

void ShellExpander::fail_with(std::string message) {
  if (!error_) error_ = Error{ErrorKind::bad_input, std::move(message)};
}

void ShellExpander::expand(std::string_view raw, bool quoted, Output& out) {
  if (++nested_ > kMostNested) {
    out.add_open(raw);
    --nested_;
    return;
  }
  for (std::size_t at = 0; at < raw.size() && !error_;) {
    const char c = raw[at], next = at + 1 < raw.size() ? raw[at + 1] : '\0';
    if (c == '$') {
      at = dollar(raw, at, quoted, out);
    } else if (c == '`') {
      const std::size_t end = std::min(end_of_quote(raw, at), raw.size() - 1);
      out.add_open(raw.substr(at, end - at + 1));
      at = end + 1;
    } else if (c == '\\' && next != '\0' && (!quoted || std::string_view("\"\\$`\n").find(next) != npos)) {
      if (next != '\n') out.add(raw.substr(at + 1, 1));
      at += 2;
    } else if (!quoted && (c == '\'' || c == '"')) {
      const std::size_t end = std::min(end_of_quote(raw, at), raw.size());
      const std::string_view inside = raw.substr(at + 1, end - at - 1);
      const bool only_list = c == '"' && (inside == "$@" || (inside.starts_with("${") && inside.find("[@]") != npos));
      if (!only_list) out.in_word = true;
      c == '"' ? expand(inside, /*quoted=*/true, out) : out.add(inside);
      at = end + 1;
    } else {
      out.add(raw.substr(at, 1));
      ++at;
    }
  }
  --nested_;
}

// What the $ at `at` begins; where it ends.
std::size_t ShellExpander::dollar(std::string_view raw, std::size_t at, bool quoted, Output& out) {
  const char next = at + 1 < raw.size() ? raw[at + 1] : '\0';
  if (!quoted && next == '\'') {
    const std::size_t end = std::min(end_of_quote(raw, at + 1), raw.size());
    out.add(ansi_quoted(raw.substr(at + 2, end - at - 2)));
    return end + 1;
  }
  if (next == '(' || next == '{') {
    const std::size_t end = std::min(end_of_expansion(raw, at), raw.size() - 1);
    const std::string_view source = raw.substr(at, end - at + 1);
    if (next == '{') {
      parameter(source.substr(2, source.size() - 3), source, quoted, out);
    } else if (source.starts_with("$((") && source.ends_with("))")) {
      const auto value = arithmetic(source.substr(3, source.size() - 5));
      value ? out.add(std::to_string(*value)) : out.add_open(source);
    } else {
      out.add_open(source);  // nothing is run here
    }
    return end + 1;
  }
  std::size_t end = at + 1;
  while (end < raw.size() && is_shell_name_char(raw[end])) ++end;
  if (end > at + 1 && !is_shell_name_start(next)) end = at + 2;  // $10 is ${1}0
  if (end == at + 1 && next != '\0' && std::string_view("@*#?$!-").find(next) != npos) ++end;
  if (end == at + 1) return out.add("$"), end;
  parameter(raw.substr(at + 1, end - at - 1), raw.substr(at, end - at), quoted, out);
  return end;
}

std::optional<std::vector<ShellValue>> ShellExpander::items_of(std::string_view name, std::string_view index) {
  if (name == "@" || name == "*") return variables_.arguments;
  if (index != "@" && index != "*") return std::nullopt;
  if (const auto found = variables_.arrays.find(name); found != variables_.arrays.end()) return found->second;
  if (const auto found = variables_.values.find(name); found != variables_.values.end())
    return std::vector{found->second};
  return std::nullopt;
}

// Nothing: it is not set in the text.
std::optional<ShellValue> ShellExpander::lookup(std::string_view name, std::string_view index) {
  if (is_digits(name) && name != "0") {
    if (!variables_.arguments) return std::nullopt;
    const auto place = to_number(name);
    const std::size_t count = variables_.arguments->size();
    if (!place || static_cast<std::size_t>(*place) > count) return ShellValue{};
    return (*variables_.arguments)[static_cast<std::size_t>(*place) - 1];
  }
  if (name == "#" && variables_.arguments) return ShellValue{std::to_string(variables_.arguments->size())};
  if (!index.empty() && variables_.keyed.contains(name)) {
    const auto element = variables_.values.find(fmt::format("{}[{}]", name, word(index).text));
    return element == variables_.values.end() ? ShellValue{} : element->second;
  }
  if (!index.empty()) {
    const auto array = variables_.arrays.find(name);
    const auto at = arithmetic(index);
    if (!at) return std::nullopt;
    if (array != variables_.arrays.end()) {
      const auto size = static_cast<std::int64_t>(array->second.size());
      const std::int64_t place = *at < 0 ? *at + size : *at;
      return place >= 0 && place < size ? array->second[static_cast<std::size_t>(place)] : ShellValue{};
    }
    if (*at != 0) return std::nullopt;
  }
  const auto found = variables_.values.find(name);
  return found == variables_.values.end() ? std::nullopt : std::optional(found->second);
}

// "${ARGS[@]}" keeps each element a word, "${ARGS[*]}" makes one word of all.
void ShellExpander::list(const std::vector<ShellValue>& items, bool star, bool quoted, Output& out) {
  for (std::size_t i = 0; i < items.size(); ++i) {
    expanded_bytes_ += items[i].text.size() + 1;
    if (expanded_bytes_ > kMostExpandedBytes)
      return fail_with("the variables of the command expand to more than 1 MiB: write it out");
    if (i > 0 && ((quoted && star) || !out.splits))
      out.add(" ");
    else if (i > 0)
      out.end_word();
    if (items[i].is_open) {
      out.add_open(items[i].text);
    } else if (quoted || !out.splits) {
      out.add(items[i].text);
    } else {
      for (const char c : items[i].text) is_blank(c) ? out.end_word() : out.add(std::string_view(&c, 1));
    }
  }
}

void ShellExpander::parameter(std::string_view inside, std::string_view source, bool quoted, Output& out) {
  if (inside.size() > 1 && inside.front() == '#') {
    const auto counted = read_parameter(inside.substr(1));
    const auto items = counted ? items_of(counted->name, counted->index) : std::nullopt;
    const auto value = counted && !items ? lookup(counted->name, counted->index) : std::nullopt;
    if (items) return out.add(std::to_string(items->size()));
    return value && !value->is_open ? out.add(std::to_string(value->text.size())) : out.add_open(source);
  }
  if (inside.size() > 1 && inside.front() == '!') return indirect(inside.substr(1), source, quoted, out);
  const auto read = read_parameter(inside);
  if (!read) return out.add_open(source);
  std::string_view operation = read->operation;
  const bool colon = operation.size() > 1 && operation[0] == ':' && std::string_view("-=+?").find(operation[1]) != npos;
  const char kind = operation.empty() ? '\0' : operation[colon ? 1 : 0];
  const bool tests = !operation.empty() && std::string_view("-=+?").find(kind) != npos;
  const std::string_view alternative = tests ? operation.substr(colon ? 2 : 1) : std::string_view();

  const bool is_list = read->name == "@" || read->name == "*" || read->index == "@" || read->index == "*";
  if (is_list) {
    auto items = items_of(read->name, read->index);
    const bool is_set = items && !items->empty();
    if (tests && kind == '+') return is_set ? expand(alternative, quoted, out) : void();
    if (tests && kind == '-' && !is_set) return expand(alternative, quoted, out);
    if (!items) return out.add_open(source);
    if (operation.starts_with(':')) {  // ${A[@]:1}, ${@:2:3}
      const std::size_t second = operation.find(':', 1);
      auto from = arithmetic(operation.substr(1, second == npos ? npos : second - 1));
      const auto count =
          second == npos ? std::optional<std::int64_t>(INT64_MAX) : arithmetic(operation.substr(second + 1));
      if (from && *from < 0 && read->index == "@") *from += static_cast<std::int64_t>(items->size());
      if (!from || !count || *from < 0 || *count < 0) return out.add_open(source);
      if (read->name == "@" || read->name == "*") *from = std::max<std::int64_t>(*from - 1, 0);
      const auto begin = std::min<std::size_t>(static_cast<std::size_t>(*from), items->size());
      items->erase(items->begin(), items->begin() + static_cast<std::ptrdiff_t>(begin));
      items->resize(std::min<std::size_t>(static_cast<std::size_t>(*count), items->size()));
    } else if (!operation.empty() && !tests) {
      return out.add_open(source);
    }
    return list(*items, read->name == "*" || read->index == "*", quoted, out);
  }

  auto value = lookup(read->name, read->index);
  const bool counts_as_set = value && (value->is_open || !colon || !value->text.empty());
  if (tests && kind == '+') return counts_as_set ? expand(alternative, quoted, out) : void();
  if (tests && (kind == '-' || kind == '=') && !counts_as_set) {
    const ShellValue fallback =
        word(quoted ? std::string("\"").append(alternative).append("\"") : std::string(alternative));
    if (!value) variables_.defaults.emplace(read->name, fallback.text);
    if (kind == '=') variables_.set(std::string(read->name), fallback);
    return list({fallback}, false, quoted, out);
  }
  if (!value) return out.add_open(source);
  if (!tests && !operation.empty()) value = transform(std::move(*value), operation, source);
  list({*value}, false, quoted, out);
}

// ${!A[@]}, the indices, and ${!N}, the variable that N names.
void ShellExpander::indirect(std::string_view inside, std::string_view source, bool quoted, Output& out) {
  const auto read = read_parameter(inside);
  if (!read || !read->operation.empty() || variables_.keyed.contains(read->name)) return out.add_open(source);
  if (auto items = items_of(read->name, read->index); items && read->index == "@") {
    for (std::size_t i = 0; i < items->size(); ++i) (*items)[i] = {std::to_string(i)};
    return list(*items, false, quoted, out);
  }
  const auto name = lookup(read->name, read->index);
  const auto value = name && !name->is_open ? lookup(name->text, "") : std::nullopt;
  return value ? list({*value}, false, quoted, out) : out.add_open(source);
}

ShellValue ShellExpander::transform(ShellValue value, std::string_view operation, std::string_view source) {
  const ShellValue open{std::string(source), true};
  if (value.is_open || value.text.size() > kMostMatchedBytes) return open;
  const char kind = operation.front();
  const bool twice = operation.size() > 1 && operation[1] == kind;
  const std::string_view rest = operation.substr(twice ? 2 : 1);
  if (kind == '^' || kind == ',') return {change_case(value.text, kind == '^', twice)};
  if (kind == '#' || kind == '%') {
    const ShellValue pattern = word(rest);
    return pattern.is_open ? open : ShellValue{cut(value.text, pattern.text, kind == '#', twice)};
  }
  if (kind == '/') {
    const bool front = !twice && rest.starts_with('#'), back = !twice && rest.starts_with('%');  // ${V/#p/w}, ${V/%p/w}
    const std::string_view both = rest.substr(front || back ? 1 : 0);
    std::size_t slash = both.find('/');
    while (slash != npos && slash > 0 && both[slash - 1] == '\\') slash = both.find('/', slash + 1);
    const ShellValue pattern = word(both.substr(0, slash));
    const ShellValue with = word(slash == npos ? std::string_view() : both.substr(slash + 1));
    if (pattern.is_open || with.is_open) return open;
    if (!front && !back) return {replace(value.text, pattern.text, with.text, twice)};
    const std::string left = cut(value.text, pattern.text, front, true);
    if (left.size() == value.text.size()) return value;
    return {front ? with.text + left : left + with.text};
  }
  if (kind != ':') return open;
  const std::size_t second = operation.find(':', 1);
  const auto from = arithmetic(operation.substr(1, second == npos ? npos : second - 1));
  const auto size = static_cast<std::int64_t>(value.text.size());
  const auto count = second == npos ? std::optional(size) : arithmetic(operation.substr(second + 1));
  if (!from || !count) return open;
  const std::int64_t begin = std::clamp<std::int64_t>(*from < 0 ? *from + size : *from, 0, size);
  const std::int64_t end =
      std::clamp<std::int64_t>(*count < 0 ? size + *count : begin + std::min(*count, size), begin, size);
  return {value.text.substr(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin))};
}

std::optional<std::int64_t> ShellExpander::arithmetic(std::string_view expression) {
  const ShellValue expanded = text(expression);
  if (expanded.is_open || error_) return std::nullopt;
  const ArithmeticResult result =
      evaluate_arithmetic(expanded.text, [this](std::string_view name) -> std::optional<std::int64_t> {
        const auto found = variables_.values.find(name);
        if (found == variables_.values.end() || found->second.is_open) return std::nullopt;
        return to_number(found->second.text);
      });
  if (result.error) fail_with(*result.error);
  return result.value;
}

}  // namespace a2asim
