// Inside run_shell: the walk over a script. Lists and compound commands are in shell_run.cpp, simple commands in
// shell_simple.cpp.
#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model/launch/shell_run.h"

namespace a2asim {

constexpr int kMostShellIterations = 256;  // of one loop, and the largest index of an array

class ShellRunner {
 public:
  ShellRunner(const ShellScript& script, ShellVariables& variables, ShellChoices& choices, const OnShellStart& on_start)
      : script_(script), variables_(variables), expander_(variables), choices_(choices), on_start_(on_start) {}

  Result<void> run();

 private:
  struct Assignment {  // NAME=value, NAME+=value, NAME[index]=value
    std::string_view name, index, value;
    bool appends = false;
  };
  bool stopped() const { return leaves_ || returns_ || breaks_ > 0 || error_ || expander_.error(); }

  ShellStatus run_list(const ShellNode& list);
  ShellStatus run_node(const ShellNode& node);
  ShellStatus run_apart(const ShellNode& list);
  ShellStatus run_pipeline(const ShellNode& node);
  ShellStatus run_and_or(const ShellNode& node);
  static bool is_test(const ShellNode& node);
  static std::string text_of(const ShellNode& node);
  ShellStatus decide(std::string_view source);
  ShellStatus run_condition(const ShellNode& list);
  ShellStatus run_test(const std::vector<std::string>& words, bool double_brackets);
  ShellStatus run_if(const ShellNode& node);
  bool end_iteration();
  ShellStatus run_loop(const ShellNode& node);
  static std::string condition_text(const ShellNode& list);
  ShellStatus run_for(const ShellNode& node);
  static std::vector<std::string> brace_range(const std::string& raw);
  ShellStatus run_c_for(const ShellNode& node);
  ShellStatus run_case(const ShellNode& node);
  ShellStatus run_arithmetic(const std::string& text);
  static std::optional<Assignment> read_assignment(std::string_view raw);
  void assign(const Assignment& assignment);
  ShellStatus run_array(const ShellNode& node);
  bool declare(const std::vector<std::string>& words);
  void keep_local(const std::string& name);
  ShellStatus run_simple(const ShellNode& node);
  ShellStatus run_words(const std::vector<ShellValue>& words, const ShellNode& node);
  bool start(const std::vector<ShellValue>& words, const ShellNode& node);
  ShellStatus call(const ShellNode& body, const std::vector<ShellValue>& words);
  ShellStatus shift(const std::vector<ShellValue>& words);
  ShellStatus set(const std::vector<ShellValue>& words);
  ShellStatus read(const std::vector<ShellValue>& words);

  const ShellScript& script_;
  ShellVariables& variables_;
  ShellExpander expander_;
  ShellChoices& choices_;
  const OnShellStart& on_start_;
  std::map<std::string, const ShellNode*, std::less<>> functions_;
  std::vector<std::map<std::string, std::optional<ShellValue>>> locals_;
  std::set<std::pair<std::string, std::string>> differs_;  // decided: this variable is not that
  ShellTest last_test_;                                    // of the command that ran last
  int steps_ = 0, calls_ = 0, in_condition_ = 0;
  int breaks_ = 0;
  bool continues_ = false, leaves_ = false, returns_ = false;
  std::optional<Error> error_;
};

}  // namespace a2asim
