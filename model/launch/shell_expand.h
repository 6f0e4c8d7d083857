// Words of a shell text -> the words that a command gets: quotes, braces, variables, arrays, ${V%..} and its like, $((
// )).
//
// Nothing is run and nothing outside the text is read. What only the outside knows (a variable that nobody set, the
// output of a command) stays open: its source text stands in the word, unsplit, and the field says so.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/result.h"
#include "model/launch/shell_pattern.h"
#include "model/launch/shell_variables.h"

namespace a2asim {

// NAME, or NAME[index]: what is assigned to.
struct ShellPlace {
  std::string_view name, index;
};

struct ShellParameter;

class ShellExpander {
 public:
  explicit ShellExpander(ShellVariables& variables) : variables_(variables) {}

  // The fields of one raw word, split outside quotes as IFS says.
  std::vector<ShellValue> fields(std::string_view raw);
  // As one word: in assignments, [[ ]], case.
  ShellValue word(std::string_view raw);
  // As a pattern: what is quoted stands for itself.
  ShellValue pattern(std::string_view raw);
  // The text of a here-document.
  ShellValue text(std::string_view raw);
  // $(( expression )): nothing where a value is open. Its assignments are made.
  std::optional<std::int64_t> arithmetic(std::string_view expression);
  // What `read` makes of a line, at most `most` fields; the last one takes what is left. Nothing where IFS is open.
  std::optional<std::vector<ShellValue>> split(std::string_view line, std::size_t most);

  // NAME=value and NAME[index]=value, as `declare` says that this variable takes them.
  void assign(const ShellPlace& place, ShellValue value, bool appends);
  // Nothing where the key or the number is open. For arrays with names as keys: the key.
  std::optional<std::int64_t> number_of_index(std::string_view name, std::string_view index);

  // Set where the text expands without bound, or is no arithmetic.
  const std::optional<Error>& error() const { return error_; }
  void fail_with(std::string message);
  // Counts what a text makes us do: a loop over long words would never end.
  void charge(std::size_t work);

 private:
  struct Output;
  struct Found {
    bool is_known = false;
    std::optional<ShellValue> value = {};  // nothing, and known: it is not set
  };
  enum class Quoting : unsigned char { none, quotes, document };  // document: of a here-document, where " is a letter

  void expand(std::string_view raw, Quoting quoting, Output& out);
  std::size_t quotes(std::string_view raw, std::size_t at, Output& out);
  std::size_t dollar(std::string_view raw, std::size_t at, Quoting quoting, Output& out);
  std::size_t bracketed(std::string_view raw, std::size_t at, Quoting quoting, Output& out);
  void parameter(std::string_view inside, std::string_view source, Quoting quoting, Output& out);
  void count(std::string_view inside, std::string_view source, Output& out);
  void plain(const ShellParameter& read, std::string_view source, Quoting quoting, Output& out);
  void list_parameter(const ShellParameter& read, std::string_view source, Quoting quoting, Output& out);
  void alternative(std::string_view text, Quoting quoting, Output& out);
  void indirect(std::string_view inside, std::string_view source, Quoting quoting, Output& out);
  bool slice(std::vector<ShellValue>& items, const ShellParameter& read);
  ShellValue replaced(ShellValue value, std::string_view both, bool all, const ShellValue& open);
  void list(const std::vector<ShellValue>& items, bool star, Quoting quoting, Output& out);
  void add_split(std::string_view text, Output& out);
  ShellValue transform(ShellValue value, std::string_view operation, std::string_view source);
  Found lookup(std::string_view name, std::string_view index);
  std::optional<std::vector<ShellValue>> items_of(std::string_view name, std::string_view index);
  std::optional<std::string> separators() const;
  std::optional<std::string> known_output(std::string_view command);

  static constexpr int kMostNested = 60;  // expansions inside each other

  ShellVariables& variables_;
  std::size_t expanded_bytes_ = 0, work_ = 0;
  int nested_ = 0;
  std::optional<Error> error_;
};

// C arithmetic on 64-bit numbers as $(( )) has it, assignments included. A byte 1 in the expression is a number that
// only the outside knows. Errors: bad_input.
struct ArithmeticResult {
  std::optional<std::int64_t> value;  // nothing: it depends on the outside
  std::optional<std::string> error;
};
struct ArithmeticVariables {
  // The text of a variable, which is an expression itself; nothing where it is open.
  std::function<std::optional<std::string>(const ShellPlace&)> get;
  std::function<void(const ShellPlace&, std::optional<std::int64_t>)> set;
};
ArithmeticResult evaluate_arithmetic(std::string_view expression, const ArithmeticVariables& variables);

}  // namespace a2asim
