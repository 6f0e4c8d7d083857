#include <algorithm>
#include <charconv>
#include <initializer_list>

#include "model/launch/shell_run.h"

namespace a2asim {
namespace {

using enum ShellStatus;

ShellStatus known(bool holds) { return holds ? success : failure; }
ShellStatus inverted(ShellStatus status) { return status == open ? open : known(status == failure); }

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> list) {
  return std::ranges::find(list, word) != list.end();
}

std::optional<std::int64_t> number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  return failed == std::errc{} && end == text.data() + text.size() && !text.empty() ? std::optional(value)
                                                                                    : std::nullopt;
}

class Test {
 public:
  Test(ShellExpander& expander, const std::vector<std::string>& words, bool double_brackets)
      : expander_(expander), words_(words), double_brackets_(double_brackets) {}

  ShellTest run() {
    ShellTest test = disjunction();
    if (at_ < words_.size()) return {};  // no test that is known here
    return test;
  }

 private:
  bool at(std::string_view word) const { return at_ < words_.size() && words_[at_] == word; }
  bool at_operator(std::string_view single, std::string_view twice) const {
    return double_brackets_ ? at(twice) : at(single);
  }

  ShellTest disjunction() {
    ShellTest left = conjunction();
    while (at_operator("-o", "||")) {
      ++at_;
      const ShellTest right = conjunction();
      left = {left.status == success || right.status == success ? success
              : left.status == open || right.status == open     ? open
                                                                : failure};
    }
    return left;
  }

  ShellTest conjunction() {
    ShellTest left = negation();
    while (at_operator("-a", "&&")) {
      ++at_;
      const ShellTest right = negation();
      left = {left.status == failure || right.status == failure ? failure
              : left.status == open || right.status == open     ? open
                                                                : success};
    }
    return left;
  }

  ShellTest negation() {
    constexpr int kMostNested = 60;
    if (++depth_ > kMostNested) return {};
    ShellTest test;
    if (at("!") && at_ + 1 < words_.size()) {
      ++at_;
      test = negation();
      test.status = inverted(test.status);
      test.negated = !test.negated;
    } else if (at("(")) {
      ++at_;
      test = disjunction();
      if (at(")")) ++at_;
    } else {
      test = primary();
    }
    --depth_;
    return test;
  }

  ShellTest primary() {
    const std::size_t left = words_.size() - at_;
    if (left >= 2 && words_[at_].size() == 2 && words_[at_][0] == '-' && !(left >= 3 && is_binary(words_[at_ + 1])))
      return unary();
    if (left >= 3 && is_binary(words_[at_ + 1])) return binary();
    if (left == 0) return {failure};
    return nonempty(words_[at_++], false);
  }

  static bool is_binary(std::string_view word) {
    return is_one_of(word,
                     {"=", "==", "!=", "=~", "<", ">", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-nt", "-ot", "-ef"});
  }

  ShellTest nonempty(const std::string& raw, bool negated) {
    const ShellValue value = expander_.word(raw);
    if (!value.is_open) return {known(value.text.empty() == negated)};
    return {open, std::string(plain_variable(raw)), "", !negated};
  }

  ShellTest unary() {
    const std::string op = words_[at_];
    const std::string& raw = words_[at_ + 1];
    at_ += 2;
    if (op == "-z") return nonempty(raw, true);
    if (op == "-n") return nonempty(raw, false);
    return {};  // files, terminals
  }

  ShellTest binary() {
    const std::string& left = words_[at_];
    const std::string& op = words_[at_ + 1];
    const std::string& right = words_[at_ + 2];
    at_ += 3;
    const ShellValue a = expander_.word(left), b = expander_.word(right);
    if (is_one_of(op, {"=", "==", "!="})) {
      const bool negated = op == "!=";
      if (!a.is_open && !b.is_open) {
        const bool quoted = right.find_first_of("\"'") != std::string::npos;
        const bool same = double_brackets_ && !quoted ? matches_pattern(a.text, b.text) : a.text == b.text;
        return {known(same != negated)};
      }
      if (a.is_open != b.is_open)
        return {open, std::string(plain_variable(a.is_open ? left : right)), a.is_open ? b.text : a.text, negated};
      return {};
    }
    if (a.is_open || b.is_open) return {};
    if (op == "<" || op == ">") return {known(op == "<" ? a.text < b.text : a.text > b.text)};
    const auto x = number(a.text), y = number(b.text);
    if (!x || !y) return {};
    if (op == "-eq") return {known(*x == *y)};
    if (op == "-ne") return {known(*x != *y)};
    if (op == "-lt") return {known(*x < *y)};
    if (op == "-le") return {known(*x <= *y)};
    if (op == "-gt") return {known(*x > *y)};
    if (op == "-ge") return {known(*x >= *y)};
    return {};
  }

  ShellExpander& expander_;
  const std::vector<std::string>& words_;
  bool double_brackets_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

ShellTest evaluate_test(ShellExpander& expander, const std::vector<std::string>& words, bool double_brackets) {
  ShellTest test = Test(expander, words, double_brackets).run();
  if (test.status != ShellStatus::open || test.value.find_first_of("*?[") != std::string::npos) test.name.clear();
  return test;
}

std::string_view plain_variable(std::string_view raw) {
  if (raw.size() >= 2 && raw.front() == '"' && raw.back() == '"') raw = raw.substr(1, raw.size() - 2);
  if (!raw.starts_with('$')) return {};
  raw.remove_prefix(1);
  if (raw.size() >= 2 && raw.front() == '{' && raw.back() == '}') raw = raw.substr(1, raw.size() - 2);
  return !raw.empty() && std::ranges::all_of(raw, is_shell_name_char) ? raw : std::string_view();
}

}  // namespace a2asim
