// Code outside that answers what a version's rules answer: an engine's own functions, run by another process.
//
// A question is a JSON object whose fields tools/docs/real_code.md lists, an answer is a JSON value. Equal questions
// get equal answers, so each is asked once. Asking one at a time is slow: explore works with gathering(), which
// collects the questions that are new, and does its work again once they are answered.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "model/base/result.h"
#include "model/step/sizing_rule.h"

namespace a2asim {

enum class QuestionKind : std::uint8_t { startup, gather, sync, padding, capture, bucket, sizing, cap };
inline constexpr std::array<std::string_view, 8> kQuestionKinds = {"startup", "gather", "sync",   "padding",
                                                                   "capture", "bucket", "sizing", "cap"};
constexpr std::string_view name(QuestionKind kind) { return kQuestionKinds[static_cast<std::size_t>(kind)]; }
constexpr std::optional<QuestionKind> find_question_kind(std::string_view name) {
  for (std::size_t at = 0; at < kQuestionKinds.size(); ++at)
    if (kQuestionKinds[at] == name) return static_cast<QuestionKind>(at);
  return std::nullopt;
}

class ExternalEngine {
 public:
  virtual ~ExternalEngine() = default;
  virtual bool answers(QuestionKind kind) const = 0;

  // key: all that the answer depends on, as bytes; make_question: the same as JSON, called when it is new. The answer
  // stays valid as long as the engine. Errors: what the code raised, under its own kind; bad_input after a failure.
  virtual Result<const nlohmann::json*> ask(QuestionKind kind, std::string_view key,
                                            const std::function<nlohmann::json()>& make_question) = 0;

  // The answer to the question last asked cannot be used: everything ends with this.
  virtual Error refuse(QuestionKind kind, const std::string& why) = 0;

  // For one thread: ask() gives bad_input for a question that is new, and ask_gathered() asks all of those. True: there
  // were some, so what was worked out in between does not count.
  virtual std::unique_ptr<ExternalEngine> gathering() = 0;
  virtual bool ask_gathered() { return false; }
};

inline bool answers(const ExternalEngine* engine, QuestionKind kind) {
  return engine != nullptr && engine->answers(kind);
}

// The question that every engine has. is_complete: the answer says which rows are sent, not only R.
struct SizedOutside {
  SizingDecision decision;
  bool is_complete = false;
};
Result<SizedOutside> ask_size(ExternalEngine& engine, const RankView& view);

// The engine as a rule: what hands a rule on hands the whole engine on.
struct ExternalRule {
  ExternalEngine* engine;  // outlives the rule
  Result<SizingDecision> operator()(const RankView& view) const;
};
inline SizingRule rule_of(ExternalEngine& engine) { return ExternalRule{&engine}; }
// nullptr: the rule is none, or a function of this program.
inline ExternalEngine* engine_of(const SizingRule& rule) {
  const ExternalRule* outside = rule.target<ExternalRule>();
  return outside == nullptr ? nullptr : outside->engine;
}

// "AssertionError: text" as it was raised; a kind that is not known here is a runtime_error with the whole text.
Error raised_error(const std::string& text);
// A whole number within 0..2^31-1, as all counts of an answer.
std::optional<std::int64_t> count_in(const nlohmann::json& value);

}  // namespace a2asim
