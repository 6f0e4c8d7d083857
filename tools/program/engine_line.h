// One running program of engine_process.h, or a function that stands in for one, and how it is spoken to. Not for
// several threads at once.
#pragma once

#include <nlohmann/json.hpp>

#include "tools/program/child_process.h"
#include "tools/program/engine_process.h"

namespace a2asim {

struct EngineGreeting {
  std::vector<QuestionKind> kinds;
  std::map<std::string, std::string> unfit;
  std::map<std::string, std::vector<std::string>> runs;
};

// A line of a program that answers sizes only, as the answer {"out": ..} or {"error": ".."} to question `id`. Errors:
// runtime_error, what is wrong with the line.
Result<nlohmann::json> read_rule_answer(const std::string& line, std::int64_t id);
// A line of the other kind of program: that many answers to question `id`; {"unfit": why} is one, too.
Result<std::vector<nlohmann::json>> read_engine_answers(const std::string& line, std::int64_t id, std::size_t count);
// Its first line. Errors: bad_input, why it answers nothing; runtime_error, what is wrong with the line.
Result<EngineGreeting> read_engine_greeting(const std::string& line);

class EngineLine {
 public:
  // Errors: bad_input, in words that go behind the name of the command.
  static Result<EngineLine> start(const EngineCommand& command);

  const EngineGreeting& greeting() const { return greeting_; }
  // Answers in order: an object with "out", "error" or "unfit". Errors: runtime_error, what is wrong with the program.
  // `asked` is the question that it failed at.
  Result<std::vector<nlohmann::json>> ask(QuestionKind kind, const std::vector<const nlohmann::json*>& questions,
                                          const nlohmann::json** asked);
  void give_up(QuestionKind kind, const std::string& why) {
    std::erase(greeting_.kinds, kind);
    greeting_.unfit[std::string(name(kind))] = why;
  }
  void stop() {
    if (child_) child_->stop(std::chrono::milliseconds(0));
  }

 private:
  explicit EngineLine(const EngineCommand& command)
      : function_(command.function), patience_(command.patience), speaks_protocol_(command.speaks_protocol) {}
  Result<nlohmann::json> ask_rule(const nlohmann::json& question);
  Result<std::vector<nlohmann::json>> ask_lines(QuestionKind kind, const std::vector<const nlohmann::json*>& questions,
                                                std::size_t begin, std::size_t& end);

  std::optional<ChildProcess> child_;
  SizingRule function_;  // without a child
  std::chrono::milliseconds patience_;
  bool speaks_protocol_;
  std::int64_t next_id_ = 0;
  EngineGreeting greeting_;
};

}  // namespace a2asim
