// ShellRunner: loops, select and case.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <utility>

#include "model/launch/shell_runner.h"

namespace a2asim {
namespace {

using enum ShellStatus;

constexpr int kMostIterations = 4096;  // of one loop

}  // namespace

// True when the loop goes on.
bool ShellRunner::end_iteration() {
  if (breaks_ == 0) return !stopped();
  return --breaks_ == 0 && std::exchange(continues_, false) && !stopped();
}

// What a loop has changed that runs as often as the outside wants.
void ShellRunner::open_changes(const std::map<std::string, ShellVariable, std::less<>>& before) {
  std::vector<std::string> changed;
  for (const auto& [name, variable] : variables_.named) {
    const auto old = before.find(name);
    if (old == before.end() || old->second != variable) changed.push_back(name);
  }
  for (const std::string& name : changed) variables_.open(name);
}

// A loop that waits for the outside is walked once; one that reads the script's own arguments not at all.
ShellStatus ShellRunner::run_loop(const ShellNode& node) {
  const bool starts = starts_server(node, 0);
  if (reads_arguments(node) && !starts) return mark_given(node), success;
  const std::string condition = condition_text(node.children.front());
  ++loops_;
  for (int i = 0; !stopped(); ++i) {
    if (i == kMostIterations) refuse(node.line, fmt::format("the loop runs more than {} times: write it out", i));
    charge_copy();
    const auto before = variables_.named;
    const auto input = input_;
    const auto arguments = variables_.arguments;
    const std::size_t option_at = option_at_;
    const std::size_t offered = choices_.offered().size();
    ShellStatus status = run_condition(node.children[0]);
    choices_.withdraw(offered);
    if (status != open && node.flag) status = known(status == failure);
    if (status == failure || stopped()) break;
    const bool takes_arguments = condition.find("$#") != std::string::npos ||
                                 condition.find("$1") != std::string::npos || condition.starts_with("getopts");
    if (status == open && !starts && takes_arguments) break;
    run_list(node.children[1]);
    const bool goes_on = end_iteration();
    if (status == open) open_changes(before), prints_unknown();
    if (!goes_on || status == open) break;
    const bool moves_on =
        before != variables_.named || input != input_ || arguments != variables_.arguments || option_at != option_at_;
    if (!moves_on) break;  // an endless loop
  }
  --loops_;
  return success;
}

std::string ShellRunner::condition_text(const ShellNode& list) {
  return list.children.empty() ? std::string() : text_of(list.children.front());
}

ShellRunner::Words ShellRunner::items_of(const ShellNode& node) {
  if (!node.flag) return variables_.arguments.value_or(Words{{"$@", true, true}});
  Words items;
  for (const std::string& raw : node.words) {
    const bool names_files =
        raw.find_first_of("*?") != std::string::npos && raw.find_first_of("\"'$\\") == std::string::npos;
    if (names_files)
      items.push_back({raw, true, true});
    else
      std::ranges::move(expander_.fields(raw), std::back_inserter(items));
  }
  return items;
}

ShellStatus ShellRunner::run_for(const ShellNode& node) {
  Words items = items_of(node);
  const auto is_arguments = [](const ShellValue& item) { return item.is_many && item.text == "$@"; };
  if (std::ranges::any_of(items, is_arguments) && !starts_server(node, 0))
    return variables_.open(node.text), mark_given(node), success;
  if (!node.operators.empty() && !items.empty()) {  // select: somebody chooses one
    std::vector<std::string> labels;
    for (const ShellValue& item : items) labels.push_back(fmt::format("{}={}", node.text, item.text));
    const ShellValue chosen = items[choices_.choose(std::move(labels))];
    items = {chosen};
    variables_.open("REPLY");
  }
  charge_copy();
  const auto before = variables_.named;
  const bool is_counted = std::ranges::none_of(items, [](const ShellValue& item) { return item.is_many; });
  ++loops_;
  for (const ShellValue& item : items) {
    if (stopped()) break;
    expander_.assign({node.text, ""}, item, false);
    run_list(node.children.front());
    if (!end_iteration()) break;
  }
  --loops_;
  if (!is_counted) open_changes(before), prints_unknown();
  return success;
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
  ++loops_;
  for (int i = 0; !stopped(); ++i) {
    if (i == kMostIterations) refuse(node.line, fmt::format("the loop runs more than {} times: write it out", i));
    charge_copy();
    const auto before = variables_.named;
    const bool always = parts[1].find_first_not_of(" \t\n") == std::string::npos;
    const ShellStatus status = always ? success : run_arithmetic(parts[1]);
    if (status == failure || stopped()) break;
    run_list(node.children.front());
    const bool goes_on = end_iteration();
    if (goes_on) run_arithmetic(parts[2]);
    if (status == open) open_changes(before), prints_unknown();
    if (!goes_on || status == open || (before == variables_.named && always)) break;
  }
  --loops_;
  return success;
}

ShellStatus ShellRunner::run_case(const ShellNode& node) {
  ShellStatus status = success;
  bool falls = false;
  const std::size_t offered = choices_.offered().size();
  for (std::size_t at = 0; !stopped();) {
    if (!falls) at = first_match(node, at);
    if (is_idle(node) && (at >= node.children.size() || !leaves(node.children[at]))) choices_.withdraw(offered);
    if (at >= node.children.size()) break;
    status = run_list(node.children[at]);
    const std::string& end = node.operators[at++];
    if (end == ";;") break;
    falls = end == ";&";
  }
  return status;
}

// The first pattern at or behind `from` that fits; the number of patterns: none.
std::size_t ShellRunner::first_match(const ShellNode& node, std::size_t from) {
  const ShellValue subject = expander_.word(node.words.front());
  if (subject.is_open && from < node.patterns.size()) return choose_pattern(node, from);
  for (std::size_t i = from; i < node.patterns.size(); ++i)
    for (const std::string& raw : node.patterns[i]) {
      const ShellValue pattern = expander_.pattern(raw);
      if (pattern.is_open) last_test_ = {};
      const std::string label = fmt::format("{}={}", node.words.front(), raw);
      if (pattern.is_open ? decide(label) == success : matches_pattern(subject.text, pattern.text))
        return offer_patterns(node, from, i, subject), i;
    }
  offer_patterns(node, from, node.patterns.size(), subject);
  return node.patterns.size();
}

std::size_t ShellRunner::choose_pattern(const ShellNode& node, std::size_t from) {
  const std::string name(plain_variable(node.words.front()));
  const std::string what = name.empty() ? headline(node.words.front()) : shown_variable(name);
  std::vector<std::string> labels;
  std::vector<std::size_t> places;
  bool has_other = false;
  const auto differs = [&](const std::string& raw) { return differs_.contains({name, expander_.word(raw).text}); };
  for (std::size_t i = from; i < node.patterns.size(); ++i) {
    if (!node.patterns[i].empty() && std::ranges::all_of(node.patterns[i], differs)) continue;
    has_other |= std::ranges::find(node.patterns[i], "*") != node.patterns[i].end();
    const std::string fits = fmt::format("{}", fmt::join(node.patterns[i], "|"));
    labels.push_back(fmt::format("{}={}", what, fits == "*" ? "(other)" : fits));
    places.push_back(i);
  }
  if (!has_other) labels.push_back(what + "=(other)");
  const std::size_t chosen = choices_.choose(std::move(labels));
  if (chosen >= places.size()) return node.patterns.size();
  const std::vector<std::string>& patterns = node.patterns[places[chosen]];
  const ShellValue value = expander_.pattern(patterns.empty() ? "" : patterns.front());
  if (!name.empty() && patterns.size() == 1 && !value.is_open && !has_wildcard(value.text))
    settle(name, expander_.word(patterns.front()));
  return places[chosen];
}

}  // namespace a2asim
