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

// --- reading; what does not fit throws nlohmann's exceptions or std::out_of_range, caught in read_explore_json

template <class Names>
std::size_t index_in(const Names& names, std::size_t count, const std::string& word) {
  for (std::size_t i = 0; i < count; ++i)
    if (names(i) == word) return i;
  throw std::out_of_range(word);
}

std::size_t outcome_index(const std::string& word) {
  return index_in([](std::size_t i) { return name(static_cast<ExploreOutcome>(i)); }, kExploreOutcomes, word);
}
std::size_t phase_index(const std::string& word) {
  return index_in([](std::size_t i) { return name(kExplorePhases[i]); }, kExplorePhases.size(), word);
}
std::size_t class_index(const std::string& word) { return index_in(class_name, kExploreClasses, word); }

ExploreClass read_class(const Json& in) {
  ExploreClass out;
  out.configurations = in.at("configurations").get<std::int64_t>();
  out.refused_configurations = in.at("rejected_configurations").get<std::int64_t>();
  if (const Json& refusal = in.at("first_rejection"); !refusal.is_null()) {
    out.refusal_at = refusal.at("configuration").get<std::int64_t>();
    out.refusal = refusal.at("message").get<std::string>();
  }
  for (const auto& [phase, cell] : in.at("phases").items())
    for (const auto& [outcome, count] : cell.at("cases").items())
      out.cells[phase_index(phase)].cases[outcome_index(outcome)] = count.get<std::int64_t>();
  return out;
}

GenerationExploration read_generation(const Json& in) {
  GenerationExploration out;
  out.generation = in.at("generation").get<std::string>();
  out.space = in.at("space_configurations").get<std::int64_t>();
  out.configurations = in.at("configurations").get<std::int64_t>();
  out.cases = in.at("cases").get<std::int64_t>();
  if (const Json& stopped = in.at("stopped_before_configuration"); !stopped.is_null())
    out.stopped_at = stopped.get<std::int64_t>();
  for (const Json& one : in.at("matrix"))
    out.classes[class_index(one.at("class").get<std::string>())] = read_class(one);
  return out;
}

CheckWitness read_witness(const Json& in) {
  CheckWitness out;
  out.tokens_per_dp_rank = in.at("tokens_per_dp_rank").get<std::vector<std::int64_t>>();
  out.modes = in.at("modes").get<std::vector<std::string>>();
  out.paths = in.at("paths").get<std::vector<std::string>>();
  for (const Json& r : in.at("runtime_max_tokens_per_rank"))
    out.runtime_max_tokens_per_rank.push_back(r.is_null() ? std::nullopt : std::optional(r.get<std::int64_t>()));
  return out;
}

void read_finding(const Json& in, ExploreReport& report) {
  const std::string generation = in.at("generation").get<std::string>();
  const auto owner = std::ranges::find(report.generations, generation, &GenerationExploration::generation);
  if (owner == report.generations.end()) throw std::out_of_range(generation);
  const std::size_t phase = phase_index(in.at("phase").get<std::string>());
  const std::size_t outcome = outcome_index(in.at("outcome").get<std::string>());
  ExploreWitness witness;
  witness.configuration = in.at("configuration").get<std::int64_t>();
  witness.batch = in.at("batch").get<std::int64_t>();
  witness.ranks = in.at("ranks").get<std::int64_t>();
  witness.scenario = in.at("scenario").get<std::string>();
  CheckFinding& finding = witness.finding;
  const std::string id = in.at("id").get<std::string>();
  const auto kind = parse_finding_kind(id);
  if (!kind) throw std::out_of_range(id);
  finding.kind = *kind;
  finding.severity = is_error(static_cast<ExploreOutcome>(outcome)) ? Severity::error : Severity::note;
  finding.phase = kExplorePhases[phase];
  finding.message = in.at("message").get<std::string>();
  finding.consequence = in.at("consequence").get<std::string>();
  finding.chain = in.at("why").get<std::vector<std::string>>();
  finding.fix = in.at("fix").get<std::string>();
  finding.witness = read_witness(in.at("witness"));
  ExploreClass& one = owner->classes[class_index(in.at("class").get<std::string>())];
  one.cells[phase].witness[outcome] = std::move(witness);
}

ExploreReport read_report(const Json& in) {
  ExploreReport report;
  if (in.at("command") != "explore") throw std::out_of_range("command");
  report.engine = in.at("engine").get<std::string>();
  if (const Json& rule = in.at("rule"); !rule.is_null()) report.rule = rule.get<std::string>();
  if (const Json& budget = in.at("budget_cases"); !budget.is_null()) report.budget_cases = budget.get<std::int64_t>();
  if (const Json& shard = in.at("shard"); !shard.is_null())
    report.shard = Shard{shard.at("index").get<std::int64_t>(), shard.at("of").get<std::int64_t>()};
  if (report.shard && (report.shard->index < 0 || report.shard->index >= report.shard->of))
    throw std::out_of_range("shard");
  for (const Json& generation : in.at("generations")) report.generations.push_back(read_generation(generation));
  for (const Json& finding : in.at("findings")) read_finding(finding, report);
  return report;
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

Result<ExploreReport> read_explore_json(const std::string& text, const std::string& file) {
  const Json document = Json::parse(text, nullptr, false);
  if (document.is_discarded()) return fail(ErrorKind::bad_input, fmt::format("'{}' is no JSON", file));
  try {
    return read_report(document);
  } catch (const std::exception&) {
    return fail(ErrorKind::bad_input,
                fmt::format("'{}' was not written by `a2asim explore --format json` of this version", file));
  }
}

}  // namespace a2asim
