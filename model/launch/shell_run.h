// Runs a shell text on paper: which simple commands it would start, with which words and variables. No command is
// executed; what the text itself decides (tests, case, loops over lists, functions) is decided, and where the outside
// decides, every way through is taken in a run of its own.
//
//     ShellChoices choices;
//     do {
//       auto notes = run_shell(*script, variables, choices, [&](const ShellStart& start) { .. });
//     } while (choices.next());
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/result.h"
#include "model/launch/launch_file.h"
#include "model/launch/shell_expand.h"
#include "model/launch/shell_syntax.h"

namespace a2asim {

// The decisions of one run that only the outside knows, and the way from one run to the next.
class ShellChoices {
 public:
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
};

struct ShellStart {
  const std::vector<ShellValue>& words;  // assignments in front of the command included
  const ShellVariables& variables;
  std::size_t line = 1;
  std::optional<ShellValue> input;  // a here-document
  std::string output_file;          // of >, if it is known
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
  bool negated = false;  // success means that they differ
};
// words: raw, without the brackets. double_brackets: patterns on the right of ==, && and || inside.
ShellTest evaluate_test(ShellExpander& expander, const ShellVariables& variables, const std::vector<std::string>& words,
                        bool double_brackets);

// Of `export`, `local` and their like: the words are read before they are expanded.
bool is_declaration(std::string_view verb);

// "ROLE" of "$ROLE" or ${ROLE}, quoted or not; empty for anything else.
std::string_view plain_variable(std::string_view raw);

}  // namespace a2asim
