// The kinds of question: drawn, and answered by a version.
#pragma once

#include "model/engines/sglang/generation.h"
#include "model/step/engine_questions.h"

namespace a2asim {

// A question of the kind, for any version; the fields are those of tools/docs/real_code.md.
nlohmann::json draw_question(QuestionKind kind, Random& random, std::int64_t size);
// {"out": ..}, or {"error": "AssertionError: .."}. Throws nlohmann::json::exception for a question that lacks a field.
nlohmann::json answer_question(const Generation& version, QuestionKind kind, const nlohmann::json& question);

extern const EngineQuestions kQuestions;

}  // namespace a2asim
