#include <fmt/format.h>

#include <algorithm>
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
constexpr int kMostNestedTerms = 200;

constexpr std::string_view kAssigning[] = {"<<=", ">>=", "+=", "-=", "*=", "/=", "%=", "&=", "^=", "|=", "="};

class Evaluator {
 public:
  Evaluator(std::string_view text, const ArithmeticVariables& variables, int depth)
      : text_(text), variables_(variables), depth_(depth) {}

  ArithmeticResult run() {
    skip();
    if (at_ == text_.size()) return {0, std::nullopt};
    const Number value = comma();
    skip();
    if (!error_ && at_ < text_.size()) error_ = "is no arithmetic";
    if (error_) return {std::nullopt, fmt::format("$(({})) {}", shown(), *error_)};
    return {value, std::nullopt};
  }

 private:
  // The expression in a message: its open parts are one byte that nobody can print.
  std::string shown() const {
    std::string out;
    for (const char c : text_.substr(0, 80)) c == '\1' ? out += "$.." : out += c;
    return out;
  }
  void skip() {
    while (at_ < text_.size() && std::string_view(" \t\r\n").find(text_[at_]) != std::string_view::npos) ++at_;
  }
  bool take(std::string_view word) {
    skip();
    if (!text_.substr(at_).starts_with(word)) return false;
    at_ += word.size();
    return true;
  }
  std::string_view rest() { return skip(), text_.substr(at_); }

  // One more level of recursion; false, and an error, where there are too many.
  bool enter() {
    if (++depth_ > kMostNestedTerms && !error_) error_ = "nests too deep";
    return !error_;
  }

  Number leave(Number value) { return --depth_, value; }

  // NAME or NAME[index]
  std::optional<ShellPlace> read_place() {
    const std::string_view from = rest();
    std::size_t end = 0;
    while (end < from.size() && is_shell_name_char(from[end])) ++end;
    if (end == 0 || !is_shell_name_start(from.front())) return std::nullopt;
    ShellPlace place{from.substr(0, end), {}};
    if (from.substr(end).starts_with('[')) {
      const std::size_t close = end_of_index(from, end);
      if (close == std::string_view::npos) return std::nullopt;
      place.index = from.substr(end + 1, close - end - 1);
      end = close + 1;
    }
    at_ += end;
    return place;
  }

  Number get(const ShellPlace& place) {
    if (skipped_ > 0) return 0;
    const auto text = variables_.get(place);
    if (!text) return std::nullopt;
    const ArithmeticResult inner = Evaluator(*text, variables_, depth_ + 10).run();
    if (inner.error && !error_) error_ = fmt::format("holds {}, which {}", place.name, "is no number");
    return inner.value;
  }
  Number set(const ShellPlace& place, Number value) {
    if (skipped_ == 0 && !error_) variables_.set(place, unsure_ > 0 ? std::nullopt : value);
    return value;
  }

  // Evaluates a part that counts where `condition` is not zero, and makes its assignments only then.
  template <class Part>
  Number evaluate_if(Number condition, bool wanted, Part part) {
    int& mode = condition ? skipped_ : unsure_;
    const int more = !condition || (*condition != 0) != wanted ? 1 : 0;
    mode += more;
    const Number value = part();
    mode -= more;
    return value;
  }

  Number comma() {
    Number value = assignment();
    while (!error_ && take(",")) value = assignment();
    return value;
  }

  Number assignment() {
    Number value;
    if (enter()) {
      const std::size_t before = at_;
      const auto place = read_place();
      const std::string_view behind = rest();
      const auto* const op = std::ranges::find_if(kAssigning, [&](std::string_view one) {
        return behind.starts_with(one) && !(one == "=" && behind.starts_with("=="));
      });
      if (place && op != std::end(kAssigning)) {
        at_ += op->size();
        const Number right = assignment();
        value = set(*place, *op == "=" ? right : apply(op->substr(0, op->size() - 1), get(*place), right));
      } else {
        at_ = before;
        value = choice();
      }
    }
    --depth_;
    return value;
  }

  Number choice() {
    const Number condition = binary(0);
    if (error_ || !take("?")) return condition;
    const Number yes = evaluate_if(condition, true, [&] { return comma(); });
    if (!take(":") && !error_) error_ = "is no arithmetic";
    const Number no = evaluate_if(condition, false, [&] { return enter() ? leave(choice()) : leave(std::nullopt); });
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
      if (found == nullptr || found->level < level) break;
      at_ += found->text.size();
      // ** binds to the right, all others to the left.
      const auto right = [&] { return binary(found->level + (found->text == "**" ? 0 : 1)); };
      const bool is_and = found->text == "&&";
      left = apply(found->text, left, is_and || found->text == "||" ? evaluate_if(left, is_and, right) : right());
    }
    return left;
  }

  Number unary() {
    Number value;
    if (!enter()) {
      --depth_;
      return value;
    }
    if (rest().starts_with("++") || rest().starts_with("--")) {
      value = before_or_minus();
    } else if (take("!")) {
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
      value = comma();
      if (!take(")") && !error_) error_ = "is no arithmetic";
    } else {
      value = primary();
    }
    --depth_;
    return value;
  }

  // ++i; or two signs in front of a number.
  Number before_or_minus() {
    const bool plus = take("++");
    if (!plus) at_ += 2;
    if (const auto place = read_place()) return set(*place, apply(plus ? "+" : "-", get(*place), 1));
    return unary();  // two signs cancel each other
  }

  Number primary() {
    if (take("\1")) return std::nullopt;
    if (const auto place = read_place()) {
      const Number value = get(*place);
      if (rest().starts_with("++") || rest().starts_with("--"))
        set(*place, apply(rest().substr(0, 1), value, 1)), at_ += 2;
      return value;
    }
    std::size_t end = at_;
    while (end < text_.size() && is_shell_name_char(text_[end])) ++end;
    const std::string_view word = text_.substr(at_, end - at_);
    if (word.empty()) return error_ = "is no arithmetic", std::nullopt;
    at_ = end;
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
    if (skipped_ > 0) return 0;
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
  const ArithmeticVariables& variables_;
  std::size_t at_ = 0;
  int depth_;
  int skipped_ = 0, unsure_ = 0;  // inside a part that does not count; or nobody knows whether it does
  std::optional<std::string> error_;
};

}  // namespace

ArithmeticResult evaluate_arithmetic(std::string_view expression, const ArithmeticVariables& variables) {
  return Evaluator(expression, variables, 0).run();
}

}  // namespace a2asim
