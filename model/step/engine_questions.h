// What code outside is asked about an engine, and how a version of it answers: `conform` compares the two.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>

#include "model/base/random.h"
#include "model/step/engine.h"
#include "model/step/external_engine.h"

namespace a2asim {

struct EngineQuestions {
  std::string_view engine;          // its name
  std::string_view source_program;  // folder of tools/: answers with the functions of a checkout
  // One drawn question; a larger `size` draws from larger numbers.
  nlohmann::json (*draw)(QuestionKind kind, Random& random, std::int64_t size);
  // {"out": ..} or {"error": "AssertionError: .."}.
  nlohmann::json (*answer)(const Version& version, QuestionKind kind, const nlohmann::json& question);
  // As code outside gave it, and as answer() did.
  bool (*equal)(QuestionKind kind, const nlohmann::json& outside, const nlohmann::json& own);
};

// Of the engine that is meant where nothing names one; kept in model/engines/engines.cpp.
const EngineQuestions& engine_questions();

}  // namespace a2asim
