// A sizing rule of the user's own: a program (--rule-cmd), started once and asked line by line, or a function of the
// program that embeds this one (caller.h).
//
// One JSON object a line in both directions. In: "id", "ep_size", "ep_rank", "dp_global" (list or null), "rows",
// "capture", "extend", "require_mlp_tp_gather", "enable_dp_attention", "attn_tp_size", "max_num_tokens". Out:
// {"id": .., "runtime_max_tokens_per_rank": N} or {"id": .., "error": "why"}; an error is an assertion of the rule on
// that rank. The program's standard error passes through.
//
// Equal views get equal answers: each is asked once and remembered. The first views and a fixed sample of the later
// ones are asked twice, and the first ones again at the end, so that a rule that answers by anything but the view is
// caught.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "model/step/sizing_rule.h"
#include "tools/program/caller.h"

namespace a2asim {

inline constexpr const char* kRuleCommandAbout =
    "Ask this program for the size instead of the version's own rule (see tools/README.md, installed in "
    "share/doc/a2asim)";

// What such a program is asked, without the id.
nlohmann::ordered_json view_as_json(const RankView& view);

// R, or the assertion of the rule.
using RuleAnswer = Result<std::int64_t>;
// A line of such a program as its answer to question `id`; the outer error says what is wrong with the line.
Result<RuleAnswer> read_rule_answer(const std::string& line, std::int64_t id);

class RuleProcess {
 public:
  // command: a program and its arguments; quotes and backslashes as in a shell, but no shell runs. patience: for one
  // answer. Errors: bad_input when there is no such program or the words cannot be read.
  static Result<std::unique_ptr<RuleProcess>> start(const std::string& command,
                                                    std::chrono::milliseconds patience = std::chrono::seconds(5));
  // A function, asked under the same conditions; one thread at a time calls it.
  static std::unique_ptr<RuleProcess> of(std::string name, SizingRule function);
  ~RuleProcess();  // closes its input, waits a little, then kills; leaves no zombie
  RuleProcess(const RuleProcess&) = delete;
  RuleProcess& operator=(const RuleProcess&) = delete;

  // May be called from several threads at once. The process must outlive it. After a failure (no answer in time, an
  // exit, a line that is no answer, two answers) every call raises; ask finish() what happened.
  SizingRule rule();

  std::string name() const;  // for a message: "--rule-cmd 'python3 mine.py'"
  bool failed() const;
  // Asks the first views once more, and says in one line what went wrong since start, naming the command and the view.
  // Call it before any result is printed: bad_input ends the run.
  Result<void> finish();

 private:
  class Impl;
  explicit RuleProcess(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// For commands with an optional --rule-cmd: nothing, the running program, or the caller's function.
Result<std::unique_ptr<RuleProcess>> start_rule(const std::optional<std::string>& command, const Caller& caller);
// What finish() says, or success where there is no rule.
Result<void> finish_rule(const std::unique_ptr<RuleProcess>& process);

}  // namespace a2asim
