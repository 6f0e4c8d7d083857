// The same drawn questions to code outside and to every version: where they differ, and which version is nearest.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "model/step/engine_questions.h"
#include "tools/program/engine_process.h"

namespace a2asim {

struct ConformKind {
  QuestionKind kind = QuestionKind::sizing;
  std::optional<std::string> not_loaded;       // why nothing was asked
  std::vector<nlohmann::json> questions = {};  // each once
  std::vector<nlohmann::json> answers = {};    // of the code outside
  std::vector<std::int64_t> differing = {};    // by version
};

// A question of which the answers differ; there is no smaller one among those asked.
struct ConformDifference {
  QuestionKind kind = QuestionKind::sizing;
  nlohmann::json question, outside, own;
};

struct ConformReport {
  std::string source;  // "--sglang-source 'DIR'"
  std::uint64_t seed = 0;
  std::vector<const Version*> versions;
  std::size_t against = 0, nearest = 0;  // in versions
  std::vector<ConformKind> kinds;
  std::vector<ConformDifference> differences;  // of `against`, one a kind

  bool is_complete() const;  // every kind was loaded
  std::int64_t differing(std::size_t version) const;
  std::size_t equal_kinds(std::size_t version) const;
  std::size_t loaded_kinds() const;
};

struct ConformOptions {
  std::int64_t questions = 2000;  // of each kind
  std::uint64_t seed = 1;
  const Version* against = nullptr;  // nullptr: the nearest
};

// Errors: bad_input, when the code outside fails.
Result<ConformReport> conform(EngineProcess& outside, const Engine& engine, const ConformOptions& options);

// The version whose rules hold where a checkout does not answer: the one that was named, else the nearest to it, by a
// few questions. Errors: bad_input, when the code outside fails or a version of another engine was named.
Result<VersionChoice> version_beside(EngineProcess& checkout, const VersionChoice& named);

std::string conform_as_text(const ConformReport& report, const Engine& engine);
std::string conform_as_json(const ConformReport& report, const Engine& engine);
// What the code outside answered, one row a line, for golden_check.
std::string conform_as_golden(const ConformReport& report);

}  // namespace a2asim
