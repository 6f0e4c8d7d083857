// Code outside as a program, started once and asked line by line; or a function of the program that embeds this one
// (caller.h), asked under the same conditions.
//
// There are two kinds of programs. One answers every kind of question of model/step/external_engine.h that it lists in
// its first line, many questions to a line. The other (--rule-cmd) answers sizing only, one question a line, and prints
// nothing first. tools/docs/real_code.md describes both. The program's standard error passes through.
//
// Equal questions get equal answers: each is asked once and remembered. The first ones and a fixed sample of the later
// ones are asked twice, and the first ones again at the end, so that a program that answers by anything but the
// question is caught.
#pragma once

#include <CLI/App.hpp>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "model/step/external_engine.h"
#include "tools/program/caller.h"

namespace a2asim {

inline constexpr const char* kRuleCommandAbout =
    "Ask this program for the size instead of the version's own rule (see tools/README.md, installed in "
    "share/doc/a2asim)";
inline constexpr const char* kSourceAbout =
    "Ask the functions of the checkout in DIR instead of the version's rules: runs code of the checkout";

// What a --rule-cmd is asked, without the id.
nlohmann::ordered_json view_as_json(const RankView& view);

// How a program is started, and what its errors are called.
struct EngineCommand {
  std::string shown;  // "--rule-cmd 'python3 rule.py'"
  std::vector<std::string> words;
  SizingRule function = {};  // instead of a program; one thread at a time calls it
  bool speaks_protocol = false;
  std::chrono::milliseconds patience = std::chrono::seconds(5);  // for one line
};

class EngineProcess final : public ExternalEngine {
 public:
  // Errors: bad_input, when there is no such program or it does not speak the protocol.
  static Result<std::unique_ptr<EngineProcess>> start(EngineCommand command);
  // A function of the caller.
  static std::unique_ptr<EngineProcess> of(const std::string& name, SizingRule function);
  // --rule-cmd: a program and its arguments; quotes and backslashes as in a shell, but no shell runs.
  static Result<std::unique_ptr<EngineProcess>> start_rule(
      const std::string& command, std::chrono::milliseconds patience = std::chrono::seconds(5));
  // --engine-cmd: the same, for a program that speaks the protocol.
  static Result<std::unique_ptr<EngineProcess>> start_engine(const std::string& command);
  // --sglang-source: the program of this project that loads the functions of a checkout.
  static Result<std::unique_ptr<EngineProcess>> start_source(const std::string& folder);
  ~EngineProcess() override;  // closes its input, waits a little, then kills; leaves no zombie
  EngineProcess(const EngineProcess&) = delete;
  EngineProcess& operator=(const EngineProcess&) = delete;

  // May be called from several threads at once. After a failure (no answer in time, an exit, a line that is no answer,
  // two answers) every call raises; ask finish() what happened.
  bool answers(QuestionKind kind) const override;
  Result<const nlohmann::json*> ask(QuestionKind kind, std::string_view key,
                                    const std::function<nlohmann::json()>& make_question) override;
  Error refuse(QuestionKind kind, const std::string& why) override;
  std::unique_ptr<ExternalEngine> gathering() override;

  SizingRule rule();  // the process outlives it
  // Many questions of one kind: an answer each, as the program gave it ({"out": ..} or {"error": ".."}). Where it
  // cannot answer one, it does not answer the kind any more, and unfit() says why.
  Result<std::vector<nlohmann::json>> ask_all(QuestionKind kind, const std::vector<nlohmann::json>& questions);
  const std::map<std::string, std::string>& unfit() const;              // kinds that could not be loaded, and why
  const std::map<std::string, std::vector<std::string>>& runs() const;  // what of the checkout answers each kind
  const std::string& shown() const;

  bool failed() const;
  // Asks the first questions once more, and says in one line what went wrong since start, naming the command and the
  // question. Call it before any result is printed: bad_input ends the run.
  Result<void> finish();

 private:
  class Impl;
  class Gathering;
  explicit EngineProcess(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

// What a command was given: at most one of them.
struct EngineOptions {
  std::optional<std::string> rule_cmd, source;
};
// "--sglang-source"
std::string source_option();
// --rule-cmd and --sglang-source of a command.
void add_engine_options(CLI::App& command, std::optional<std::string>& rule_cmd, std::optional<std::string>& source);
// Nothing, the running program, or the caller's function.
Result<std::unique_ptr<EngineProcess>> start_engine(const EngineOptions& options, const Caller& caller);
// What finish() says, or success where there is no program.
Result<void> finish_engine(const std::unique_ptr<EngineProcess>& process);
// One line for people: which kinds come from the program, which from `version`.
std::string answered_by(const EngineProcess& process, std::string_view version);

}  // namespace a2asim
