// Inside run_shell: the walk over a script. Lists and conditions are in shell_run.cpp, loops and case in
// shell_loops.cpp, pipes in shell_pipe.cpp, defaults that conditions compare in shell_alternatives.cpp, simple commands
// in shell_simple.cpp, what the shell does itself (read, getopts, set, ..) in shell_builtins.cpp.
#pragma once

#include <list>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/launch/shell_run.h"

namespace a2asim {

class ShellRunner {
 public:
  ShellRunner(const ShellScript& script, ShellVariables& variables, ShellChoices& choices, const OnShellStart& on_start,
              const ReadShellFile& read_file)
      : script_(&script),
        variables_(variables),
        expander_(variables),
        choices_(choices),
        on_start_(on_start),
        read_file_(read_file) {
    for (const ShellAlternative& one : choices.assumed())
      for (const std::string& value : one.excluded) differs_.emplace(one.shown, value);
  }

  Result<void> run();

 private:
  using Words = std::vector<ShellValue>;
  struct Assignment {  // NAME=value, NAME+=value, NAME[index]=value
    std::string_view name, index, value;
    bool appends = false;
  };
  struct Function {
    const ShellNode* body = nullptr;
    const ShellScript* script = nullptr;
  };
  struct Declaration {  // of declare, local, export, readonly
    std::string_view verb;
    bool is_array = false, is_keyed = false, is_exported = false, is_integer = false, is_readonly = false;
    bool takes_export = false, is_local = false;
    char letters = '\0';
    std::size_t options = 1;  // words up to the first name
  };
  bool stopped() const { return leaves_ || returns_ || breaks_ > 0 || error_ || expander_.error(); }
  static ShellStatus known(bool holds) { return holds ? ShellStatus::success : ShellStatus::failure; }
  static std::string headline(std::string_view text);
  void refuse(std::size_t line, std::string_view what);

  // --- shell_run.cpp
  ShellStatus run_list(const ShellNode& list);
  ShellStatus run_node(const ShellNode& node);
  ShellStatus run_kind(const ShellNode& node);
  void run_trap(std::size_t line);
  ShellStatus run_apart(const ShellNode& node);
  void charge_copy();
  ShellStatus run_and_or(const ShellNode& node);
  std::optional<std::string> input_of(const std::vector<ShellRedirect>& redirects);
  static bool is_test(const ShellNode& node);
  static std::string text_of(const ShellNode& node);
  static bool leaves(const ShellNode& node);
  void settle(std::string_view name, const ShellValue& value);
  std::string decided_name(std::string_view name) const;
  ShellStatus decide(std::string_view source);
  ShellStatus run_condition(const ShellNode& list);
  ShellStatus run_test(const std::vector<std::string>& words, bool double_brackets);
  bool is_idle(const ShellNode& node) const;
  ShellStatus run_if(const ShellNode& node);
  ShellStatus run_arithmetic(std::string_view text);
  ShellStatus run_text(std::string_view text, std::size_t line);

  // --- shell_alternatives.cpp
  void offer(std::optional<ShellAlternative> other);
  void offer_arithmetic(std::string_view text);
  void offer_patterns(const ShellNode& node, std::size_t from, std::size_t taken, const ShellValue& subject);
  bool starts_server(const ShellNode& node, int depth) const;
  void mark_given(const ShellNode& node);
  bool reads_arguments(const ShellNode& node) const;

  // --- shell_pipe.cpp
  struct Printed {
    std::string text;
    bool is_known = true;
  };
  ShellStatus run_pipeline(const ShellNode& node);
  std::optional<ShellValue> output_of(const Words& words, const std::optional<ShellValue>& input) const;
  bool redirect(const ShellNode& node, ShellStart& one);
  bool start(const Words& words, const ShellNode& node);
  void prints_unknown() {
    if (printed_ != nullptr) printed_->is_known = false;
  }

  // --- shell_loops.cpp
  bool end_iteration();
  ShellStatus run_loop(const ShellNode& node);
  void open_changes(const std::map<std::string, ShellVariable, std::less<>>& before);
  static std::string condition_text(const ShellNode& list);
  Words items_of(const ShellNode& node);
  ShellStatus run_for(const ShellNode& node);
  ShellStatus run_c_for(const ShellNode& node);
  ShellStatus run_case(const ShellNode& node);
  std::size_t first_match(const ShellNode& node, std::size_t from);
  std::size_t choose_pattern(const ShellNode& node, std::size_t from);

  // --- shell_simple.cpp
  static std::optional<Assignment> read_assignment(std::string_view raw);
  void assign(const Assignment& assignment);
  ShellStatus run_array(const ShellNode& node);
  void run_substitutions(std::string_view raw, std::size_t line);
  ShellStatus run_simple(const ShellNode& node);
  ShellStatus run_words(const Words& words, const ShellNode& node, bool with_functions);
  ShellStatus run_with(std::span<const std::string> assignments, const Words& words, const ShellNode& node);
  ShellStatus leave(const Words& words);
  void end_by_exec();
  ShellStatus call(const Function& function, const Words& words);

  // --- shell_builtins.cpp
  std::optional<ShellStatus> run_builtin(const Words& words, const ShellNode& node);
  bool declare(std::span<const std::string> words, const ShellNode& node);
  Declaration read_declaration(std::span<const std::string> words, std::size_t line);
  void declare_name(const Declaration& declaration, std::string_view name);
  void finish_declaration(const Declaration& declaration, std::string_view name);
  void unset(std::span<const std::string> words);
  void keep_local(const std::string& name);
  ShellStatus eval(const Words& words, const ShellNode& node);
  ShellStatus source(const Words& words, const ShellNode& node);
  ShellStatus shift(const Words& words);
  ShellStatus set(const Words& words);
  ShellStatus read(const Words& words);
  ShellStatus read_lines(const Words& words);
  ShellStatus getopts(const Words& words);
  void found_option(const std::string& name, std::string_view found, std::optional<std::string> argument);

  const ShellScript* script_;     // that the running command is in
  std::list<ShellScript> texts_;  // of eval and source
  ShellVariables& variables_;
  ShellExpander expander_;
  ShellChoices& choices_;
  const OnShellStart& on_start_;
  const ReadShellFile& read_file_;
  std::map<std::string, Function, std::less<>> functions_;
  std::vector<std::map<std::string, std::optional<ShellVariable>>> locals_;
  std::set<std::pair<std::string, std::string>> differs_;  // decided: this variable is not that
  ShellTest last_test_;                                    // of the command that ran last
  std::optional<std::string> input_;                       // what `read` takes, where the text gives it
  bool is_piped_ = false;                                  // input_ is what the command in front prints
  Printed* printed_ = nullptr;                             // what a pipe takes from the running command
  std::string at_exit_;                                    // trap .. EXIT
  std::size_t text_line_ = 0;                              // where eval or source stands whose text is run; 0: in none
  std::size_t option_at_ = 0;                              // of getopts, inside a word
  int steps_ = 0, calls_ = 0, in_condition_ = 0, loops_ = 0, nested_ = 0;
  int breaks_ = 0;
  bool stops_at_failure_ = false;  // set -e
  int unchecked_ = 0;              // inside what set -e leaves alone
  bool continues_ = false, leaves_ = false, returns_ = false;
  ShellStatus left_with_ = ShellStatus::success;  // of exit, return
  std::optional<Error> error_;
};

}  // namespace a2asim
