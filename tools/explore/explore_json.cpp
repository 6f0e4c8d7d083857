#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "model/step/engine.h"
#include "tools/check/check_formats.h"
#include "tools/explore/explore_formats.h"
#include "tools/program/json_document.h"

namespace a2asim {
namespace {

using Json = nlohmann::ordered_json;

Verdict verdict_of(const ExploreReport& report) {
  const auto any = [&](ExploreOutcome outcome) {
    return std::ranges::any_of(report.generations, [&](const auto& one) { return one.count(outcome) > 0; });
  };
  if (any(ExploreOutcome::disagrees)) return Verdict::disagrees;
  return any(ExploreOutcome::overflow) ? Verdict::over_capacity : Verdict::agrees;
}

Json cases_as_json(const ExploreCell& cell) {
  Json out = Json::object();
  for (std::size_t outcome = 0; outcome < kExploreOutcomes; ++outcome)
    out[std::string(name(static_cast<ExploreOutcome>(outcome)))] = cell.cases[outcome];
  return out;
}

Json class_as_json(std::size_t index, const ExploreClass& one) {
  Json phases = Json::object();
  for (std::size_t phase = 0; phase < one.cells.size(); ++phase) {
    const ExploreCell& cell = one.cells[phase];
    const auto outcome = cell.outcome();
    phases[std::string(name(kExplorePhases[phase]))] = {{"outcome", outcome ? Json(name(*outcome)) : Json()},
                                                        {"cases", cases_as_json(cell)}};
  }
  Json refusal;
  if (one.refusal_at >= 0) refusal = {{"configuration", one.refusal_at}, {"message", one.refusal}};
  return {{"class", class_name(index)},
          {"configurations", one.configurations},
          {"rejected_configurations", one.refused_configurations},
          {"first_rejection", refusal},
          {"phases", phases}};
}

Json generation_as_json(const GenerationExploration& generation) {
  Json matrix = Json::array();
  for (std::size_t i = 0; i < kExploreClasses; ++i) matrix.push_back(class_as_json(i, generation.classes[i]));
  return {{"generation", generation.generation},
          {"space_configurations", generation.space},
          {"configurations", generation.configurations},
          {"cases", generation.cases},
          {"stopped_before_configuration", or_null(generation.stopped_at)},
          {"matrix", matrix}};
}

Json witness_as_finding(const PlacedWitness& placed) {
  Json out = finding_as_json(placed.witness->finding);
  out["generation"] = placed.generation->generation;
  out["class"] = class_name(placed.exploring_class);
  out["outcome"] = name(placed.outcome);
  out["configuration"] = placed.witness->configuration;
  out["batch"] = placed.witness->batch;
  out["ranks"] = placed.witness->ranks;
  out["scenario"] = placed.witness->scenario;
  return out;
}

}  // namespace

std::string explore_as_json(const ExploreReport& report) {
  Json generations_out = Json::array(), findings = Json::array(), shard;
  for (const GenerationExploration& generation : report.generations)
    generations_out.push_back(generation_as_json(generation));
  for (const PlacedWitness& placed : witnesses(report)) findings.push_back(witness_as_finding(placed));
  if (report.shard) shard = {{"index", report.shard->index}, {"of", report.shard->of}};
  return print(Json{{"tool", tool_as_json()},
                    {"command", "explore"},
                    {"engine", report.engine},
                    {"rule", or_null(report.rule)},
                    {"answered", or_null(report.answered)},
                    {"budget_cases", or_null(report.budget_cases)},
                    {"shard", shard},
                    {"verdict", name(verdict_of(report))},
                    {"cases", report.cases()},
                    {"generations", generations_out},
                    {"findings", findings}});
}

std::string explore_as_sarif(const ExploreReport& report) {
  CheckReport findings;
  findings.verdict = verdict_of(report);
  if (report.generations.size() == 1)
    for (const Engine* engine : engines())
      for (const Version* version : engine->versions())
        if (engine->name == report.engine && version->name == report.generations.front().generation)
          findings.generation = version;
  for (const PlacedWitness& placed : witnesses(report)) {
    if (!placed.worst) continue;
    CheckFinding finding = placed.witness->finding;
    finding.message = fmt::format("{} {}, {}: {}", report.engine, placed.generation->generation,
                                  class_name(placed.exploring_class), finding.message);
    finding.chain.push_back("scenario: " + file_name(placed) + "\n" + placed.witness->scenario);
    findings.findings.push_back(std::move(finding));
  }
  return check_as_sarif(findings, {CommandSource::Kind::command_line, ""});
}

}  // namespace a2asim
