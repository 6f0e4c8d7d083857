// What the outside may give in place of a default. A default that is written in the text counts where it is a value;
// where a condition compares it, the outside decides which way is taken, and each way is looked at:
//
//     ROLE=${1:-decode}
//     if [ "$ROLE" = prefill ]; then python3 -m sglang.launch_server ..; else python3 -m sglang.launch_server ..; fi
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "model/launch/front_end.h"
#include "model/launch/shell_runner.h"
#include "model/launch/text_parts.h"

namespace a2asim {
namespace {

// Of an argument of the script: 1 of $1.
bool is_place(std::string_view text) { return !text.empty() && text.find_first_not_of("0123456789") == npos; }

// Words that stand for yes and no: the other one is the only other value.
std::string_view opposite(std::string_view word) {
  static constexpr std::pair<std::string_view, std::string_view> kPairs[] = {
      {"true", "false"}, {"True", "False"}, {"TRUE", "FALSE"}, {"yes", "no"}, {"on", "off"}, {"1", "0"}};
  for (const auto& [yes, no] : kPairs)
    if (word == yes || word == no) return word == yes ? no : yes;
  return {};
}

ShellAlternative alternative_to(const ShellValue& value, std::string_view raw) {
  ShellAlternative out{.root = value.from};
  const std::string_view named = plain_variable(raw);
  out.shown = named.empty() || is_place(named) ? shown_variable(value.from) : std::string(named);
  out.usual = fmt::format("{}={}", out.shown, value.text);
  return out;
}

}  // namespace

std::string shown_variable(std::string_view name) {
  return is_place(name) ? fmt::format("${}", name) : std::string(name);
}

bool has_wildcard(std::string_view pattern) {
  for (std::size_t at = 0; at < pattern.size(); ++at) {
    if (std::string_view("*?[").find(pattern[at]) != npos) return true;
    if (pattern[at] == '\\') ++at;
  }
  return false;
}

std::optional<ShellAlternative> other_than_text(const ShellValue& value, std::string_view raw, std::string_view text) {
  if (value.from.empty()) return std::nullopt;
  ShellAlternative out = alternative_to(value, raw);
  out.value = value.text == text ? opposite(text) : text;
  if (value.text == text && out.value.empty()) out.excluded = {std::string(text)};
  out.label = fmt::format("{}{}={}", out.shown, out.excluded.empty() ? "" : "!",
                          out.excluded.empty() ? std::string_view(out.value) : text);
  return out;
}

bool compare_numbers(std::int64_t left, std::string_view op, std::int64_t right) {
  if (is_one_of(op, {"-eq", "=="})) return left == right;
  if (is_one_of(op, {"-ne", "!="})) return left != right;
  if (is_one_of(op, {"-lt", "<"})) return left < right;
  if (is_one_of(op, {"-le", "<="})) return left <= right;
  if (is_one_of(op, {"-gt", ">"})) return left > right;
  return left >= right;
}

std::optional<ShellAlternative> other_than_number(const ShellValue& value, std::string_view raw, std::string_view op,
                                                  std::int64_t number) {
  std::int64_t own = 0;
  const auto [end, failed] = std::from_chars(value.text.data(), value.text.data() + value.text.size(), own);
  const bool is_number = failed == std::errc{} && end == value.text.data() + value.text.size();
  if (value.from.empty() || !is_number || number < 0 || number > (1 << 30)) return std::nullopt;
  for (const std::int64_t other : {number, number + 1, number - 1}) {
    if (other < 0 || compare_numbers(other, op, number) == compare_numbers(own, op, number)) continue;
    ShellAlternative out = alternative_to(value, raw);
    out.value = std::to_string(other);
    out.label = fmt::format("{}={}", out.shown, out.value);
    return out;
  }
  return std::nullopt;
}

std::string_view plain_variable(std::string_view raw) {
  if (raw.size() >= 2 && raw.front() == '"' && raw.back() == '"') raw = raw.substr(1, raw.size() - 2);
  if (!raw.starts_with('$')) return {};
  raw.remove_prefix(1);
  if (raw.size() >= 2 && raw.front() == '{' && raw.find('}') + 1 == raw.size()) {
    raw = raw.substr(1, raw.size() - 2);
    std::size_t end = 0;
    while (end < raw.size() && is_shell_name_char(raw[end])) ++end;
    const std::string_view operation = raw.substr(end + (raw.substr(end).starts_with(':') ? 1 : 0));
    if (operation.starts_with('-') || operation.starts_with('=')) raw = raw.substr(0, end);
  }
  return !raw.empty() && std::ranges::all_of(raw, is_shell_name_char) ? raw : std::string_view();
}

void ShellRunner::offer(std::optional<ShellAlternative> other) {
  if (other) choices_.offer(std::move(*other));
}

// (( NNODES > 1 )), (( ${DEBUG:-0} ))
void ShellRunner::offer_arithmetic(std::string_view text) {
  const auto trimmed = [](std::string_view part) {
    const std::size_t begin = std::min(part.find_first_not_of(" \t\n"), part.size());
    return part.substr(begin, part.find_last_not_of(" \t\n") + 1 - begin);
  };
  std::size_t at = std::min(text.find_first_of("<>=!"), text.size());
  std::string_view op = text.substr(at, text.substr(std::min(at + 1, text.size())).starts_with('=') ? 2 : 1);
  std::string left(trimmed(text.substr(0, at)));
  const std::string_view right = op.empty() ? "0" : trimmed(text.substr(at + op.size()));
  if (op.empty()) op = "!=";
  std::int64_t number = 0;
  const auto [end, failed] = std::from_chars(right.data(), right.data() + right.size(), number);
  if (failed != std::errc{} || end != right.data() + right.size() || op == "=" || op == "!") return;
  if (!left.empty() && is_shell_name_start(left.front()) && std::ranges::all_of(left, is_shell_name_char))
    left.insert(0, "$");
  if (!plain_variable(left).empty()) offer(other_than_number(expander_.word(left), left, op, number));
}

// The patterns of a case that do not fit a default: `taken` is the one that does.
void ShellRunner::offer_patterns(const ShellNode& node, std::size_t from, std::size_t taken,
                                 const ShellValue& subject) {
  if (subject.from.empty()) return;
  ShellAlternative rest = alternative_to(subject, node.words.front());
  bool has_rest = false;
  for (std::size_t i = from; i < node.patterns.size(); ++i) {
    bool has_literal = false;
    for (const std::string& raw : node.patterns[i]) {
      const ShellValue pattern = expander_.pattern(raw);
      if (pattern.is_open || has_wildcard(pattern.text)) continue;
      const std::string text = expander_.word(raw).text;
      rest.excluded.push_back(text);
      if (i != taken && !std::exchange(has_literal, true) && text != subject.text)
        offer(other_than_text(subject, node.words.front(), text));
    }
    has_rest |= i != taken && std::ranges::find(node.patterns[i], "*") != node.patterns[i].end();
  }
  rest.label = rest.shown + "=(other)";
  if (has_rest && !rest.excluded.empty()) offer(std::move(rest));
}

// As it is written, functions that it calls included.
bool ShellRunner::starts_server(const ShellNode& node, int depth) const {
  constexpr int kMostNested = 60;
  if (depth > kMostNested) return false;
  if (node.kind == ShellKind::simple && !node.words.empty()) {
    Words words;
    for (const std::string& word : node.words) words.push_back({word});
    if (!starts_nothing(words) && (find_front_end(words) || find_nested_text(words) || runs_scripts(words)))
      return true;
    const auto called = functions_.find(node.words.front());
    if (called != functions_.end() && starts_server(*called->second.body, depth + 1)) return true;
  }
  return std::ranges::any_of(node.children, [&](const ShellNode& child) { return starts_server(child, depth + 1); });
}

// A loop over the script's own arguments is not walked: what it sets is what the outside may give.
void ShellRunner::mark_given(const ShellNode& node) {
  if (node.kind == ShellKind::simple) {
    for (const std::string& raw : node.words) {
      const auto one = read_assignment(raw);
      if (!one) break;
      const std::string name(one->name);
      const auto found = variables_.named.find(name);
      if (!one->index.empty() || found == variables_.named.end() || found->second.is_array) continue;
      const auto value = found->second.items.find(0);
      if (value == found->second.items.end() || value->second.is_open) continue;
      const auto other = std::ranges::find(choices_.assumed(), name, &ShellAlternative::root);
      if (other != choices_.assumed().end())
        value->second = assumed_value(*other);
      else
        variables_.defaults.insert_or_assign(name, value->second.text), value->second.from = name;
    }
  }
  for (const ShellNode& child : node.children) mark_given(child);
}

// A loop that takes one argument after the other, of arguments that only the outside knows.
bool ShellRunner::reads_arguments(const ShellNode& node) const {
  if (variables_.arguments && std::ranges::none_of(*variables_.arguments, &ShellValue::is_many)) return false;
  if (node.kind == ShellKind::simple && !node.words.empty() && is_one_of(node.words.front(), {"shift", "getopts"}))
    return true;
  return std::ranges::any_of(node.children, [this](const ShellNode& child) { return reads_arguments(child); });
}

ShellValue assumed_value(const ShellAlternative& other) {
  if (!other.excluded.empty()) return {"$" + other.root, true};
  return {other.value, false, false, other.root};
}

void assume(ShellVariables& variables, std::span<const ShellAlternative> all) {
  for (const ShellAlternative& one : all)
    is_place(one.root) ? variables.set(one.root, assumed_value(one))
                       : variables.set_exported(one.root, assumed_value(one));
}

}  // namespace a2asim
