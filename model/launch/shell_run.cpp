#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <initializer_list>
#include <utility>

#include "model/base/one_line.h"
#include "model/launch/front_end.h"
#include "model/launch/shell_runner.h"
#include "model/launch/text_parts.h"

namespace a2asim {
namespace {

using enum ShellStatus;

constexpr int kMostSteps = 20000;  // commands of one run, loops and calls included

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

// Whether it ends a loop, a function or the script.
bool ShellRunner::leaves(const ShellNode& node) {
  if (node.kind == ShellKind::simple && !node.words.empty())
    return is_one_of(node.words.front(), {"exit", "return", "break", "continue", "die"});
  return std::ranges::any_of(node.children, leaves);
}

// The source of a condition as a label.
std::string ShellRunner::headline(std::string_view text) {
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

Result<void> ShellRunner::run() {
  run_list(script_->root);
  run_trap(1);
  if (error_) return tl::unexpected<Error>(std::move(*error_));
  if (expander_.error()) return tl::unexpected<Error>(*expander_.error());
  return {};
}

// What `trap .. EXIT` has left to the end of this shell.
void ShellRunner::run_trap(std::size_t line) {
  if (at_exit_.empty()) return;
  leaves_ = returns_ = continues_ = false;
  breaks_ = 0;
  run_text(std::exchange(at_exit_, {}), line);
}

void ShellRunner::refuse(std::size_t line, std::string_view what) {
  if (!error_)
    error_ = Error{ErrorKind::bad_input,
                   fmt::format("line {} of the command: {}", text_line_ > 0 ? text_line_ : line, one_line(what))};
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
  if (++steps_ > kMostSteps)
    refuse(node.line, fmt::format("the text runs more than {} commands: write them out", kMostSteps));
  if (stopped()) return open;
  const bool redirected =
      std::ranges::any_of(node.redirects, [](const ShellRedirect& one) { return one.op.front() == '<'; });
  std::optional<std::string> before;
  if (redirected) before = std::exchange(input_, input_of(node.redirects));
  const ShellStatus status = run_kind(node);
  if (redirected) input_ = std::move(before);
  const bool is_checked = node.kind == ShellKind::simple || node.kind == ShellKind::test ||
                          node.kind == ShellKind::arithmetic || node.kind == ShellKind::subshell ||
                          (node.kind == ShellKind::pipeline && !node.flag);
  if (stops_at_failure_ && is_checked && status == failure && unchecked_ == 0 && !stopped()) {
    leaves_ = true;
    left_with_ = failure;
  }
  return status;
}

ShellStatus ShellRunner::run_kind(const ShellNode& node) {
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
      offer_arithmetic(node.text);
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
      functions_.insert_or_assign(node.text, Function{&node.children.front(), script_});
      return success;
  }
  return open;
}

// Nothing where only the outside knows what is read.
std::optional<std::string> ShellRunner::input_of(const std::vector<ShellRedirect>& redirects) {
  std::optional<std::string> out;
  for (const ShellRedirect& one : redirects) {
    if (one.op.front() != '<') continue;
    ShellValue value{"", true};
    if (one.heredoc >= 0) {
      const ShellHeredoc& heredoc = script_->heredocs[static_cast<std::size_t>(one.heredoc)];
      value = heredoc.expands ? expander_.text(heredoc.text) : ShellValue{heredoc.text};
    } else if (one.op == "<<<") {
      value = expander_.word(one.target);
      value.text += '\n';
    }
    out = value.is_open ? std::nullopt : std::optional(std::move(value.text));
  }
  return out;
}

// Of all variables, as a copy takes it.
void ShellRunner::charge_copy() {
  std::size_t size = functions_.size() + 4 * variables_.named.size();
  for (const auto& [name, variable] : variables_.named) {
    size += variable.items.size() + variable.keys.size();
    if (const ShellValue* const first = variable.first()) size += first->text.size() / 16;
  }
  if (variables_.arguments) size += 4 * variables_.arguments->size();
  expander_.charge(size);
}

// What a subshell sets is gone with it.
ShellStatus ShellRunner::run_apart(const ShellNode& node) {
  charge_copy();
  const ShellVariables before = variables_;
  const auto functions = functions_;
  const bool stops = stops_at_failure_;
  const bool is_subshell = node.kind == ShellKind::subshell;
  std::string outer_trap = std::exchange(at_exit_, {});
  ShellStatus status = is_subshell ? run_list(node) : run_node(node);
  if (leaves_) status = left_with_;
  run_trap(node.line);
  at_exit_ = std::move(outer_trap);
  variables_ = before;
  functions_ = functions;
  stops_at_failure_ = stops;
  leaves_ = returns_ = continues_ = false;
  breaks_ = 0;
  return is_subshell && node.flag ? success : status;  // `command &`: that it was started
}

// A command whose success nobody knows counts as one that went well, unless what follows || would change the outcome.
ShellStatus ShellRunner::run_and_or(const ShellNode& node) {
  const auto run_child = [&](std::size_t i) {
    const bool is_last = i + 1 == node.children.size();
    unchecked_ += is_last ? 0 : 1;
    const ShellStatus status = run_node(node.children[i]);
    unchecked_ -= is_last ? 0 : 1;
    return status;
  };
  const std::size_t offered = choices_.offered().size();
  ShellStatus status = run_child(0);
  for (std::size_t i = 1; i < node.children.size() && !stopped(); ++i) {
    const bool is_and = node.operators[i - 1] == "&&";
    const ShellNode& next = node.children[i];
    ShellStatus decided = status;
    if (status == open && (in_condition_ == 0 || matters(next))) {
      const bool asks = matters(next) && (!is_and || !last_test_.name.empty() || is_test(node.children[i - 1]));
      // `.. && exit`: the way that goes on is looked at.
      decided = asks ? decide(text_of(node.children[i - 1])) : known(!is_and || !leaves(next));
    }
    if (decided == open) {
      const ShellStatus right = run_child(i);
      status = is_and && right == failure ? failure : !is_and && right == success ? success : open;
      last_test_ = {};
    } else {
      status = (decided == success) == is_and ? run_child(i) : decided;
    }
  }
  if (in_condition_ == 0 && !stopped() && is_idle(node)) choices_.withdraw(offered);
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

// The variable that a comparison of $1 in a function settles is the one that the call names; empty: none is known.
std::string ShellRunner::decided_name(std::string_view name) const {
  const bool is_place = !name.empty() && name.find_first_not_of("0123456789") == std::string_view::npos;
  if (!is_place || !variables_.arguments) return variables_.name_of(name);
  const auto at = static_cast<std::size_t>(std::atoi(std::string(name.substr(0, 4)).c_str()));
  const bool is_there = at > 0 && at <= variables_.arguments->size();
  return std::string(is_there ? plain_variable((*variables_.arguments)[at - 1].text) : std::string_view());
}

// The rest of this run knows it.
void ShellRunner::settle(std::string_view name, const ShellValue& value) {
  const std::string own = decided_name(name);
  if (own != name && variables_.arguments) {
    const auto at = static_cast<std::size_t>(std::atoi(std::string(name.substr(0, 4)).c_str()));
    if (at > 0 && at <= variables_.arguments->size()) (*variables_.arguments)[at - 1] = value;
  }
  if (!own.empty()) variables_.set(own, value);
}

// Both ways are taken, each in a run of its own; a comparison of an open variable settles it for the rest of the run.
ShellStatus ShellRunner::decide(std::string_view source) {
  const ShellTest test = std::exchange(last_test_, {});
  if (test.name.empty()) {
    const std::string label = headline(source);
    return choices_.choose({label, "not " + label}) == 0 ? success : failure;
  }
  const std::string own = decided_name(test.name);
  const auto key = std::pair(own, test.value);
  if (!own.empty() && differs_.contains(key)) return known(test.negated);
  const std::string shown = shown_variable(own.empty() ? test.name : own);
  std::string same = fmt::format("{}={}", shown, test.value), other = fmt::format("{}!={}", shown, test.value);
  if (test.negated) std::swap(same, other);
  const bool holds = choices_.choose({same, other}) == 0;
  if (holds != test.negated)
    settle(test.name, {test.value});
  else if (!own.empty())
    differs_.insert(key);
  return known(holds);
}

ShellStatus ShellRunner::run_condition(const ShellNode& list) {
  ++in_condition_, ++unchecked_;
  last_test_ = {};
  const ShellStatus status = run_list(list);
  --in_condition_, --unchecked_;
  if (list.children.size() != 1) last_test_ = {};
  return status;
}

ShellStatus ShellRunner::run_test(const std::vector<std::string>& words, bool double_brackets) {
  last_test_ = evaluate_test(expander_, variables_, words, double_brackets);
  for (ShellAlternative& other : last_test_.others) choices_.offer(std::move(other));
  return last_test_.status;
}

// It sets nothing and starts no server: a wait, a message, an end of the loop.
bool ShellRunner::is_idle(const ShellNode& node) const {
  const auto changes = [](std::string_view raw) {
    return raw.find(":=") != std::string_view::npos || raw.find("((") != std::string_view::npos;
  };
  switch (node.kind) {
    case ShellKind::simple: {
      if (node.words.empty()) return true;
      const std::string& verb = node.words.front();
      if (is_one_of(verb, {"export", "declare", "typeset", "local", "readonly", "unset", "eval", "source", ".", "set",
                           "shift", "read", "mapfile", "readarray", "getopts", "let", "exec", "trap", "shopt"}))
        return false;
      if (verb.find_first_of("$`=/\"'\\") != std::string::npos || functions_.contains(verb)) return false;
      if ((verb == "return" && calls_ > 0) || (verb == "printf" && node.words.size() > 1 && node.words[1] == "-v"))
        return false;
      Words words;
      for (const std::string& raw : node.words) words.push_back({raw});
      return std::ranges::none_of(node.words, changes) &&
             (starts_nothing(words) || !(find_front_end(words) || find_nested_text(words) || runs_scripts(words)));
    }
    case ShellKind::arithmetic:
      return node.text.find_first_of("=+-") == std::string::npos;
    case ShellKind::array:
    case ShellKind::for_:
    case ShellKind::c_for:
    case ShellKind::function:
      return false;
    default:
      return std::ranges::all_of(node.children, [this](const ShellNode& child) { return is_idle(child); });
  }
}

ShellStatus ShellRunner::run_if(const ShellNode& node) {
  const std::size_t pairs = node.children.size() / 2;
  const std::size_t offered = choices_.offered().size();
  const bool idle = is_idle(node);
  const ShellNode* taken = node.flag ? &node.children.back() : nullptr;
  for (std::size_t i = 0; i < pairs && !stopped(); ++i) {
    ShellStatus status = run_condition(node.children[2 * i]);
    if (status == open && last_test_.name.empty() && idle) {  // either way, the same goes on
      choices_.withdraw(offered);
      return prints_unknown(), open;
    }
    if (status == open) status = decide(node.words[i]);
    if (status != success) continue;
    taken = &node.children[2 * i + 1];
    break;
  }
  if (idle && (taken == nullptr || !leaves(*taken))) choices_.withdraw(offered);
  return taken != nullptr && !stopped() ? run_list(*taken) : success;
}

ShellStatus ShellRunner::run_arithmetic(std::string_view text) {
  last_test_ = {};
  const auto value = expander_.arithmetic(text);
  return value ? known(*value != 0) : open;
}

// A text that runs as a part of this one: of eval, source and trap.
ShellStatus ShellRunner::run_text(std::string_view text, std::size_t line) {
  constexpr int kMostNested = 16;
  if (nested_ == kMostNested) return refuse(line, "texts run each other without end: write them out"), open;
  Result<ShellScript> script = parse_shell(text);
  if (!script) return refuse(line, script.error().message), open;
  texts_.push_back(std::move(*script));
  const ShellScript* const outer = std::exchange(script_, &texts_.back());
  const std::size_t outer_line = std::exchange(text_line_, text_line_ > 0 ? text_line_ : line);
  ++nested_;
  const ShellStatus status = run_list(script_->root);
  --nested_;
  script_ = outer;
  text_line_ = outer_line;
  return status;
}

std::size_t ShellChoices::choose(std::vector<std::string> labels) {
  if (used_ == path_.size()) path_.push_back({std::move(labels), 0});
  return path_[used_++].taken;
}

bool ShellChoices::next() {
  offered_.clear();
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
                       const OnShellStart& on_start, const ReadShellFile& read_file) {
  return ShellRunner(script, variables, choices, on_start, read_file).run();
}

}  // namespace a2asim
