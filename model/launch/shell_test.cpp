#include <algorithm>
#include <charconv>
#include <initializer_list>
#include <utility>

#include "model/launch/shell_run.h"
#include "model/launch/text_parts.h"

namespace a2asim {
namespace {

using enum ShellStatus;

ShellStatus known(bool holds) { return holds ? success : failure; }
ShellStatus inverted(ShellStatus status) { return status == open ? open : known(status == failure); }

std::optional<std::int64_t> number(std::string_view text) {
  std::int64_t value = 0;
  const auto [end, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  return failed == std::errc{} && end == text.data() + text.size() && !text.empty() ? std::optional(value)
                                                                                    : std::nullopt;
}

struct Operand {
  std::string raw;
  ShellValue value;
};

class Test {
 public:
  Test(ShellExpander& expander, const ShellVariables& variables, const std::vector<std::string>& words,
       bool double_brackets)
      : expander_(expander), variables_(variables), double_brackets_(double_brackets) {
    for (const std::string& raw : words) {
      if (double_brackets) {
        words_.push_back({raw, {}});
        continue;
      }
      std::vector<ShellValue> fields = expander.fields(raw);
      for (ShellValue& field : fields) words_.push_back({fields.size() == 1 ? raw : "", std::move(field)});
    }
  }

  ShellTest run() {
    ShellTest test = double_brackets_ ? disjunction() : by_count(words_.size());
    test.others = std::move(others_);
    if (at_ == words_.size()) return test;
    const bool is_known = std::ranges::none_of(words_, [](const Operand& word) { return word.value.is_open; });
    return {!double_brackets_ && is_known ? failure : open};  // [ ] with too many words is an error of the shell's
  }

 private:
  bool at(std::string_view word) const { return at_ < words_.size() && is(at_, word); }
  bool is(std::size_t at, std::string_view word) const {
    return double_brackets_ ? words_[at].raw == word : !words_[at].value.is_open && words_[at].value.text == word;
  }
  bool at_operator(std::string_view single, std::string_view twice) const {
    return double_brackets_ ? at(twice) : at(single);
  }
  std::string_view operator_at(std::size_t at) const {
    const Operand& word = words_[at];
    return double_brackets_ ? word.raw : word.value.is_open ? std::string_view() : std::string_view(word.value.text);
  }
  ShellValue value_at(std::size_t at) { return double_brackets_ ? expander_.word(words_[at].raw) : words_[at].value; }

  // [ ] with up to four words is read by their number.
  ShellTest by_count(std::size_t count) {
    const std::size_t first = at_;
    const auto wrong = [&] { return at_ = first + count, ShellTest{failure}; };  // an error of the shell's
    if (count == 0) return {failure};
    if (count == 1) return nonempty(at_++, false);
    if (count == 3 && is_binary(operator_at(at_ + 1))) return binary();
    if (count == 3 && (is(at_ + 1, "-a") || is(at_ + 1, "-o"))) return disjunction();
    if (count <= 4 && at("!")) {
      ++at_;
      return negated(by_count(count - 1));
    }
    if (count == 2) return is_unary(operator_at(at_)) ? unary() : wrong();
    if ((count == 3 || count == 4) && at("(") && is(at_ + count - 1, ")")) {
      ++at_;
      const ShellTest inside = by_count(count - 2);
      ++at_;
      return inside;
    }
    return count == 3 ? wrong() : disjunction();
  }

  // What decides nothing any more compares nothing.
  ShellTest behind(bool is_decided, ShellTest (Test::*read)()) {
    const std::size_t before = others_.size();
    const ShellTest test = (this->*read)();
    if (is_decided) others_.resize(before);
    return test;
  }

  void offer(std::optional<ShellAlternative> other) {
    if (other) others_.push_back(std::move(*other));
  }

  static ShellTest negated(ShellTest test) {
    test.status = inverted(test.status);
    test.negated = !test.negated;
    return test;
  }

  ShellTest disjunction() {
    ShellTest left = conjunction();
    while (at_operator("-o", "||")) {
      ++at_;
      const ShellTest right = behind(left.status == success, &Test::conjunction);
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
      const ShellTest right = behind(left.status == failure, &Test::negation);
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
      test = negated(negation());
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
    if (left >= 2 && is_unary(operator_at(at_)) && !(left >= 3 && is_binary(operator_at(at_ + 1)))) return unary();
    if (left >= 3 && is_binary(operator_at(at_ + 1))) return binary();
    if (left == 0) return {failure};
    return nonempty(at_++, false);
  }

  static bool is_unary(std::string_view word) {
    return word.size() == 2 && word[0] == '-' &&
           std::string_view("abcdefghknoprstuvwxzGLNORS").find(word[1]) != std::string_view::npos;
  }
  static bool is_binary(std::string_view word) {
    return is_one_of(word,
                     {"=", "==", "!=", "=~", "<", ">", "-eq", "-ne", "-lt", "-le", "-gt", "-ge", "-nt", "-ot", "-ef"});
  }

  ShellTest nonempty(std::size_t at, bool negated) {
    const ShellValue value = value_at(at);
    if (!value.is_open && value.text.empty()) offer(other_than_text(value, words_[at].raw, ""));
    if (!value.is_open) return {known(value.text.empty() == negated)};
    return {open, std::string(plain_variable(words_[at].raw)), "", !negated};
  }

  ShellTest unary() {
    const std::string_view op = operator_at(at_);
    const std::size_t of = at_ + 1;
    at_ += 2;
    if (op == "-z") return nonempty(of, true);
    if (op == "-n") return nonempty(of, false);
    if (op != "-v") return {};  // files, terminals
    const ShellValue name = value_at(of);
    const ShellVariable* const variable = name.is_open ? nullptr : variables_.find(name.text);
    return variable == nullptr || variable->is_open ? ShellTest{} : ShellTest{known(variable->first() != nullptr)};
  }

  ShellTest binary() {
    const std::size_t left = at_, right = at_ + 2;
    const std::string_view op = operator_at(at_ + 1);
    at_ += 3;
    const ShellValue a = value_at(left);
    if (is_one_of(op, {"=", "==", "!="})) return equals(a, left, right, op == "!=");
    if (op == "=~") return regex(a, right);
    const ShellValue b = value_at(right);
    if (a.is_open || b.is_open) return {};
    if (op == "<" || op == ">") return {known(op == "<" ? a.text < b.text : a.text > b.text)};
    if (is_one_of(op, {"-nt", "-ot", "-ef"})) return {};
    const auto x = double_brackets_ ? expander_.arithmetic(a.text) : number(a.text);
    const auto y = double_brackets_ ? expander_.arithmetic(b.text) : number(b.text);
    if (!x || !y) return {double_brackets_ ? open : failure};  // [ x -eq 1 ] is an error of the shell's
    if (b.from.empty()) offer(other_than_number(a, words_[left].raw, op, *y));
    return {known(compare_numbers(*x, op, *y))};
  }

  ShellTest equals(const ShellValue& a, std::size_t left, std::size_t right, bool negated) {
    const ShellValue b = double_brackets_ ? expander_.pattern(words_[right].raw) : value_at(right);
    expander_.charge(a.text.size() * b.text.size() / 64);
    if (!a.is_open && !b.is_open && a.from.empty() != b.from.empty()) {
      const std::size_t own = a.from.empty() ? right : left, text = a.from.empty() ? left : right;
      const bool is_pattern = double_brackets_ && own == left && has_wildcard(b.text);
      if (!is_pattern) offer(other_than_text(value_at(own), words_[own].raw, value_at(text).text));
    }
    if (!a.is_open && !b.is_open)
      return {known((double_brackets_ ? matches_pattern(a.text, b.text) : a.text == b.text) != negated)};
    if (a.is_open == b.is_open) return {};
    const ShellValue plain = a.is_open ? value_at(right) : a;
    if (a.is_open && double_brackets_ && b.text.find_first_of("*?[\\") != std::string::npos && b.text != plain.text)
      return {};
    return {open, std::string(plain_variable(words_[a.is_open ? left : right].raw)), plain.text, negated};
  }

  ShellTest regex(const ShellValue& a, std::size_t right) {
    constexpr std::size_t kMostBytes = 4096;
    const ShellValue b = expander_.pattern(words_[right].raw);
    if (a.is_open || b.is_open || a.text.size() > kMostBytes || b.text.size() > kMostBytes) return {};
    expander_.charge(a.text.size() * b.text.size() / 4);
    if (expander_.error()) return {};
    const auto holds = matches_regex(a.text, b.text);
    return holds ? ShellTest{known(*holds)} : ShellTest{};
  }

  ShellExpander& expander_;
  const ShellVariables& variables_;
  std::vector<Operand> words_;
  bool double_brackets_;
  std::vector<ShellAlternative> others_;
  std::size_t at_ = 0;
  int depth_ = 0;
};

}  // namespace

ShellTest evaluate_test(ShellExpander& expander, const ShellVariables& variables, const std::vector<std::string>& words,
                        bool double_brackets) {
  ShellTest test = Test(expander, variables, words, double_brackets).run();
  if (test.status != ShellStatus::open || test.value.find_first_of("*?[") != std::string::npos) test.name.clear();
  return test;
}

}  // namespace a2asim
