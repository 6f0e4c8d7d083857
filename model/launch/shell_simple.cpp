#include <fmt/format.h>

#include <algorithm>
#include <initializer_list>

#include "model/launch/shell_runner.h"

namespace a2asim {
namespace {

using enum ShellStatus;

constexpr int kMostCalls = 30;  // of functions inside each other

ShellStatus known(bool holds) { return holds ? success : failure; }

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> list) {
  return std::ranges::find(list, word) != list.end();
}

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1);
}

}  // namespace

// `i++`, `i+=2`, `i = n * 2`, or any expression.
ShellStatus ShellRunner::run_arithmetic(const std::string& text) {
  std::string_view rest = text;
  rest = trimmed(rest);
  if (rest.empty()) return success;
  std::size_t end = 0;
  const bool prefix = rest.starts_with("++") || rest.starts_with("--");
  if (prefix) rest = std::string_view(rest.substr(2));
  while (end < rest.size() && is_shell_name_char(rest[end])) ++end;
  const std::string name(rest.substr(0, end));
  const std::string_view tail = trimmed(rest.substr(end));
  std::string expression;
  if (!name.empty() && is_shell_name_start(name.front())) {
    if (prefix || tail == "++" || tail == "--")
      expression = name + (text.find("++") != std::string::npos ? " + 1" : " - 1");
    else if (tail.starts_with('=') && !tail.starts_with("=="))
      expression = tail.substr(1);
    else if (tail.size() > 2 && tail[1] == '=' && std::string_view("+-*/%").find(tail[0]) != std::string_view::npos)
      expression = fmt::format("{} {} ({})", name, tail[0], tail.substr(2));
  }
  const auto value = expander_.arithmetic(expression.empty() ? std::string_view(text) : std::string_view(expression));
  if (!expression.empty())
    variables_.set(name, value ? ShellValue{std::to_string(*value)} : ShellValue{"$" + name, true});
  last_test_ = {};
  return value ? known(*value != 0) : open;
}

std::optional<ShellRunner::Assignment> ShellRunner::read_assignment(std::string_view raw) {
  std::size_t end = 0;
  while (end < raw.size() && is_shell_name_char(raw[end])) ++end;
  if (end == 0 || !is_shell_name_start(raw.front())) return std::nullopt;
  Assignment out{raw.substr(0, end), {}, {}};
  if (raw.substr(end).starts_with('[')) {
    const std::size_t close = raw.find(']', end);
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
  const std::string name(assignment.name);
  ShellValue value = expander_.word(assignment.value);
  if (assignment.index.empty()) {
    if (assignment.appends) {
      const ShellValue& before = variables_.values[name];
      value = {before.text + value.text, before.is_open || value.is_open};
    }
    return variables_.set(name, std::move(value));
  }
  if (variables_.keyed.contains(name))
    return variables_.set(name + '[' + expander_.word(assignment.index).text + ']', std::move(value));
  std::vector<ShellValue>& items = variables_.arrays[name];
  const auto at = expander_.arithmetic(assignment.index);
  if (!at || *at < 0 || *at > kMostShellIterations) return variables_.unset(name);  // names for keys: not followed
  if (items.size() <= static_cast<std::size_t>(*at)) items.resize(static_cast<std::size_t>(*at) + 1);
  items[static_cast<std::size_t>(*at)] = std::move(value);
  variables_.values.insert_or_assign(name, items.front());
}

ShellStatus ShellRunner::run_array(const ShellNode& node) {
  declare(node.operators);
  const auto keys = [](const std::string& word) {
    return word.starts_with('-') && word.find('A') != std::string::npos;
  };
  if (std::ranges::any_of(node.operators, keys)) variables_.keyed.insert(node.text);
  if (variables_.keyed.contains(node.text)) {  // ([tp]=4 [dp]=2)
    for (const std::string& raw : node.words)
      if (const auto element = read_assignment(node.text + raw); element && !element->index.empty()) assign(*element);
    return success;
  }
  std::vector<ShellValue> items;
  for (const std::string& raw : node.words)
    for (ShellValue& item : expander_.fields(raw)) items.push_back(std::move(item));
  std::vector<ShellValue>& own = variables_.arrays[node.text];
  if (!node.flag) own.clear();
  own.insert(own.end(), items.begin(), items.end());
  variables_.values.insert_or_assign(node.text, own.empty() ? ShellValue{} : own.front());
  return success;
}

// `export A=1 B`, `local TP=4`, `unset A`: true when the words are such a command.
bool ShellRunner::declare(const std::vector<std::string>& words) {
  if (words.empty() || !is_one_of(words.front(), {"export", "unset", "declare", "typeset", "local", "readonly"}))
    return false;
  const bool unsets = words.front() == "unset";
  bool exports = words.front() == "export", is_keyed = false;
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string& raw = words[i];
    if (raw.starts_with('-')) {
      exports |= raw.find('x') != std::string::npos;
      is_keyed |= raw.find('A') != std::string::npos;
      continue;
    }
    const auto assignment = read_assignment(raw);
    const std::string name = assignment ? std::string(assignment->name) : expander_.word(raw).text;
    if (words.front() == "local" && !locals_.empty()) keep_local(name);
    if (unsets) variables_.unset(name);
    if (is_keyed) variables_.keyed.insert(name);
    if (assignment) assign(*assignment);
    if (exports) variables_.exported.insert(name);
  }
  return true;
}

void ShellRunner::keep_local(const std::string& name) {
  const auto found = variables_.values.find(name);
  locals_.back().emplace(name, found == variables_.values.end() ? std::nullopt : std::optional(found->second));
}

ShellStatus ShellRunner::run_simple(const ShellNode& node) {
  last_test_ = {};
  if (declare(node.words)) return success;
  const std::size_t assignments = static_cast<std::size_t>(
      std::ranges::find_if(node.words, [](const std::string& raw) { return !read_assignment(raw); }) -
      node.words.begin());
  if (assignments == node.words.size()) {
    for (const std::string& raw : node.words) assign(*read_assignment(raw));
    return success;
  }
  if (is_one_of(node.words.front(), {"[", "test"})) {
    const bool bracket = node.words.front() == "[";
    return run_test({node.words.begin() + 1, node.words.end() - (bracket && node.words.back() == "]" ? 1 : 0)}, false);
  }
  std::vector<ShellValue> words;
  for (std::size_t i = 0; i < node.words.size(); ++i) {
    if (i < assignments) {
      const Assignment assignment = *read_assignment(node.words[i]);
      ShellValue value = expander_.word(assignment.value);
      value.text = fmt::format("{}={}", assignment.name, value.text);
      words.push_back(std::move(value));
      continue;
    }
    for (ShellValue& field : expander_.fields(node.words[i])) words.push_back(std::move(field));
  }
  return words.empty() ? success : run_words(words, node);
}

ShellStatus ShellRunner::run_words(const std::vector<ShellValue>& words, const ShellNode& node) {
  const std::string& verb = words.front().text;
  if (const auto found = functions_.find(verb); found != functions_.end()) return call(*found->second, words);
  if (is_one_of(verb, {"true", ":"})) return success;
  if (verb == "false") return failure;
  if (verb == "exit" || verb == "return") {
    (verb == "return" && calls_ > 0 ? returns_ : leaves_) = true;
    return open;
  }
  if (verb == "break" || verb == "continue") {
    breaks_ = 1;
    continues_ = verb == "continue";
    return success;
  }
  if (verb == "shift") return shift(words);
  if (verb == "set") return set(words);
  if (verb == "read" || verb == "mapfile" || verb == "readarray") return read(words);
  if (verb == "let" && words.size() > 1) return run_arithmetic(words[1].text);
  const bool is_wanted = start(words, node);
  if (verb == "exec" && words.size() > 1) leaves_ = true;
  return is_wanted ? success : open;
}

bool ShellRunner::start(const std::vector<ShellValue>& words, const ShellNode& node) {
  ShellStart one{words, variables_, node.line, std::nullopt, {}};
  for (const ShellRedirect& redirect : node.redirects) {
    if (redirect.heredoc >= 0) {
      const ShellHeredoc& heredoc = script_.heredocs[static_cast<std::size_t>(redirect.heredoc)];
      one.input = heredoc.expands ? expander_.text(heredoc.text) : ShellValue{heredoc.text};
    } else if (redirect.op == "<<<") {
      one.input = expander_.word(redirect.target);
    } else if (redirect.op == ">") {
      const ShellValue target = expander_.word(redirect.target);
      if (!target.is_open) one.output_file = target.text;
    }
  }
  return on_start_(one);
}

ShellStatus ShellRunner::call(const ShellNode& body, const std::vector<ShellValue>& words) {
  if (calls_ == kMostCalls) return open;
  ++calls_;
  locals_.emplace_back();
  const auto before = std::exchange(variables_.arguments, std::vector(words.begin() + 1, words.end()));
  const ShellStatus status = run_node(body);
  variables_.arguments = before;
  for (auto& [name, value] : locals_.back()) value ? variables_.set(name, *value) : variables_.unset(name);
  locals_.pop_back();
  --calls_;
  return std::exchange(returns_, false) ? open : status;
}

ShellStatus ShellRunner::shift(const std::vector<ShellValue>& words) {
  if (!variables_.arguments) return success;
  std::vector<ShellValue>& arguments = *variables_.arguments;
  const bool two = words.size() > 1 && words[1].text == "2";
  arguments.erase(arguments.begin(), arguments.begin() + static_cast<std::ptrdiff_t>(
                                                             std::min<std::size_t>(two ? 2 : 1, arguments.size())));
  return success;
}

// `set -- a b`; options of the shell change nothing here.
ShellStatus ShellRunner::set(const std::vector<ShellValue>& words) {
  if (words.size() > 1 && words[1].text == "--") variables_.arguments.emplace(words.begin() + 2, words.end());
  return success;
}

ShellStatus ShellRunner::read(const std::vector<ShellValue>& words) {
  for (std::size_t i = 1; i < words.size(); ++i) {
    const std::string& name = words[i].text;
    if (name.starts_with('-') || name.empty() || !std::ranges::all_of(name, is_shell_name_char)) continue;
    variables_.set(name, {"$" + name, true});
  }
  return open;
}

}  // namespace a2asim
