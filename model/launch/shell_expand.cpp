#include "model/launch/shell_expand.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "model/launch/shell_output.h"
#include "model/launch/shell_syntax.h"
#include "model/launch/text_parts.h"

namespace a2asim {
namespace {

constexpr std::size_t kMostExpandedBytes = 1 << 20;  // A=$A$A again and again would fill the memory

// $(dirname "$0") and $(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd): where the script lies, "." for the one given.
std::optional<std::string> own_folder(std::string_view command, const ShellVariables& variables) {
  constexpr std::size_t kMostBytes = 200;
  if (command.size() > kMostBytes || command.find("dirname") == npos) return std::nullopt;
  std::string plain;
  for (const char c : command)
    if (c != '"' && !(c == ' ' && (plain.empty() || plain.back() == ' '))) plain += c;
  while (plain.ends_with(' ')) plain.pop_back();
  for (const auto& [long_form, short_form] : {std::pair("${BASH_SOURCE[0]}", "$0"),
                                              {"${BASH_SOURCE}", "$0"},
                                              {"$BASH_SOURCE", "$0"},
                                              {"${0}", "$0"},
                                              {" -- ", " "},
                                              {"> /dev", ">/dev"},
                                              {" &>/dev/null", ""},
                                              {" >/dev/null", ""},
                                              {" 2>&1", ""},
                                              {"( ", "("},
                                              {" )", ")"},
                                              {"pwd -P", "pwd"},
                                              {"$(readlink -f $0)", "$0"},
                                              {"$(realpath $0)", "$0"}})
    for (std::size_t at = plain.find(long_form); at != npos; at = plain.find(long_form))
      plain.replace(at, std::string_view(long_form).size(), short_form);
  constexpr std::string_view kBegin = "cd $(dirname $0)", kEnd = " && pwd";
  const std::string& folder = command.find("BASH_SOURCE") != npos ? variables.source_folder : variables.folder;
  if (plain == "dirname $0") return folder;
  if (!plain.starts_with(kBegin) || !plain.ends_with(kEnd)) return std::nullopt;
  const std::string below = plain.substr(kBegin.size(), plain.size() - kBegin.size() - kEnd.size());
  if (below.find_first_of(" $`;&|()'*?[") != npos) return std::nullopt;
  return folder + below;
}

}  // namespace

void ShellExpander::Output::add(std::string_view text, bool quoted) {
  if (!text.empty()) word.from.clear();
  if (in_pattern && quoted) {
    for (const char c : text) {
      if (!is_shell_name_char(c)) word.text += '\\';
      word.text += c;
    }
  } else {
    word.text += text;
  }
  in_word = true;
  after_blank = false;
}

void ShellExpander::Output::add_open(std::string_view source, bool quoted) {
  add(masks ? std::string_view("\1") : source, false);
  word.is_open = true;
  word.is_many |= splits && !quoted;
}

void ShellExpander::Output::end_word() {
  if (in_word) fields.push_back(std::exchange(word, {}));
  in_word = false;
}

std::vector<ShellValue> ShellExpander::fields(std::string_view raw) {
  const auto words = brace_words(raw);
  if (!words) {
    fail_with("the braces of the command give more than 4096 words: write them out");
    return {};
  }
  std::vector<ShellValue> all;
  charge(words->size() > 1 ? words->size() * raw.size() : 0);
  for (const std::string& one : *words) {
    if (error_) break;
    Output out;
    expand(one, Quoting::none, out);
    out.end_word();
    std::ranges::move(out.fields, std::back_inserter(all));
  }
  return all;
}

ShellValue ShellExpander::word(std::string_view raw) {
  Output out;
  out.splits = false;
  expand(raw, Quoting::none, out);
  return std::move(out.word);
}

ShellValue ShellExpander::pattern(std::string_view raw) {
  Output out;
  out.splits = false;
  out.in_pattern = true;
  expand(raw, Quoting::none, out);
  for (const std::string_view extended : {"?(", "*(", "+(", "@(", "!("})
    if (out.word.text.find(extended) != npos) out.word.is_open = true;  // read only where `shopt` says so
  return std::move(out.word);
}

ShellValue ShellExpander::text(std::string_view raw) {
  Output out;
  out.splits = false;
  expand(raw, Quoting::document, out);
  return std::move(out.word);
}

void ShellExpander::fail_with(std::string message) {
  if (!error_) error_ = Error{ErrorKind::bad_input, std::move(message)};
}

void ShellExpander::charge(std::size_t work) {
  constexpr std::size_t kMostWork = 4'000'000;  // bytes looked at, about
  work_ += work;
  if (work_ > kMostWork) fail_with("the command runs for too long: take out what starts no server");
}

void ShellExpander::expand(std::string_view raw, Quoting quoting, Output& out) {
  charge(raw.size() + 8);
  if (++nested_ > kMostNested) {
    out.add_open(raw, quoting != Quoting::none);
    --nested_;
    return;
  }
  const bool quoted = quoting != Quoting::none;
  const std::string_view escaped = quoting == Quoting::quotes ? "\"\\$`\n" : "\\$`\n";
  for (std::size_t at = 0; at < raw.size() && !error_;) {
    const char c = raw[at], next = at + 1 < raw.size() ? raw[at + 1] : '\0';
    if (c == '$') {
      at = dollar(raw, at, quoting, out);
    } else if (c == '`') {
      const std::size_t end = std::min(end_of_quote(raw, at), raw.size() - 1);
      out.add_open(raw.substr(at, end - at + 1), quoted);
      at = end + 1;
    } else if (c == '\\' && next != '\0' && (!quoted || escaped.find(next) != npos)) {
      if (next != '\n') out.add(raw.substr(at + 1, 1), true);
      at += 2;
    } else if (!quoted && (c == '\'' || c == '"')) {
      at = quotes(raw, at, out);
    } else if (!quoted && (c == '<' || c == '>') && next == '(') {
      const std::size_t end = std::min(end_of_index(raw, at + 1), raw.size() - 1);
      out.add_open(raw.substr(at, end - at + 1), true);
      at = end + 1;
    } else {
      if (out.in_alternative && out.splits && !quoted)
        add_split(raw.substr(at, 1), out);
      else
        out.add(raw.substr(at, 1), quoted);
      ++at;
    }
  }
  --nested_;
}

// The quotes that begin at `at`; where they end. Empty ones are a word, but for "$@" without arguments.
std::size_t ShellExpander::quotes(std::string_view raw, std::size_t at, Output& out) {
  const std::size_t end = std::min(end_of_quote(raw, at), raw.size());
  const std::string_view inside = raw.substr(at + 1, end - at - 1);
  const bool was_in_word = std::exchange(out.in_word, true);
  out.empty_list = false;
  if (raw[at] == '\'') {
    out.add(inside, true);
  } else {
    const std::size_t fields = out.fields.size();
    const std::string before = out.word.text;
    expand(inside, Quoting::quotes, out);
    if (out.empty_list && out.fields.size() == fields && out.word.text == before) out.in_word = was_in_word;
  }
  return end + 1;
}

// What the $ at `at` begins; where it ends.
std::size_t ShellExpander::dollar(std::string_view raw, std::size_t at, Quoting quoting, Output& out) {
  const bool quoted = quoting != Quoting::none;
  const char next = at + 1 < raw.size() ? raw[at + 1] : '\0';
  if (!quoted && next == '\'') {
    const std::size_t end = std::min(end_of_quote(raw, at + 1), raw.size());
    const auto inside = ansi_quoted(raw.substr(at + 2, end - at - 2));
    inside ? out.add(*inside, true) : out.add_open(raw.substr(at, end + 1 - at), true);
    return end + 1;
  }
  if (!quoted && next == '"') return at + 1;  // $"..": a text that may be translated
  if (next == '(' || next == '{' || next == '[') return bracketed(raw, at, quoting, out);
  std::size_t end = at + 1;
  while (end < raw.size() && is_shell_name_char(raw[end])) ++end;
  if (end > at + 1 && !is_shell_name_start(next)) end = at + 2;  // $10 is ${1}0
  if (end == at + 1 && next != '\0' && std::string_view("@*#?$!-").find(next) != npos) ++end;
  if (end == at + 1) return out.add("$", quoted), end;
  parameter(raw.substr(at + 1, end - at - 1), raw.substr(at, end - at), quoting, out);
  return end;
}

// ${..}, $((..)), $[..] and $(..)
std::size_t ShellExpander::bracketed(std::string_view raw, std::size_t at, Quoting quoting, Output& out) {
  const std::size_t end = std::min(end_of_expansion(raw, at), raw.size() - 1);
  const std::string_view source = raw.substr(at, end - at + 1);
  const bool twice = source.size() > 4 && source.starts_with("$((") && source.ends_with("))");
  if (source.starts_with("${")) {
    parameter(source.substr(2, source.size() - 3), source, quoting, out);
  } else if (twice || source.starts_with("$[")) {
    const auto value = arithmetic(twice ? source.substr(3, source.size() - 5) : source.substr(2, source.size() - 3));
    value ? out.add(std::to_string(*value), true) : out.add_open(source, quoting != Quoting::none);
  } else if (const auto known = known_output(source.substr(2, source.size() - 3))) {
    list({{*known}}, false, quoting, out);
  } else {
    out.add_open(source, quoting != Quoting::none);  // nothing is run here
  }
  return end + 1;
}

// Of $(seq 0 3) and $(echo a b), which loops are written with.
std::optional<std::string> ShellExpander::known_output(std::string_view command) {
  if (auto folder = own_folder(command, variables_)) return folder;
  if (command.find_first_of("|;&<>()`\n#*?[~\\") != npos) return std::nullopt;
  while (command.starts_with(' ')) command.remove_prefix(1);
  while (command.ends_with(' ')) command.remove_suffix(1);
  const std::string_view verb = command.substr(0, command.find(' '));
  if (verb != "seq" && verb != "echo") return std::nullopt;
  std::string out;
  std::vector<std::int64_t> numbers;
  // One raw word a blank: quotes that hold one are left alone.
  if (verb == "echo" && command.find_first_of("'\"") != npos) return std::nullopt;
  for (std::string_view rest = command.substr(verb.size()); !rest.empty();) {
    const std::size_t begin = std::min(rest.find_first_not_of(' '), rest.size());
    const std::size_t end = std::min(rest.find(' ', begin), rest.size());
    for (const ShellValue& value : fields(rest.substr(begin, end - begin))) {
      if (value.is_open || value.text.starts_with(verb == "echo" ? "-" : "--")) return std::nullopt;
      out += (out.empty() ? "" : " ") + value.text;
      std::int64_t number = 0;
      const char* const last = value.text.data() + value.text.size();
      const auto read = std::from_chars(value.text.data(), last, number);
      if (verb == "seq" && (read.ec != std::errc{} || read.ptr != last)) return std::nullopt;
      numbers.push_back(number);
    }
    rest.remove_prefix(end);
  }
  if (verb == "echo") return out;
  constexpr std::int64_t kMost = 4096;
  const std::int64_t first = numbers.size() > 1 ? numbers.front() : 1, step = numbers.size() > 2 ? numbers[1] : 1;
  if (numbers.empty() || numbers.size() > 3 || step == 0 || std::abs(numbers.back() / 2 - first / 2) > kMost)
    return std::nullopt;
  out.clear();
  for (std::int64_t i = first; step > 0 ? i <= numbers.back() : i >= numbers.back(); i += step)
    out += (out.empty() ? "" : "\n") + std::to_string(i);
  return out;
}

// IFS: nothing where only the outside knows it.
std::optional<std::string> ShellExpander::separators() const {
  const ShellVariable* const found = variables_.find("IFS");
  const ShellValue* const value = found == nullptr ? nullptr : found->first();
  if (value == nullptr) return " \t\n";
  return value->is_open ? std::nullopt : std::optional(value->text);
}

void ShellExpander::add_split(std::string_view text, Output& out) {
  const auto ifs = separators();
  if (!ifs) return out.add_open(text, false);
  for (const char c : text) {
    if (ifs->find(c) == npos) {
      out.add(std::string_view(&c, 1), false);
    } else if (c == ' ' || c == '\t' || c == '\n') {
      out.after_blank |= out.in_word;
      out.end_word();
    } else {
      if (!std::exchange(out.after_blank, false)) out.in_word = true;  // a blank in front of it has ended the word
      out.end_word();
    }
  }
}

std::optional<std::vector<ShellValue>> ShellExpander::split(std::string_view line, std::size_t most) {
  const auto ifs = separators();
  if (!ifs) return std::nullopt;
  const auto is_separator = [&](char c) { return ifs->find(c) != npos; };
  const auto is_blank = [&](char c) { return is_separator(c) && (c == ' ' || c == '\t' || c == '\n'); };
  while (!line.empty() && is_blank(line.front())) line.remove_prefix(1);
  while (!line.empty() && is_blank(line.back())) line.remove_suffix(1);
  std::vector<ShellValue> out;
  while (!line.empty()) {
    const auto end = static_cast<std::size_t>(std::ranges::find_if(line, is_separator) - line.begin());
    std::size_t next = end;
    while (next < line.size() && is_blank(line[next])) ++next;
    if (next < line.size() && is_separator(line[next])) ++next;
    while (next < line.size() && is_blank(line[next])) ++next;
    const bool takes_rest = out.size() + 1 == most && next < line.size();
    out.push_back({std::string(takes_rest ? line : line.substr(0, end))});
    line.remove_prefix(takes_rest ? line.size() : next);
  }
  return out;
}

// "${ARGS[@]}" keeps each element a word, "${ARGS[*]}" makes one word of all.
void ShellExpander::list(const std::vector<ShellValue>& items, bool star, Quoting quoting, Output& out) {
  const bool quoted = quoting != Quoting::none;
  const auto ifs = separators();
  if (!ifs && star) return out.add_open("$*", quoted);
  out.empty_list |= items.empty() && !star;
  for (std::size_t i = 0; i < items.size(); ++i) {
    expanded_bytes_ += items[i].text.size() + 1;
    if (expanded_bytes_ > kMostExpandedBytes)
      return fail_with("the variables of the command expand to more than 1 MiB: write it out");
    if (i > 0 && star && (quoted || !out.splits))
      out.add(std::string_view(*ifs).substr(0, 1), quoted);
    else if (i > 0 && !out.splits)
      out.add(" ", quoted);
    else if (i > 0)
      out.end_word(), out.after_blank = false;
    if (items[i].is_open)
      out.add_open(items[i].text, quoted && !items[i].is_many);
    else if (quoted || !out.splits)
      out.add(items[i].text, quoted);
    else
      add_split(items[i].text, out);
    if (out.in_word && out.word.text == items[i].text) out.word.from = items[i].from;
  }
}

std::optional<std::int64_t> ShellExpander::arithmetic(std::string_view expression) {
  if (nested_ == kMostNested) fail_with("arithmetic of the command nests too deep: write it out");
  Output out;
  out.splits = false;
  out.masks = true;
  expand(expression, Quoting::quotes, out);
  std::erase(out.word.text, '"');
  if (error_) return std::nullopt;
  ++nested_;
  ArithmeticVariables variables;
  variables.get = [this](const ShellPlace& place) -> std::optional<std::string> {
    const Found found = lookup(place.name, place.index);
    if (!found.is_known || (found.value && found.value->is_open)) return std::nullopt;
    expanded_bytes_ += found.value ? found.value->text.size() + 1 : 1;
    if (expanded_bytes_ <= kMostExpandedBytes) return found.value ? found.value->text : std::string();
    fail_with("the variables of the command expand to more than 1 MiB: write it out");
    return std::nullopt;
  };
  variables.set = [this](const ShellPlace& place, std::optional<std::int64_t> value) {
    assign(place, value ? ShellValue{std::to_string(*value)} : ShellValue{fmt::format("${}", place.name), true}, false);
  };
  const ArithmeticResult result = evaluate_arithmetic(out.word.text, variables);
  --nested_;
  if (result.error) fail_with(*result.error);
  return result.value;
}

std::optional<std::int64_t> ShellExpander::number_of_index(std::string_view name, std::string_view index) {
  const auto at = arithmetic(index);
  if (!at || *at >= 0) return at;
  const ShellVariable* const found = variables_.find(name);
  return found == nullptr || found->items.empty() ? at : *at + found->items.rbegin()->first + 1;
}

void ShellExpander::assign(const ShellPlace& place, ShellValue value, bool appends) {
  const std::string name(place.name);
  const ShellVariable* const before = variables_.find(name);
  const bool is_keyed = before != nullptr && before->is_keyed;
  if (before != nullptr && before->is_readonly)
    return fail_with(fmt::format("{} is read-only in the text and is set again: take one out", name));
  if (before != nullptr && before->is_integer && !value.is_open) {
    const auto number = arithmetic(value.text);
    value = number ? ShellValue{std::to_string(*number), false, false, value.from} : ShellValue{"$" + name, true};
  }
  // Of a name that is not set in the text, the outside may hold more.
  if (before == nullptr && appends && place.index.empty()) value = {fmt::format("${}{}", name, value.text), true};
  std::string key = is_keyed ? "0" : "";
  std::int64_t number = 0;
  if (!place.index.empty()) {
    const ShellValue keyed = is_keyed ? word(place.index) : ShellValue{};
    const auto at = is_keyed ? std::optional<std::int64_t>(0) : number_of_index(name, place.index);
    if (keyed.is_open || !at) return variables_.open(name);
    if (*at < 0) return fail_with(fmt::format("{}[{}] lies in front of the array", name, place.index));
    key = keyed.text;
    number = *at;
  }
  if (error_) return;
  ShellVariable& variable = variables_.named[name];
  if (place.index.empty() && !variable.is_array) variable.is_open = false;
  variable.is_array |= !place.index.empty() && !variable.is_keyed;
  ShellValue& slot = variable.is_keyed ? variable.keys[key] : variable.items[number];
  if (appends && variable.is_integer && !slot.is_open && !value.is_open) {
    const auto sum = arithmetic(fmt::format("({})+({})", slot.text.empty() ? "0" : slot.text, value.text));
    value = sum ? ShellValue{std::to_string(*sum)} : ShellValue{"$" + name, true};
  } else if (appends) {
    value = {slot.text + value.text, slot.is_open || value.is_open};
  }
  if (variable.letters == 'u' || variable.letters == 'l')
    for (char& c : value.text)
      if (const bool upper = variable.letters == 'u'; upper ? c >= 'a' && c <= 'z' : c >= 'A' && c <= 'Z')
        c = static_cast<char>(c ^ 0x20);
  slot = std::move(value);
}

}  // namespace a2asim
