#include <fmt/format.h>

#include <array>
#include <charconv>

#include "model/launch/shell_expand.h"
#include "model/launch/shell_syntax.h"

namespace a2asim {
namespace {

using Number = std::optional<std::int64_t>;  // nothing: open

// bash wraps around at 64 bits; so does unsigned arithmetic, without being undefined.
std::int64_t wrap(std::uint64_t value) { return static_cast<std::int64_t>(value); }
std::uint64_t bits(std::int64_t value) { return static_cast<std::uint64_t>(value); }

struct Binary {
  std::string_view text;
  int level;  // higher binds closer
};
// Longer ones first where one begins with another.
constexpr Binary kBinary[] = {{"**", 11}, {"<<", 8}, {">>", 8}, {"<=", 7}, {">=", 7}, {"==", 6}, {"!=", 6},
                              {"&&", 2},  {"||", 1}, {"*", 10}, {"/", 10}, {"%", 10}, {"+", 9},  {"-", 9},
                              {"<", 7},   {">", 7},  {"&", 5},  {"^", 4},  {"|", 3}};
constexpr int kMostNested = 200;

class Evaluator {
 public:
  Evaluator(std::string_view text, const std::function<Number(std::string_view)>& value_of)
      : text_(text), value_of_(value_of) {}

  ArithmeticResult run() {
    const Number value = ternary();
    skip();
    if (!error_ && at_ < text_.size()) error_ = "is no arithmetic";
    if (error_) return {std::nullopt, fmt::format("$(({})) {}", text_, *error_)};
    return {value, std::nullopt};
  }

 private:
  void skip() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos) ++at_;
  }
  bool take(std::string_view word) {
    skip();
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }

  // One more level of recursion; false, and an error, where there are too many.
  bool enter() {
    if (++depth_ > kMostNested && !error_) error_ = "nests too deep";
    return !error_;
  }

  Number ternary() {
    const Number value = enter() ? choice() : std::nullopt;
    --depth_;
    return value;
  }

  Number choice() {
    const Number condition = binary(0);
    if (error_ || !take("?")) return condition;
    const Number yes = ternary();
    if (!take(":")) error_ = "is no arithmetic";
    const Number no = ternary();
    if (!condition) return std::nullopt;
    return *condition != 0 ? yes : no;
  }

  Number binary(int level) {
    const Number value = enter() ? operators(level) : std::nullopt;
    --depth_;
    return value;
  }

  Number operators(int level) {
    Number left = unary();
    while (!error_) {
      skip();
      const Binary* found = nullptr;
      for (const Binary& one : kBinary)
        if (found == nullptr && text_.substr(at_).starts_with(one.text)) found = &one;
      if (found == nullptr || found->level < level || text_.substr(at_ + found->text.size()).starts_with("=")) break;
      at_ += found->text.size();
      // ** binds to the right, all others to the left.
      const Number right = binary(found->level + (found->text == "**" ? 0 : 1));
      left = apply(found->text, left, right);
    }
    return left;
  }

  Number unary() {
    Number value;
    if (!enter()) {
      --depth_;
      return value;
    }
    if (take("!")) {
      value = unary();
      if (value) value = *value == 0 ? 1 : 0;
    } else if (take("~")) {
      value = unary();
      if (value) value = ~*value;
    } else if (take("-")) {
      value = unary();
      if (value) value = wrap(0 - bits(*value));
    } else if (take("+")) {
      value = unary();
    } else if (take("(")) {
      value = ternary();
      if (!take(")")) error_ = "is no arithmetic";
    } else {
      value = primary();
    }
    --depth_;
    return value;
  }

  Number primary() {
    skip();
    std::size_t end = at_;
    while (end < text_.size() && is_shell_name_char(text_[end])) ++end;
    const std::string_view word = text_.substr(at_, end - at_);
    if (word.empty()) return error_ = "is no arithmetic", std::nullopt;
    at_ = end;
    if (is_shell_name_start(word.front())) return value_of_(word);
    if (word.size() <= 2 && text_.substr(at_).starts_with('#')) return based(word);
    const bool hex = word.starts_with("0x") || word.starts_with("0X");
    const bool octal = !hex && word.size() > 1 && word.front() == '0';
    const std::string_view digits = word.substr(hex ? 2 : 0);
    std::int64_t number = 0;
    const auto [last, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), number,
                                                hex     ? 16
                                                : octal ? 8
                                                        : 10);
    if (failed != std::errc{} || last != digits.data() + digits.size()) error_ = "holds no number that bash reads";
    return number;
  }

  // 10#08
  Number based(std::string_view base_digits) {
    std::size_t end = ++at_;
    while (end < text_.size() && is_shell_name_char(text_[end])) ++end;
    const std::string_view digits = text_.substr(at_, end - at_);
    at_ = end;
    int base = 0;
    std::from_chars(base_digits.data(), base_digits.data() + base_digits.size(), base);
    std::int64_t number = 0;
    if (base < 2 || base > 36) return error_ = "holds no number that bash reads", std::nullopt;
    const auto [last, failed] = std::from_chars(digits.data(), digits.data() + digits.size(), number, base);
    if (failed != std::errc{} || last != digits.data() + digits.size()) error_ = "holds no number that bash reads";
    return number;
  }

  Number apply(std::string_view op, Number left, Number right) {
    if (op == "&&" && left && *left == 0) return 0;
    if (op == "||" && left && *left != 0) return 1;
    if (!left || !right) return std::nullopt;
    const std::int64_t a = *left, b = *right;
    if ((op == "/" || op == "%") && b == 0) return error_ = "divides by zero", std::nullopt;
    if (op == "/") return b == -1 ? wrap(0 - bits(a)) : a / b;
    if (op == "%") return b == -1 ? 0 : a % b;
    if (op == "**") return power(a, b);
    if (op == "*") return wrap(bits(a) * bits(b));
    if (op == "+") return wrap(bits(a) + bits(b));
    if (op == "-") return wrap(bits(a) - bits(b));
    if (op == "<<") return wrap(bits(a) << (bits(b) & 63));
    if (op == ">>") return a >> (bits(b) & 63);
    if (op == "&") return a & b;
    if (op == "^") return a ^ b;
    if (op == "|") return a | b;
    return compare(op, a, b) ? 1 : 0;
  }

  static bool compare(std::string_view op, std::int64_t a, std::int64_t b) {
    if (op == "<") return a < b;
    if (op == ">") return a > b;
    if (op == "<=") return a <= b;
    if (op == ">=") return a >= b;
    if (op == "==") return a == b;
    if (op == "!=") return a != b;
    return op == "&&" ? a != 0 && b != 0 : a != 0 || b != 0;
  }

  Number power(std::int64_t base, std::int64_t exponent) {
    if (exponent < 0) return error_ = "has a negative exponent", std::nullopt;
    std::uint64_t result = 1, factor = bits(base);
    for (std::uint64_t left = bits(exponent); left != 0; left >>= 1, factor *= factor)
      if ((left & 1) != 0) result *= factor;
    return wrap(result);
  }

  std::string_view text_;
  const std::function<Number(std::string_view)>& value_of_;
  std::size_t at_ = 0;
  int depth_ = 0;
  std::optional<std::string> error_;
};

}  // namespace

ArithmeticResult evaluate_arithmetic(std::string_view expression,
                                     const std::function<std::optional<std::int64_t>(std::string_view)>& value_of) {
  return Evaluator(expression, value_of).run();
}

}  // namespace a2asim
