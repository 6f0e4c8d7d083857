// ShellExpander: $NAME and ${NAME..}.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <span>
#include <utility>

#include "model/launch/shell_expand.h"
#include "model/launch/shell_output.h"
#include "model/launch/shell_syntax.h"
#include "model/launch/text_parts.h"

namespace a2asim {
namespace {

constexpr std::size_t kMostMatchedBytes = 4096;  // of a text that a pattern is cut from: its cost is a square

bool is_position(std::string_view text) { return !text.empty() && text.find_first_not_of("0123456789") == npos; }
bool is_ascii(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

std::string change_case(std::string text, bool upper, bool all) {
  for (std::size_t i = 0; i < (all ? text.size() : std::min<std::size_t>(text.size(), 1)); ++i) {
    char& c = text[i];
    if (upper ? c >= 'a' && c <= 'z' : c >= 'A' && c <= 'Z') c = static_cast<char>(c ^ 0x20);
  }
  return text;
}

std::optional<ShellParameter> read_parameter(std::string_view inside) {
  ShellParameter out;
  std::size_t end = 0;
  while (end < inside.size() && is_shell_name_char(inside[end])) ++end;
  if (end == 0 && !inside.empty() && std::string_view("@*#?$!-").find(inside.front()) != npos) end = 1;
  if (end == 0 || (end > 1 && !is_shell_name_start(inside.front()) && !is_position(inside.substr(0, end))))
    return std::nullopt;
  out.name = inside.substr(0, end);
  if (inside.substr(end).starts_with('[')) {
    const std::size_t close = end_of_index(inside, end);
    if (close == npos) return std::nullopt;
    out.index = inside.substr(end + 1, close - end - 1);
    end = close + 1;
  }
  out.operation = inside.substr(end);
  return out;
}

// The operation of ${V:-..}, ${V=..}: one of - = + ?, and whether a colon stands in front; '\0' for any other.
struct Alternative {
  char kind = '\0';
  bool colon = false;
  std::string_view text;
};
Alternative alternative_of(std::string_view operation) {
  const bool colon = operation.starts_with(':');
  if (colon) operation.remove_prefix(1);
  if (operation.empty() || std::string_view("-=+?").find(operation.front()) == npos) return {};
  return {operation.front(), colon, operation.substr(1)};
}

// How many words these are is known.
bool is_counted(std::span<const ShellValue> items) {
  return std::ranges::none_of(items, [](const ShellValue& item) { return item.is_many; });
}

// Where `wanted` stands outside quotes and expansions.
std::size_t find_plain(std::string_view text, char wanted) {
  for (std::size_t at = 0; at < text.size(); ++at) {
    const char c = text[at];
    if (c == wanted) return at;
    if (c == '\\') ++at;
    if (c == '\'' || c == '"') at = std::min(end_of_quote(text, at), text.size());
    if (c == '$') at = std::min(end_of_expansion(text, at), text.size());
  }
  return npos;
}

// "${V:-"a b"}": the inner quotes end nothing and begin nothing.
std::string without_quotes(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size(); ++at) {
    std::size_t end = at;
    if (text[at] == '\\') end = std::min(at + 1, text.size() - 1);
    if (text[at] == '$') end = std::min(end_of_expansion(text, at), text.size() - 1);
    if (text[at] != '"') out += text.substr(at, end + 1 - at);
    at = end;
  }
  return out;
}

}  // namespace

std::optional<std::vector<ShellValue>> ShellExpander::items_of(std::string_view name, std::string_view index) {
  if (name == "@" || name == "*") return variables_.arguments;
  const ShellVariable* const found = variables_.find(name);
  const bool all = index == "@" || index == "*";
  if (!all || found == nullptr || found->is_open || found->keys.size() > 1) return std::nullopt;  // keys have no order
  std::vector<ShellValue> out;
  charge(found->items.size());
  for (const auto& [place, value] : found->items) out.push_back(value);
  for (const auto& [key, value] : found->keys) out.push_back(value);
  return out;
}

ShellExpander::Found ShellExpander::lookup(std::string_view name, std::string_view index) {
  const Found open{
      true, ShellValue{index.empty() ? fmt::format("${}", name) : fmt::format("${{{}[{}]}}", name, index), true}};
  if (is_position(name) && name != "0") {
    if (!variables_.arguments) {
      const ShellVariable* const given = variables_.find(variables_.name_of(name));
      const ShellValue* const value = given == nullptr ? nullptr : given->first();
      return value == nullptr ? Found{} : Found{true, *value};
    }
    std::size_t place = 0;
    std::from_chars(name.data(), name.data() + name.size(), place);
    if (!is_counted(std::span(*variables_.arguments).first(std::min(place, variables_.arguments->size())))) return open;
    if (place == 0 || place > variables_.arguments->size()) return {true};
    return {true, (*variables_.arguments)[place - 1]};
  }
  if (name == "#" && variables_.arguments && is_counted(*variables_.arguments))
    return {true, ShellValue{std::to_string(variables_.arguments->size())}};
  const ShellVariable* const found = variables_.find(name);
  if (found == nullptr) return {};
  if (index.empty() || (found->is_open && !found->is_array)) {
    const ShellValue* const first = found->first();
    return first == nullptr ? Found{true} : Found{true, *first};
  }
  charge(found->items.size() / 4);
  if (!found->is_counted()) return open;
  if (found->is_keyed) {
    const ShellValue key = word(index);
    const auto element = found->keys.find(key.text);
    if (key.is_open) return open;
    return element == found->keys.end() ? Found{true} : Found{true, element->second};
  }
  const auto at = number_of_index(name, index);
  if (!at) return open;
  const auto element = found->items.find(*at);
  return element == found->items.end() ? Found{true} : Found{true, element->second};
}

void ShellExpander::parameter(std::string_view inside, std::string_view source, Quoting quoting, Output& out) {
  if (++nested_ > kMostNested) {
    out.add_open(source, quoting != Quoting::none);
    --nested_;
    return;
  }
  const auto read = read_parameter(inside);
  if (inside.size() > 1 && inside.front() == '#') {
    count(inside.substr(1), source, out);
  } else if (inside.size() > 1 && inside.front() == '!') {
    indirect(inside.substr(1), source, quoting, out);
  } else if (!read) {
    out.add_open(source, quoting != Quoting::none);
  } else if (read->is_list()) {
    list_parameter(*read, source, quoting, out);
  } else {
    plain(*read, source, quoting, out);
  }
  --nested_;
}

void ShellExpander::plain(const ShellParameter& read, std::string_view source, Quoting quoting, Output& out) {
  Found found = lookup(read.name, read.index);
  const Alternative other = alternative_of(read.operation);
  const bool is_open = found.value && found.value->is_open;
  const bool is_set = found.value && (is_open || !other.colon || !found.value->text.empty());
  if (other.kind == '+') {
    if (is_open && other.colon) return out.add_open(source, quoting != Quoting::none);  // it may be empty
    if (!found.is_known) variables_.defaults.emplace(variables_.name_of(read.name), "");
    return is_set ? alternative(other.text, quoting, out) : void();
  }
  if ((other.kind == '-' || other.kind == '=') && !is_set) {
    const std::string root = found.is_known ? std::string() : variables_.name_of(read.name);
    if (!found.is_known) variables_.defaults.emplace(root, word(other.text).text);
    if (other.kind == '-') {
      const bool is_alone = out.word.text.empty();
      alternative(other.text, quoting, out);
      if (is_alone && !root.empty() && !out.word.is_open) out.word.from = root;
      return;
    }
    ShellValue value =
        word(quoting == Quoting::none ? std::string(other.text) : '"' + without_quotes(other.text) + '"');
    if (!value.is_open) value.from = root;
    assign({read.name, read.index}, value, false);
    return list({value}, false, quoting, out);
  }
  if (other.kind == '?' && found.is_known && !is_set)
    return fail_with(fmt::format("{} is empty, which ends the shell there: set it", source.substr(0, 80)));
  if (!found.is_known) return out.add_open(source, quoting != Quoting::none);
  if (!found.value) return;
  if (other.kind == '\0' && !read.operation.empty())
    found.value = transform(std::move(*found.value), read.operation, source);
  list({*found.value}, false, quoting, out);
}

// The word behind ${V:- or ${V:+
void ShellExpander::alternative(std::string_view text, Quoting quoting, Output& out) {
  if (quoting == Quoting::quotes) return expand(without_quotes(text), quoting, out);
  const bool before = std::exchange(out.in_alternative, true);
  expand(text, quoting, out);
  out.in_alternative = before;
}

// ${#V}, ${#A[@]}
void ShellExpander::count(std::string_view inside, std::string_view source, Output& out) {
  const auto read = read_parameter(inside);
  if (!read || !read->operation.empty()) return out.add_open(source, true);
  if (read->is_list()) {
    const ShellVariable* const found = variables_.find(read->name);
    const auto items = items_of(read->name, read->index);
    if (items) return is_counted(*items) ? out.add(std::to_string(items->size()), true) : out.add_open(source, true);
    const bool is_known = found != nullptr && found->is_keyed && found->is_counted();
    return is_known ? out.add(std::to_string(found->keys.size()), true) : out.add_open(source, true);
  }
  const Found found = lookup(read->name, read->index);
  const bool is_counted = found.is_known && (!found.value || (!found.value->is_open && is_ascii(found.value->text)));
  is_counted ? out.add(std::to_string(found.value ? found.value->text.size() : 0), true) : out.add_open(source, true);
}

// "$@", ${A[@]}, ${A[@]:1}, ${A[*]%.x}
void ShellExpander::list_parameter(const ShellParameter& read, std::string_view source, Quoting quoting, Output& out) {
  auto items = items_of(read.name, read.index);
  const Alternative other = alternative_of(read.operation);
  if (other.kind != '\0') {
    const ShellVariable* const found = variables_.find(read.name);
    const bool is_set = items && !items->empty() && (!other.colon || items->size() > 1 || !items->front().text.empty());
    if (!items && found != nullptr) return out.add_open(source, quoting != Quoting::none);
    if (!items) variables_.defaults.emplace(read.name, other.kind == '-' ? word(other.text).text : "");
    if (is_set == (other.kind == '+')) return alternative(other.text, quoting, out);
    if (other.kind != '-' && other.kind != '+') return out.add_open(source, quoting != Quoting::none);
    if (!is_set) return void(out.empty_list |= !read.is_star() && (!items || items->empty()));
  } else if (items && read.operation.starts_with(':')) {
    if (!slice(*items, read)) return out.add_open(source, quoting != Quoting::none);
  } else if (items && !read.operation.empty()) {
    for (ShellValue& item : *items) item = transform(std::move(item), read.operation, source);
  }
  const bool is_one = quoting != Quoting::none && read.is_star();
  items ? list(*items, read.is_star(), quoting, out) : out.add_open(source, is_one);
}

// ${A[@]:1}, ${@:2:3}; false where it is open, or no part of the list.
bool ShellExpander::slice(std::vector<ShellValue>& items, const ShellParameter& read) {
  const std::size_t second = read.operation.find(':', 1);
  auto from = arithmetic(read.operation.substr(1, second == npos ? npos : second - 1));
  const auto most =
      second == npos ? std::optional<std::int64_t>(INT64_MAX) : arithmetic(read.operation.substr(second + 1));
  const ShellVariable* const array = variables_.find(read.name);
  const bool is_arguments = read.name == "@" || read.name == "*";
  if (!from || !most || *most < 0 || !is_counted(items) || (!is_arguments && (array == nullptr || array->is_keyed)))
    return false;
  const std::int64_t last = is_arguments           ? static_cast<std::int64_t>(items.size())
                            : array->items.empty() ? -1
                                                   : array->items.rbegin()->first;
  if (*from < 0) *from += last + 1;
  if (*from < 0 || (is_arguments && *from == 0))
    return *from < 0 ? (items.clear(), true) : false;  // ${@:0} begins with $0
  std::vector<ShellValue> out;
  std::int64_t place = 0;
  auto element = is_arguments ? std::map<std::int64_t, ShellValue>::const_iterator() : array->items.begin();
  for (ShellValue& item : items) {
    place = is_arguments ? place + 1 : (element++)->first;
    if (place >= *from && static_cast<std::int64_t>(out.size()) < *most) out.push_back(std::move(item));
  }
  items = std::move(out);
  return true;
}

// ${!A[@]}, the indices, and ${!N}, the variable that N names.
void ShellExpander::indirect(std::string_view inside, std::string_view source, Quoting quoting, Output& out) {
  const auto read = read_parameter(inside);
  if (!read || read->operation == "*" || read->operation == "@") return out.add_open(source, quoting != Quoting::none);
  if (read->is_list()) {
    const ShellVariable* const found = variables_.find(read->name);
    if (found == nullptr || !found->is_counted() || found->keys.size() > 1 || !read->operation.empty())
      return out.add_open(source, quoting != Quoting::none);
    std::vector<ShellValue> places;
    for (const auto& [place, value] : found->items) places.push_back({std::to_string(place)});
    for (const auto& [key, value] : found->keys) places.push_back({key});
    return list(places, read->is_star(), quoting, out);
  }
  const Found name = lookup(read->name, read->index);
  const auto named = name.value && !name.value->is_open ? read_parameter(name.value->text) : std::nullopt;
  if (name.value && !name.value->is_open && (!named || !named->operation.empty()))
    return fail_with(fmt::format("{} names no variable", source.substr(0, 80)));
  if (!named) return out.add_open(source, quoting != Quoting::none);
  parameter(name.value->text + std::string(read->operation), source, quoting, out);
}

ShellValue ShellExpander::transform(ShellValue value, std::string_view operation, std::string_view source) {
  const ShellValue open{std::string(source), true};
  if (value.is_open || value.text.size() > kMostMatchedBytes || !is_ascii(value.text)) return open;
  const char kind = operation.front();
  const bool twice = operation.size() > 1 && operation[1] == kind;
  const std::string_view rest = operation.substr(twice ? 2 : 1);
  if ((kind == '^' || kind == ',') && rest.empty())
    return {change_case(value.text, kind == '^', twice), false, false, value.from};
  if (kind == '#' || kind == '%') {
    const ShellValue what = pattern(rest);
    charge(value.text.size() * value.text.size() / 16);
    return what.is_open ? open : ShellValue{cut_pattern(value.text, what.text, kind == '#', twice)};
  }
  if (kind == '/') return replaced(std::move(value), rest, twice, open);
  if (kind != ':') return open;
  const std::size_t second = operation.find(':', 1);
  const auto from = arithmetic(operation.substr(1, second == npos ? npos : second - 1));
  const auto size = static_cast<std::int64_t>(value.text.size());
  const auto count = second == npos ? std::optional(size) : arithmetic(operation.substr(second + 1));
  if (!from || !count || *from > size) return from && count ? ShellValue{} : open;
  const std::int64_t begin = *from < 0 ? *from + size : *from;
  if (begin < 0) return {};
  const std::int64_t end = *count < 0 ? size + *count : begin + std::min(*count, size - begin);
  if (end < begin) return open;
  return {value.text.substr(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin))};
}

// ${V/p/w}, ${V//p/w}, ${V/#p/w}, ${V/%p/w}
ShellValue ShellExpander::replaced(ShellValue value, std::string_view both, bool all, const ShellValue& open) {
  const bool front = !all && both.starts_with('#'), back = !all && both.starts_with('%');
  if (front || back) both.remove_prefix(1);
  const std::size_t slash = find_plain(both, '/');
  const ShellValue what = pattern(both.substr(0, slash));
  const ShellValue with = word(slash == npos ? std::string_view() : both.substr(slash + 1));
  if (what.is_open || with.is_open || with.text.find('&') != npos) return open;  // & may mean what was found
  const bool is_plain = what.text.find_first_of("*?[\\") == npos;
  const std::size_t size = value.text.size();
  charge(is_plain ? size : size * size / 4 * (size / 16 + 1));
  if (error_) return open;
  if (!front && !back) return {replace_pattern(value.text, what.text, with.text, all)};
  if (what.text.empty()) return {front ? with.text + value.text : value.text + with.text};
  const std::string left = cut_pattern(value.text, what.text, front, true);
  if (left.size() == value.text.size()) return value;
  return {front ? with.text + left : left + with.text};
}

}  // namespace a2asim
