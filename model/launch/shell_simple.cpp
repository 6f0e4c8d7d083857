// ShellRunner: simple commands, assignments and functions.
#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "model/launch/front_end.h"
#include "model/launch/shell_runner.h"

namespace a2asim {
namespace {

using enum ShellStatus;

constexpr int kMostCalls = 30;  // of functions inside each other

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words;
  while (true) {
    text.remove_prefix(std::min(text.find_first_not_of(" \t\n"), text.size()));
    if (text.empty()) return words;
    const std::size_t end = std::min(text.find_first_of(" \t\n"), text.size());
    words.emplace_back(text.substr(0, end));
    text.remove_prefix(end);
  }
}

}  // namespace

std::optional<ShellRunner::Assignment> ShellRunner::read_assignment(std::string_view raw) {
  std::size_t end = 0;
  while (end < raw.size() && is_shell_name_char(raw[end])) ++end;
  if (end == 0 || !is_shell_name_start(raw.front())) return std::nullopt;
  Assignment out{raw.substr(0, end), {}, {}};
  if (raw.substr(end).starts_with('[')) {
    const std::size_t close = end_of_index(raw, end);
    if (close == std::string_view::npos) return std::nullopt;
    out.index = raw.substr(end + 1, close - end - 1);
    end = close + 1;
  }
  out.appends = raw.substr(end).starts_with("+=");
  if (out.appends) ++end;
  if (end >= raw.size() || raw[end] != '=') return std::nullopt;
  out.value = raw.substr(end + 1);
  return out;
}

void ShellRunner::assign(const Assignment& assignment) {
  expander_.assign({assignment.name, assignment.index}, expander_.word(assignment.value), assignment.appends);
}

// NAME=(..), NAME+=(..), and `declare -A NAME=(..)`.
ShellStatus ShellRunner::run_array(const ShellNode& node) {
  Declaration declaration;
  const bool declares = !node.operators.empty() && is_declaration(node.operators.front());
  if (declares) {
    declaration = read_declaration(node.operators, node.line);
    declare(node.operators, node);
  } else {
    for (const std::string& raw : node.operators)
      if (const auto one = read_assignment(raw)) assign(*one);
  }
  struct Element {
    std::string_view index;  // raw
    ShellValue value;
    bool appends = false;
  };
  std::vector<Element> elements;  // read before the array is emptied: A=("${A[@]}" x)
  for (const std::string& raw : node.words) {
    const std::string named = node.text + raw;
    const auto one = raw.starts_with('[') ? read_assignment(named) : std::nullopt;
    if (one && !one->index.empty())
      elements.push_back(
          {std::string_view(raw).substr(1, one->index.size()), expander_.word(one->value), one->appends});
    else
      for (ShellValue& item : expander_.fields(raw)) elements.push_back({{}, std::move(item)});
  }
  if (declares) declare_name(declaration, node.text);
  ShellVariable& variable = variables_.named[node.text];
  if (variable.is_readonly) return refuse(node.line, node.text + " is read-only and is set again: take one out"), open;
  if (!node.flag) variable.items.clear(), variable.keys.clear(), variable.is_open = false;
  variable.is_array = !variable.is_keyed;
  const bool pairs = variable.is_keyed && !elements.empty() && elements.front().index.empty();  // (key value ..)
  std::int64_t next = variable.items.empty() ? 0 : variable.items.rbegin()->first + 1;
  for (std::size_t i = 0; i < elements.size(); ++i) {
    Element& one = elements[i];
    if (pairs) {
      ShellValue value = i + 1 < elements.size() ? elements[i + 1].value : ShellValue{};
      variable.is_open |= one.value.is_open || one.value.is_many || value.is_many;
      variable.keys[one.value.text] = std::move(value);
      ++i;
      continue;
    }
    if (one.index.empty() && !variable.is_keyed && !variable.is_integer && variable.letters == '\0') {
      variable.items[next++] = std::move(one.value);
      continue;
    }
    const std::string index = one.index.empty() ? std::to_string(next) : std::string(one.index);
    if (!variable.is_keyed) next = expander_.number_of_index(node.text, index).value_or(next) + 1;
    expander_.assign({node.text, index}, std::move(one.value), one.appends);
  }
  if (declares) finish_declaration(declaration, node.text);
  return success;
}

// PID=$(python3 .. & echo $!), JOB=$(sbatch --parsable FILE): a server that a substitution starts.
void ShellRunner::run_substitutions(std::string_view raw, std::size_t line) {
  for (std::size_t at = raw.find("$("); at != std::string_view::npos; at = raw.find("$(", at + 2)) {
    const std::size_t end = raw.substr(at).starts_with("$((") ? std::string_view::npos : end_of_expansion(raw, at);
    if (end == std::string_view::npos) continue;
    const std::string_view inside = raw.substr(at + 2, end - at - 2);
    Words words;
    for (const std::string& word : words_of(inside)) words.push_back({word});
    if (words.empty() || starts_nothing(words) || !(find_front_end(words) || find_script(words))) continue;
    Result<ShellScript> script = parse_shell(inside);
    if (!script) return refuse(line, script.error().message);
    texts_.push_back(std::move(*script));
    const ShellScript* const outer = std::exchange(script_, &texts_.back());
    const std::size_t outer_line = std::exchange(text_line_, text_line_ > 0 ? text_line_ : line);
    texts_.back().root.kind = ShellKind::subshell;
    run_apart(script_->root);
    script_ = outer;
    text_line_ = outer_line;
  }
}

ShellStatus ShellRunner::run_simple(const ShellNode& node) {
  last_test_ = {};
  std::span<const std::string> raw = node.words;
  for (const std::string& word : raw)
    if (word.front() != '\'') run_substitutions(word, node.line);
  std::size_t verb = 0;
  while (verb + 1 < raw.size() && (raw[verb] == "builtin" || raw[verb] == "command")) ++verb;
  if (verb < raw.size() && declare(raw.subspan(verb), node)) return success;
  std::size_t assignments = 0;
  while (assignments < raw.size() && read_assignment(raw[assignments])) ++assignments;
  if (assignments < raw.size() && (raw[assignments] == "[" || raw[assignments] == "test")) {
    const bool bracket = raw[assignments] == "[" && raw.back() == "]";
    return run_test({raw.begin() + static_cast<std::ptrdiff_t>(assignments) + 1, raw.end() - (bracket ? 1 : 0)}, false);
  }
  if (assignments < raw.size() && raw[assignments].find('[') != std::string::npos &&
      !raw[assignments].starts_with('[') &&
      !assigned_name(raw[assignments].substr(0, raw[assignments].find('[')) + "=").empty())
    return refuse(node.line, fmt::format("{} is not read: write an index without blanks", raw[assignments])), open;
  Words words;
  for (const std::string& one : raw.subspan(assignments))
    std::ranges::move(expander_.fields(one), std::back_inserter(words));
  if (!words.empty()) return run_with(raw.first(assignments), words, node);
  for (const std::string& one : raw.first(assignments)) assign(*read_assignment(one));
  const bool runs = std::ranges::any_of(raw, [](const std::string& one) {
    return one.find("$(") != std::string::npos || one.find('`') != std::string::npos;
  });
  return runs ? open : success;
}

// NAME=value in front of a command: for a function or what the shell does itself, set while it runs; for others, words.
ShellStatus ShellRunner::run_with(std::span<const std::string> assignments, const Words& words, const ShellNode& node) {
  if (assignments.empty()) return run_words(words, node, true);
  std::vector<std::pair<std::string, std::optional<ShellVariable>>> before;
  Words all;
  for (const std::string& raw : assignments) {
    const Assignment one = *read_assignment(raw);
    const std::string name(one.name);
    const auto found = variables_.named.find(name);
    before.emplace_back(name, found == variables_.named.end() ? std::nullopt : std::optional(found->second));
    assign(one);
    variables_.named[name].is_exported = true;
    const ShellValue* const value = variables_.named[name].first();
    all.push_back(
        {fmt::format("{}={}", name, value == nullptr ? "" : value->text), value != nullptr && value->is_open});
  }
  const bool is_function = functions_.contains(words.front().text);
  ShellStatus status = open;
  std::optional<ShellStatus> own;
  if (is_function)
    status = run_words(words, node, true);
  else
    own = run_builtin(words, node);
  std::ranges::reverse(before);
  for (auto& [name, variable] : before)
    variable ? void(variables_.named[name] = std::move(*variable)) : void(variables_.named.erase(name));
  if (is_function || own) return own.value_or(status);
  std::ranges::copy(words, std::back_inserter(all));
  const bool is_wanted = start(all, node);
  if (words.front().text == "exec" && words.size() > 1) end_by_exec();
  return is_wanted ? success : open;
}

ShellStatus ShellRunner::run_words(const Words& words, const ShellNode& node, bool with_functions) {
  const std::string& verb = words.front().text;
  if (const auto found = functions_.find(verb); with_functions && found != functions_.end())
    return call(found->second, words);
  const bool is_command = verb == "command" && words.size() > 1 && !words[1].text.starts_with('-');
  if (words.size() > 1 && (verb == "builtin" || is_command))
    return run_words({words.begin() + 1, words.end()}, node, false);
  if (const auto own = run_builtin(words, node)) return *own;
  const bool is_wanted = start(words, node);
  if (verb == "exec" && words.size() > 1) end_by_exec();
  return is_wanted ? success : open;
}

// Another program takes the shell's place: no trap runs.
void ShellRunner::end_by_exec() {
  leaves_ = true;
  at_exit_.clear();
}

ShellStatus ShellRunner::call(const Function& function, const Words& words) {
  if (calls_ == kMostCalls)
    return refuse(function.body->line, fmt::format("functions call each other more than {} deep", kMostCalls)), open;
  ++calls_;
  locals_.emplace_back();
  const int outer_loops = std::exchange(loops_, 0);
  const ShellScript* const outer = std::exchange(script_, function.script);
  const auto before = std::exchange(variables_.arguments, Words(words.begin() + 1, words.end()));
  ShellStatus status = run_node(*function.body);
  variables_.arguments = before;
  script_ = outer;
  loops_ = outer_loops;
  for (auto& [name, variable] : locals_.back())
    variable ? void(variables_.named[name] = std::move(*variable)) : void(variables_.named.erase(name));
  locals_.pop_back();
  --calls_;
  if (std::exchange(returns_, false)) status = left_with_;
  return status;
}

}  // namespace a2asim
