// Runs a shell text on paper: which simple commands it would start, with which words and variables. No command is
// executed; what the text itself decides (tests, case, loops over lists, functions) is decided, and where the outside
// decides, every way through is taken in a run of its own.
//
//     ShellChoices choices;
//     do {
//       auto notes = run_shell(*script, variables, choices, [&](const ShellStart& start) { .. });
//     } while (choices.next());
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/base/result.h"
#include "model/launch/launch_file.h"
#include "model/launch/shell_expand.h"
#include "model/launch/shell_syntax.h"

namespace a2asim {

// What the outside may give in place of a default that a condition compares: [ "${ROLE:-decode}" = prefill ].
struct ShellAlternative {
  std::string root;                        // the variable that has the default; digits: an argument of the script
  std::string value = {};                  // another value of it
  std::vector<std::string> excluded = {};  // or, where these are the only ones known: any but them
  std::string shown = {};                  // the variable, as the condition names it
  std::string label = {}, usual = {};      // in words: this one, and the default
};

// The decisions of one run that only the outside knows, and the way from one run to the next.
class ShellChoices {
 public:
  ShellChoices() = default;
  // assumed: what the outside gives in place of defaults, in all runs.
  explicit ShellChoices(std::vector<ShellAlternative> assumed) : assumed_(std::move(assumed)) {}
  const std::vector<ShellAlternative>& assumed() const { return assumed_; }

  // What else conditions of this run could meet. One whose answer changes nothing takes its own back.
  void offer(ShellAlternative one) { offered_.push_back(std::move(one)); }
  void withdraw(std::size_t first) { offered_.resize(std::min(first, offered_.size())); }
  const std::vector<ShellAlternative>& offered() const { return offered_; }

  // labels: what each way means, in words ("ROLE=decode"). The answer is an index into them.
  std::size_t choose(std::vector<std::string> labels);
  // On to the next run; false after the last one.
  bool next();
  // What was decided in the current run, in order.
  std::vector<std::string> labels() const;

 private:
  struct Choice {
    std::vector<std::string> labels;
    std::size_t taken = 0;
  };
  std::vector<Choice> path_;
  std::size_t used_ = 0;  // of path_, in this run
  std::vector<ShellAlternative> assumed_, offered_;
};

struct ShellStart {
  const std::vector<ShellValue>& words;  // assignments in front of the command included
  const ShellVariables& variables;
  std::size_t line = 1;
  std::optional<ShellValue> input = {};   // a here-document, or what is piped into it
  bool is_input_unread = false;           // it reads what a pipe or a file gives, which is not known
  bool is_piped = false;                  // the input is no redirection of its own
  std::optional<ShellValue> output = {};  // what it prints, if that is known
  std::string output_file = {};           // of > and >>, if it is known
  bool appends = false;
};
// True: it is what the caller looks for, and counts as having gone well. How other commands end is not known.
using OnShellStart = std::function<bool(const ShellStart&)>;

// Errors: bad_input for text that expands or runs without bound, and for what only a running shell can tell.
Result<void> run_shell(const ShellScript& script, ShellVariables& variables, ShellChoices& choices,
                       const OnShellStart& on_start, const ReadShellFile& read_file = {});

// --- tests, as [ ] and [[ ]] decide them
enum class ShellStatus : unsigned char { success, failure, open };

struct ShellTest {
  ShellStatus status = ShellStatus::open;
  // Set where the answer is one comparison of an open variable with a known text: the outside decides `name == value`.
  std::string name = {}, value = {};
  bool negated = false;                       // success means that they differ
  std::vector<ShellAlternative> others = {};  // of defaults that it compares
};
// words: raw, without the brackets. double_brackets: patterns on the right of ==, && and || inside.
ShellTest evaluate_test(ShellExpander& expander, const ShellVariables& variables, const std::vector<std::string>& words,
                        bool double_brackets);

// The file that a path means where the script is at that point: below its own folder. "./X" is X of that folder too,
// wherever `cd` has led: so $(dirname "$0")/X is written here.
struct ShellFile {
  std::string path, text;
};
std::optional<ShellFile> read_shell_file(const ShellVariables& variables, const ReadShellFile& read_file,
                                         std::string_view path);
// "./a" of "a/b.sh", "." of "b.sh".
std::string folder_of(std::string_view path);

// "$1" of "1"; any other name is itself.
std::string shown_variable(std::string_view name);
// One of * ? [ that stands for other text.
bool has_wildcard(std::string_view pattern);
// What the variable holds then; into the variables, as the surrounding environment gives it.
ShellValue assumed_value(const ShellAlternative& other);
void assume(ShellVariables& variables, std::span<const ShellAlternative> all);
// What flips a comparison of a default with a text, or with a number by -gt and its like.
std::optional<ShellAlternative> other_than_text(const ShellValue& value, std::string_view raw, std::string_view text);
std::optional<ShellAlternative> other_than_number(const ShellValue& value, std::string_view raw, std::string_view op,
                                                  std::int64_t number);
bool compare_numbers(std::int64_t left, std::string_view op, std::int64_t right);

// Of `export`, `local` and their like: the words are read before they are expanded.
bool is_declaration(std::string_view verb);

// "ROLE" of "$ROLE", ${ROLE} or ${ROLE:-decode}, quoted or not; empty for anything else.
std::string_view plain_variable(std::string_view raw);

}  // namespace a2asim
