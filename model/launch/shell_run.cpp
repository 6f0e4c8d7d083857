#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <map>
#include <set>
#include <utility>

#include "model/launch/shell_runner.h"

namespace a2asim {
namespace {

using enum ShellStatus;

constexpr int kMostSteps = 20000;  // commands of one run, loops and calls included

ShellStatus known(bool holds) { return holds ? success : failure; }

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> list) {
  return std::ranges::find(list, word) != list.end();
}

// The source of a condition as a label.
std::string headline(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const bool blank = c == ' ' || c == '\t' || c == '\n' || c == '\r' || c == ';';
    if (!blank)
      out += c;
    else if (!out.empty() && out.back() != ' ')
      out += ' ';
    if (out.size() > 72) return out + "..";
  }
  while (out.ends_with(' ')) out.pop_back();
  return out;
}

// Whether a failure to run it could change which servers are started: then both ways are looked at.
bool matters(const ShellNode& node) {
  if (node.kind == ShellKind::array) return true;
  if (node.kind == ShellKind::simple && !node.words.empty())
    return !is_one_of(node.words.front(),
                      {"echo", "exit", "true", ":", "printf", "return", "sleep", "mkdir", "cd", "kill", "wait", "break",
                       "continue", "die", "rm", "pip", "pip3", "apt-get", "false"});
  return std::ranges::any_of(node.children, matters);
}

}  // namespace

Result<void> ShellRunner::run() {
  run_list(script_.root);
  if (error_) return tl::unexpected<Error>(std::move(*error_));
  if (expander_.error()) return tl::unexpected<Error>(*expander_.error());
  return {};
}

ShellStatus ShellRunner::run_list(const ShellNode& list) {
  ShellStatus status = success;
  for (const ShellNode& child : list.children) {
    if (stopped()) break;
    status = run_node(child);
  }
  return status;
}

ShellStatus ShellRunner::run_node(const ShellNode& node) {
  if (++steps_ > kMostSteps && !error_)
    error_ = Error{ErrorKind::bad_input,
                   fmt::format("line {} of the command: the text runs more than {} commands: write them out", node.line,
                               kMostSteps)};
  if (stopped()) return open;
  switch (node.kind) {
    case ShellKind::list:
    case ShellKind::group:
      return run_list(node);
    case ShellKind::subshell:
      return run_apart(node);
    case ShellKind::pipeline:
      return run_pipeline(node);
    case ShellKind::and_or:
      return run_and_or(node);
    case ShellKind::simple:
      return run_simple(node);
    case ShellKind::array:
      return run_array(node);
    case ShellKind::test:
      return run_test(node.words, true);
    case ShellKind::arithmetic:
      return run_arithmetic(node.text);
    case ShellKind::if_:
      return run_if(node);
    case ShellKind::loop:
      return run_loop(node);
    case ShellKind::for_:
      return run_for(node);
    case ShellKind::c_for:
      return run_c_for(node);
    case ShellKind::case_:
      return run_case(node);
    case ShellKind::function:
      functions_.insert_or_assign(node.text, &node.children.front());
      return success;
  }
  return open;
}

// What a subshell sets is gone with it.
ShellStatus ShellRunner::run_apart(const ShellNode& list) {
  const ShellVariables before = variables_;
  const ShellStatus status = run_list(list);
  variables_ = before;
  leaves_ = returns_ = false;
  return status;
}

ShellStatus ShellRunner::run_pipeline(const ShellNode& node) {
  ShellStatus status = success;
  const bool apart = node.children.size() > 1;
  const ShellVariables before = apart ? variables_ : ShellVariables{};
  for (const ShellNode& child : node.children) {
    status = run_node(child);
    if (apart) leaves_ = returns_ = false;
  }
  if (apart) variables_ = before;
  if (!node.flag) return status;
  last_test_.negated = !last_test_.negated;
  return status == open ? open : known(status == failure);
}

// A command whose success nobody knows counts as one that went well, unless what follows || would change the outcome.
ShellStatus ShellRunner::run_and_or(const ShellNode& node) {
  ShellStatus status = run_node(node.children.front());
  for (std::size_t i = 1; i < node.children.size() && !stopped(); ++i) {
    const bool is_and = node.operators[i - 1] == "&&";
    const ShellNode& next = node.children[i];
    ShellStatus decided = status;
    if (status == open && (in_condition_ == 0 || matters(next))) {
      const bool asks = matters(next) && (!is_and || !last_test_.name.empty() || is_test(node.children[i - 1]));
      decided = asks ? decide(text_of(node.children[i - 1])) : success;
    }
    if (decided == open) {
      const ShellStatus right = run_node(next);
      status = is_and && right == failure ? failure : !is_and && right == success ? success : open;
      last_test_ = {};
    } else {
      status = (decided == success) == is_and ? run_node(next) : decided;
    }
  }
  return status;
}

bool ShellRunner::is_test(const ShellNode& node) {
  return node.kind == ShellKind::test || node.kind == ShellKind::arithmetic ||
         (node.kind == ShellKind::simple && !node.words.empty() && is_one_of(node.words.front(), {"[", "test"}));
}

std::string ShellRunner::text_of(const ShellNode& node) {
  if (!node.text.empty()) return node.text;
  if (node.kind == ShellKind::simple) return fmt::format("{}", fmt::join(node.words, " "));
  return node.children.empty() ? std::string("it") : text_of(node.children.front());
}

// Both ways are taken, each in a run of its own; a comparison of an open variable settles it for the rest of the run.
ShellStatus ShellRunner::decide(std::string_view source) {
  const ShellTest test = std::exchange(last_test_, {});
  if (test.name.empty()) {
    const std::string label = headline(source);
    return choices_.choose({label, "not " + label}) == 0 ? success : failure;
  }
  const auto key = std::pair(test.name, test.value);
  if (differs_.contains(key)) return known(test.negated);
  std::string same = fmt::format("{}={}", test.name, test.value), other = fmt::format("{}!={}", test.name, test.value);
  if (test.negated) std::swap(same, other);
  const bool holds = choices_.choose({same, other}) == 0;
  if (holds != test.negated)
    variables_.set(test.name, {test.value});
  else
    differs_.insert(key);
  return known(holds);
}

ShellStatus ShellRunner::run_condition(const ShellNode& list) {
  ++in_condition_;
  last_test_ = {};
  const ShellStatus status = run_list(list);
  --in_condition_;
  if (list.children.size() != 1) last_test_ = {};
  return status;
}

ShellStatus ShellRunner::run_test(const std::vector<std::string>& words, bool double_brackets) {
  last_test_ = evaluate_test(expander_, words, double_brackets);
  return last_test_.status;
}

ShellStatus ShellRunner::run_if(const ShellNode& node) {
  const std::size_t pairs = node.children.size() / 2;
  for (std::size_t i = 0; i < pairs && !stopped(); ++i) {
    ShellStatus status = run_condition(node.children[2 * i]);
    if (status == open) status = decide(node.words[i]);
    if (status == success) return run_list(node.children[2 * i + 1]);
  }
  return node.flag && !stopped() ? run_list(node.children.back()) : success;
}

// True when the loop goes on.
bool ShellRunner::end_iteration() {
  if (breaks_ == 0) return !stopped();
  --breaks_;
  return std::exchange(continues_, false) && !stopped();
}

// A loop that waits for the outside is walked once; one that reads the script's own arguments not at all.
ShellStatus ShellRunner::run_loop(const ShellNode& node) {
  const std::string condition = condition_text(node.children.front());
  for (int i = 0; i < kMostShellIterations && !stopped(); ++i) {
    ShellStatus status = run_condition(node.children[0]);
    if (status != open && node.flag) status = known(status == failure);
    if (status == failure) break;
    if (status == open && (condition.find("$#") != std::string::npos || condition.find("$1") != std::string::npos ||
                           condition.starts_with("getopts")))
      break;
    const auto before = variables_.values;
    run_list(node.children[1]);
    if (!end_iteration() || status == open || before == variables_.values) break;  // an endless loop
  }
  return success;
}

std::string ShellRunner::condition_text(const ShellNode& list) {
  return list.children.empty() ? std::string() : text_of(list.children.front());
}

ShellStatus ShellRunner::run_for(const ShellNode& node) {
  std::vector<ShellValue> items;
  if (!node.flag) items = variables_.arguments.value_or(std::vector<ShellValue>{{"$@", true}});
  for (const std::string& raw : node.words)
    for (const std::string& word : brace_range(raw))
      for (ShellValue& item : expander_.fields(word)) items.push_back(std::move(item));
  int left = kMostShellIterations;
  for (const ShellValue& item : items) {
    if (--left < 0 || stopped()) break;
    variables_.set(node.text, item);
    run_list(node.children.front());
    if (!end_iteration()) break;
  }
  return success;
}

// {1..4} in the list of a `for`
std::vector<std::string> ShellRunner::brace_range(const std::string& raw) {
  const std::size_t dots = raw.find("..");
  int first = 0, last = 0;
  if (!raw.starts_with('{') || !raw.ends_with('}') || dots == std::string::npos) return {raw};
  const char* const end = raw.data() + raw.size() - 1;
  const auto a = std::from_chars(raw.data() + 1, raw.data() + dots, first);
  const auto b = std::from_chars(raw.data() + dots + 2, end, last);
  if (a.ec != std::errc{} || a.ptr != raw.data() + dots || b.ec != std::errc{} || b.ptr != end) return {raw};
  std::vector<std::string> out;
  const int step = first <= last ? 1 : -1;
  for (int i = first; out.size() <= kMostShellIterations; i += step) {
    out.push_back(std::to_string(i));
    if (i == last) break;
  }
  return out;
}

ShellStatus ShellRunner::run_c_for(const ShellNode& node) {
  std::vector<std::string> parts(1);
  for (const char c : node.text) {
    if (c == ';')
      parts.emplace_back();
    else
      parts.back().push_back(c);
  }
  parts.resize(3);
  run_arithmetic(parts[0]);
  for (int i = 0; i < kMostShellIterations && !stopped(); ++i) {
    const ShellStatus status = run_arithmetic(parts[1]);
    if (status == failure) break;
    run_list(node.children.front());
    if (!end_iteration() || status == open) break;
    run_arithmetic(parts[2]);
  }
  return success;
}

ShellStatus ShellRunner::run_case(const ShellNode& node) {
  const ShellValue subject = expander_.word(node.words.front());
  if (!subject.is_open) {
    for (std::size_t i = 0; i < node.patterns.size(); ++i)
      for (const std::string& pattern : node.patterns[i])
        if (matches_pattern(subject.text, expander_.word(pattern).text)) return run_list(node.children[i]);
    return success;
  }
  const std::string name(plain_variable(node.words.front()));
  const std::string what = name.empty() ? headline(node.words.front()) : name;
  std::vector<std::string> labels;
  bool has_other = false;
  for (const std::vector<std::string>& patterns : node.patterns) {
    has_other |= std::ranges::find(patterns, "*") != patterns.end();
    labels.push_back(fmt::format("{}={}", what, fmt::join(patterns, "|")));
  }
  if (!has_other) labels.push_back(what + "=(other)");
  const std::size_t taken = choices_.choose(std::move(labels));
  if (taken >= node.patterns.size()) return success;
  const ShellValue value = expander_.word(node.patterns[taken].empty() ? "" : node.patterns[taken].front());
  if (!name.empty() && !value.is_open && value.text.find_first_of("*?[") == std::string::npos)
    variables_.set(name, value);
  return run_list(node.children[taken]);
}

std::size_t ShellChoices::choose(std::vector<std::string> labels) {
  if (used_ == path_.size()) path_.push_back({std::move(labels), 0});
  return path_[used_++].taken;
}

bool ShellChoices::next() {
  path_.resize(used_);
  while (!path_.empty() && path_.back().taken + 1 >= path_.back().labels.size()) path_.pop_back();
  used_ = 0;
  if (path_.empty()) return false;
  ++path_.back().taken;
  return true;
}

std::vector<std::string> ShellChoices::labels() const {
  std::vector<std::string> out;
  for (std::size_t i = 0; i < used_; ++i) out.push_back(path_[i].labels[path_[i].taken]);
  return out;
}

Result<void> run_shell(const ShellScript& script, ShellVariables& variables, ShellChoices& choices,
                       const OnShellStart& on_start) {
  return ShellRunner(script, variables, choices, on_start).run();
}

}  // namespace a2asim
