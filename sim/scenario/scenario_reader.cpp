#include "sim/scenario/scenario_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <fstream>

#include "model/alltoall/routing.h"
#include "model/alltoall/workspace.h"
#include "model/step/engine.h"
#include "sim/scenario/scenario_reader_fields.h"

namespace a2asim {
namespace {

using yaml::Node;
using yaml::Record;
using yaml::refuse;

using Keys = std::vector<std::string_view>;

Parallel read_parallel(const Node& node) {
  Keys keys;
  for (const ParallelField& field : parallel_fields()) keys.push_back(field.key);
  const Record record(node, "parallel", keys);
  Parallel parallel;
  for (const ParallelField& field : parallel_fields()) {
    const Node* const value = record.find(field.key);
    if (value == nullptr) continue;
    const std::string path = record.path(field.key);
    if (field.integer != nullptr) parallel.*field.integer = yaml::read_integer(*value, path, field.min, field.max);
    if (field.boolean != nullptr) parallel.*field.boolean = yaml::read_boolean(*value, path);
    if (field.list != nullptr) parallel.*field.list = yaml::read_integers(*value, path, field.min, field.max);
    if (field.word == nullptr) continue;
    std::string word = yaml::read_text(*value, path, true);
    if (!is_word(word)) {
      refuse(value->at,
             fmt::format("{} is {}; give one word of letters, digits and ._/:+=@-", path, yaml::shown(word)));
    }
    parallel.*field.word = std::move(word);
  }
  return parallel;
}

std::map<std::string, std::string> read_env(const Node& node) {
  const auto name_character = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
  };
  if (node.kind != Node::Kind::mapping) refuse(node.at, "env is no mapping; give NAME: value pairs, or {}");
  std::map<std::string, std::string> env;
  for (std::size_t i = 0; i < node.keys.size(); ++i) {
    const std::string& name = node.keys[i].text;
    const bool digit_first = !name.empty() && name.front() >= '0' && name.front() <= '9';
    if (name.empty() || digit_first || !std::all_of(name.begin(), name.end(), name_character)) {
      refuse(node.keys[i].at,
             fmt::format("{} is no name of an environment variable; use letters, digits and _", yaml::shown(name)));
    }
    env[name] = yaml::read_text(node.items[i], "env." + name, false);
  }
  return env;
}

ScenarioModel read_model(const Node& node) {
  static constexpr std::string_view keys[] = {"num_experts", "top_k", "hidden_size", "layers", "dtype"};
  const Record record(node, "model", keys);
  const auto integer = [&](std::string_view key, std::string_view example, std::int64_t max) {
    return yaml::read_integer(record.require(key, example), record.path(key), 1, max);
  };
  ScenarioModel model;
  model.num_experts = integer("num_experts", "num_experts: 8", kMaxScenarioExperts);
  model.top_k = integer("top_k", "top_k: 2", kMaxTopK);
  model.hidden_size = integer("hidden_size", "hidden_size: 64", kMaxScenarioHidden);
  if (const Node* layers = record.find("layers")) {
    model.layers = yaml::read_integer(*layers, "model.layers", 1, kMaxScenarioLayers);
  }
  if (const Node* dtype = record.find("dtype")) model.dtype = yaml::read_named(*dtype, "model.dtype", model_dtypes());
  if (model.top_k > model.num_experts) {
    refuse(record.find("top_k")->at, fmt::format("model.top_k is {}; a token cannot choose more than the {} experts",
                                                 model.top_k, model.num_experts));
  }
  return model;
}

Routing read_routing(const Node& node) {
  static constexpr std::string_view keys[] = {"kind", "rank"};
  const Record record(node, "routing", keys);
  Routing routing;
  routing.at = record.at();
  routing.kind = yaml::read_named(record.require("kind", "kind: uniform"), "routing.kind", routing_kinds());
  const Node* const rank = record.find("rank");
  if (routing.kind == Routing::Kind::hot_rank) {
    routing.rank = yaml::read_integer(record.require("rank", "rank: 0"), "routing.rank", 0, kMaxScenarioRanks - 1);
  } else if (rank != nullptr) {
    refuse(rank->at, "routing.rank belongs to kind hot_rank only; remove it");
  }
  return routing;
}

std::vector<ForwardMode> read_modes(const Node& node, std::size_t ranks) {
  if (node.kind != Node::Kind::sequence) return {yaml::read_named(node, "mode", step_modes())};
  if (node.items.size() != ranks) {
    refuse(node.at,
           fmt::format("mode has {} entries and tokens {}; give one mode, or one per rank", node.items.size(), ranks));
  }
  std::vector<ForwardMode> modes;
  modes.reserve(ranks);
  for (const Node& item : node.items) modes.push_back(yaml::read_named(item, "mode", step_modes()));
  return modes;
}

Step read_step(const Node& node) {
  static constexpr std::string_view keys[] = {"mode", "tokens", "graph", "repeat"};
  const Record record(node, "step", keys);
  Step step;
  step.at = record.at();
  const Node& tokens = record.require("tokens", "tokens: [4, 4, 2, 0]");
  step.tokens = yaml::read_integers(tokens, "tokens", 0, kMaxScenarioTokens);
  step.mode = read_modes(record.require("mode", "mode: decode"), step.tokens.size());
  if (const Node* graph = record.find("graph")) step.graph = yaml::read_boolean(*graph, "graph");
  if (const Node* repeat = record.find("repeat")) {
    step.repeat = yaml::read_integer(*repeat, "repeat", 1, kMaxScenarioSteps);
  }
  for (std::size_t rank = 0; rank < step.tokens.size(); ++rank) {
    if (step.mode_of(rank) != ForwardMode::idle || step.tokens[rank] == 0) continue;
    refuse(tokens.items[rank].at,
           fmt::format("rank {} is idle and has {} tokens; give it 0, or another mode", rank, step.tokens[rank]));
  }
  return step;
}

std::vector<Step> read_steps(const Node& node) {
  const auto items = yaml::read_list(node, "steps", "- {mode: decode, tokens: [4, 4, 2, 0]}");
  if (items.empty()) refuse(node.at, "steps is empty; give at least one, for example {mode: decode, tokens: [4, 4]}");
  std::vector<Step> steps;
  std::int64_t count = 0;
  for (const Node& item : items) {
    const Step& step = steps.emplace_back(read_step(item));
    count += step.repeat;
    if (count > kMaxScenarioSteps) {
      refuse(step.at, fmt::format("more than {} steps with repeat; lower repeat", kMaxScenarioSteps));
    }
    if (step.tokens.size() != steps.front().tokens.size()) {
      refuse(step.at, fmt::format("tokens has {} entries, in the first step {}; give one number a data-parallel rank",
                                  step.tokens.size(), steps.front().tokens.size()));
    }
  }
  return steps;
}

// The value of a fault's own key: a rank, true, or a mapping.
void read_fault_value(Fault& fault, const Node& node, std::string_view key) {
  const auto rank_of = [&](const Node& value, const std::string& path) {
    fault.rank = yaml::read_integer(value, path, 0, kMaxScenarioRanks - 1);
  };
  const auto record_of = [&](Keys keys) { return Record(node, key, keys); };
  const auto integer = [&](const Record& record, std::string_view field, std::int64_t min, std::int64_t max) {
    return yaml::read_integer(record.require(field, fmt::format("{}: {}", field, min)), record.path(field), min, max);
  };
  switch (fault.kind) {
    case FaultKind::skip_all_gather:
      if (node.kind == Node::Kind::plain && node.text == "true") return;  // nobody exchanges
      if (node.kind == Node::Kind::plain && node.text == "false")
        refuse(node.at, "skip_all_gather is false; give true, a rank, or no such fault");
      [[fallthrough]];
    case FaultKind::skip_rank:
    case FaultKind::stale_counts:
    case FaultKind::replay_rank:
    case FaultKind::dead_rank:
      return rank_of(node, std::string(key));
    case FaultKind::wrong_mode: {
      const Record record = record_of({"rank", "mode"});
      rank_of(record.require("rank", "rank: 0"), record.path("rank"));
      fault.mode = yaml::read_named(record.require("mode", "mode: extend"), record.path("mode"), step_modes());
      return;
    }
    case FaultKind::corrupt_count: {
      const Record record = record_of({"rank", "source", "value"});
      if (const Node* rank = record.find("rank")) rank_of(*rank, record.path("rank"));
      fault.source = integer(record, "source", 0, kMaxScenarioRanks - 1);
      fault.value = integer(record, "value", 0, kMaxScenarioCount);
      return;
    }
    case FaultKind::max_num_tokens: {
      const Record record = record_of({"rank", "value"});
      rank_of(record.require("rank", "rank: 0"), record.path("rank"));
      fault.value = integer(record, "value", 1, kMaxScenarioCount);
      return;
    }
    case FaultKind::payload_bytes: {
      const Record record = record_of({"rank", "payload", "value"});
      rank_of(record.require("rank", "rank: 0"), record.path("rank"));
      fault.payload = integer(record, "payload", 0, kScenarioPayloads - 1);
      fault.value = integer(record, "value", 1, kMaxPayloadBytesPerToken);
      return;
    }
  }
}

void read_fault_step(Fault& fault, const Record& record, std::int64_t steps) {
  const Node* const step = record.find("step");
  const std::string_view kind = name_in(fault_kinds(), fault.kind);
  if (is_construction_fault(fault.kind)) {
    if (step != nullptr) refuse(step->at, fmt::format("{} holds from construction on; remove step", kind));
    return;
  }
  fault.step = yaml::read_integer(record.require("step", "step: 0"), "step", 0, steps - 1);
  if (fault.kind == FaultKind::stale_counts && fault.step == 0) {
    refuse(step->at, "stale_counts uses the list of the step before, and step 0 has none; name a later step");
  }
}

Fault read_fault(const Node& node, std::int64_t steps) {
  Keys keys = {"step", "masked"};
  for (const auto& kind : fault_kinds()) keys.push_back(kind.name);
  const Record record(node, "fault", keys);
  Fault fault;
  fault.at = record.at();
  const Node* value = nullptr;
  std::string_view key;
  for (const auto& kind : fault_kinds()) {
    const Node* const found = record.find(kind.name);
    if (found == nullptr) continue;
    if (value != nullptr) refuse(found->at, fmt::format("both {} and {}; write one fault an entry", key, kind.name));
    value = found;
    key = kind.name;
    fault.kind = kind.value;
  }
  if (value == nullptr) refuse(node.at, "the fault has no kind; add one, for example skip_rank: 2");
  read_fault_value(fault, *value, key);
  read_fault_step(fault, record, steps);
  if (const Node* masked = record.find("masked")) {
    if (fault.kind != FaultKind::dead_rank) refuse(masked->at, "masked belongs to dead_rank only; remove it");
    fault.masked = yaml::read_boolean(*masked, "masked");
  }
  return fault;
}

Expect read_expect(const Node& node, std::string_view what, std::int64_t steps) {
  static constexpr std::string_view keys[] = {"verdict", "step", "findings"};
  const Record record(node, what, keys);
  Expect expect;
  if (const Node* verdict = record.find("verdict")) {
    expect.verdict = yaml::read_named(*verdict, record.path("verdict"), verdicts());
  }
  if (const Node* step = record.find("step"))
    expect.step = yaml::read_integer(*step, record.path("step"), 0, steps - 1);
  if (const Node* findings = record.find("findings")) {
    for (const Node& item : yaml::read_list(*findings, record.path("findings"), "[nan_output]")) {
      expect.findings.push_back(yaml::read_named(item, record.path("findings"), finding_kinds()));
    }
  }
  if (!expect.verdict && expect.findings.empty()) {
    refuse(record.at(), fmt::format("{} says nothing; give a verdict, findings, or both", what));
  }
  return expect;
}

std::map<std::string, Expect> read_expect_by_generation(const Node& node, const Engine& engine, std::int64_t steps) {
  constexpr std::string_view what = "expect_by_generation";
  if (node.kind != Node::Kind::mapping) {
    refuse(node.at, fmt::format("{} is no mapping; give GENERATION: {{verdict: ..}} pairs", what));
  }
  std::map<std::string, Expect> all;
  for (std::size_t i = 0; i < node.keys.size(); ++i) {
    const std::string& generation = node.keys[i].text;
    if (!is_word(generation)) {
      refuse(node.keys[i].at,
             fmt::format("{} is no generation; name a PR, a release or a date", yaml::shown(generation)));
    }
    if (const auto match = engine.find_version(generation); !match)
      refuse(node.keys[i].at, fmt::format("{}: {}", what, match.error().message));
    all[generation] = read_expect(node.items[i], fmt::format("{}.{}", what, generation), steps);
  }
  return all;
}

// engine: and version:, or both in one: `sglang: v0.5.13`.
void read_version(Scenario& scenario, const Record& record) {
  const Node* const engine = record.find("engine");
  const Node* version = record.find("version");
  if (engine != nullptr) {
    scenario.engine = yaml::read_text(*engine, "engine", true);
    scenario.at.version = engine->at;
    const auto known = find_engine(*scenario.engine);
    if (!known) refuse(engine->at, "engine: " + known.error().message);
  }
  for (const Engine* known : engines()) {
    const Node* const both = record.find(known->name);
    if (both == nullptr) continue;
    if (engine != nullptr || version != nullptr)
      refuse(both->at, fmt::format("{}: is short for engine: and version:; give either it or them", known->name));
    scenario.engine = known->name;
    scenario.at.version_key = known->name;
    version = both;
  }
  if (version == nullptr) return;
  scenario.version = yaml::read_text(*version, scenario.at.version_key, true);
  scenario.at.version = version->at;
}

void read_deployment(Scenario& scenario, const Record& record) {
  read_version(scenario, record);
  if (const Node* env = record.find("env")) {
    scenario.env = read_env(*env);
    scenario.at.env = env->at;
  }
  const Node* const launch = record.find("launch");
  const Node* const parallel = record.find("parallel");
  if ((launch == nullptr) == (parallel == nullptr)) {
    refuse(launch == nullptr ? record.at() : parallel->at,
           "the deployment is given twice or not at all; give either launch: (the command) or parallel: (its fields)");
  }
  scenario.at.deployment = launch != nullptr ? launch->at : parallel->at;
  if (launch != nullptr) {
    scenario.launch = yaml::read_text(*launch, "launch", false);
    return;
  }
  scenario.parallel = read_parallel(*parallel);
  const bool twice =
      scenario.parallel->max_num_tokens && scenario.env.contains(std::string(engine_of(scenario).cap_variable));
  if (twice) refuse(parallel->at, "parallel.max_num_tokens and env give the cap twice; remove one");
}

Scenario read_scenario(const Node& root) {
  static const std::vector<std::string_view> keys = [] {
    std::vector<std::string_view> all = {
        "name", "engine",  "version", "launch", "parallel", "env",    "model",
        "seed", "routing", "experts", "steps",  "faults",   "expect", "expect_by_generation"};
    for (const Engine* engine : engines()) all.push_back(engine->name);
    return all;
  }();
  const Record record(root, "", keys);
  Scenario scenario;
  scenario.name = yaml::read_text(record.require("name", "name: my-scenario"), "name", true);
  read_deployment(scenario, record);
  const Node& model = record.require("model", "model: {num_experts: 8, top_k: 2, hidden_size: 64, layers: 1}");
  scenario.model = read_model(model);
  scenario.at.model = model.at;
  if (const Node* seed = record.find("seed")) scenario.seed = yaml::read_uint64(*seed, "seed");
  if (const Node* routing = record.find("routing")) scenario.routing = read_routing(*routing);
  if (const Node* experts = record.find("experts")) {
    scenario.experts = yaml::read_named(*experts, "experts", experts_kinds());
  }
  scenario.steps = read_steps(record.require("steps", "steps: [{mode: decode, tokens: [4, 4, 2, 0]}]"));
  const std::int64_t steps = num_steps(scenario);
  if (const Node* faults = record.find("faults")) {
    for (const Node& item : yaml::read_list(*faults, "faults", "- {step: 1, skip_rank: 2}")) {
      scenario.faults.push_back(read_fault(item, steps));
    }
  }
  if (const Node* expect = record.find("expect")) scenario.expect = read_expect(*expect, "expect", steps);
  if (const Node* all = record.find("expect_by_generation")) {
    scenario.expect_by_generation = read_expect_by_generation(*all, engine_of(scenario), steps);
  }
  return scenario;
}

Result<Scenario> parse_checked(std::string_view text, std::string_view file) {
  Scenario scenario = read_scenario(yaml::parse(text));
  if (scenario.parallel) {
    const auto ranks = check_ranks(scenario, file, scenario.parallel->attn_dp_size(), scenario.parallel->world_size());
    if (!ranks) return tl::unexpected<Error>(ranks.error());
  }
  return scenario;
}

}  // namespace

Result<Scenario> parse_scenario(std::string_view text, std::string_view file) {
  if (text.size() > kMaxScenarioFileBytes) {
    return scenario_error(
        file, {},
        fmt::format("longer than {} bytes, the limit for a scenario; use repeat, or split it", kMaxScenarioFileBytes));
  }
  try {
    return parse_checked(text, file);
  } catch (const yaml::Refusal& refusal) {
    return scenario_error(file, refusal.at, refusal.what);
  }
}

Result<Scenario> load_scenario(const std::string& path) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) {
    return scenario_error(path, {}, "is a directory; name a scenario file in it");
  }
  std::ifstream stream(path, std::ios::binary);
  if (!stream) return scenario_error(path, {}, "cannot be opened; check the name and the permissions");
  // One byte more than allowed, so that a longer or endless file is seen as such.
  std::string text(kMaxScenarioFileBytes + 1, '\0');
  stream.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (stream.bad()) return scenario_error(path, {}, "cannot be read; check the file");
  text.resize(static_cast<std::size_t>(stream.gcount()));
  return parse_scenario(text, path);
}

}  // namespace a2asim
