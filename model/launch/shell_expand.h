// Words of a shell text -> the words that a command gets: quotes, variables, arrays, ${V%..} and its like, $(( )).
//
// Nothing is run and nothing outside the text is read. What only the outside knows (a variable that nobody set, the
// output of a command) stays open: its source text stands in the word, unsplit, and the field says so.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/result.h"

namespace a2asim {

struct ShellValue {
  std::string text;
  bool is_open = false;  // text is how the value is written, not what it is
  bool operator==(const ShellValue&) const = default;
};

// What the text has set so far, and what the surrounding shell gave.
struct ShellVariables {
  std::map<std::string, ShellValue, std::less<>> values;  // of an array, its first element
  std::map<std::string, std::vector<ShellValue>, std::less<>> arrays;
  std::set<std::string, std::less<>> exported;
  std::set<std::string, std::less<>> keyed;          // declare -A: the element ${A[k]} is the value "A[k]"
  std::optional<std::vector<ShellValue>> arguments;  // "$@"; nothing: those of the script, which only the outside knows
  std::map<std::string, std::string, std::less<>> defaults;  // of ${TP:-8} that counted because nobody set TP

  void set(const std::string& name, ShellValue value);
  void unset(const std::string& name);
};

class ShellExpander {
 public:
  explicit ShellExpander(ShellVariables& variables) : variables_(variables) {}

  // The fields of one raw word, split at blanks outside quotes.
  std::vector<ShellValue> fields(std::string_view raw);
  // As one word: in assignments, [[ ]], case.
  ShellValue word(std::string_view raw);
  // The text of a here-document.
  ShellValue text(std::string_view raw);
  // $(( expression )): nothing where a value is open.
  std::optional<std::int64_t> arithmetic(std::string_view expression);

  // Set where the text expands without bound, or is no arithmetic.
  const std::optional<Error>& error() const { return error_; }

 private:
  struct Output;
  void expand(std::string_view raw, bool quoted, Output& out);
  std::size_t dollar(std::string_view raw, std::size_t at, bool quoted, Output& out);
  void parameter(std::string_view inside, std::string_view source, bool quoted, Output& out);
  void indirect(std::string_view inside, std::string_view source, bool quoted, Output& out);
  void list(const std::vector<ShellValue>& items, bool star, bool quoted, Output& out);
  ShellValue transform(ShellValue value, std::string_view operation, std::string_view source);
  std::optional<ShellValue> lookup(std::string_view name, std::string_view index);
  std::optional<std::vector<ShellValue>> items_of(std::string_view name, std::string_view index);
  void fail_with(std::string message);

  ShellVariables& variables_;
  std::size_t expanded_bytes_ = 0;
  int nested_ = 0;
  std::optional<Error> error_;
};

// Whether a text fits a pattern with *, ? and [..], as `case` and ${V%..} compare.
bool matches_pattern(std::string_view text, std::string_view pattern);

// C arithmetic on 64-bit numbers as $(( )) has it: + - * / % ** << >> < <= > >= == != & ^ | && || ! ~ ?: and
// parentheses. value_of gives a variable's number, nothing where it is open. Errors: bad_input.
struct ArithmeticResult {
  std::optional<std::int64_t> value;  // nothing: it depends on the outside
  std::optional<std::string> error;
};
ArithmeticResult evaluate_arithmetic(std::string_view expression,
                                     const std::function<std::optional<std::int64_t>(std::string_view)>& value_of);

}  // namespace a2asim
