// A shard as explore_as_json wrote it. Shards come from other machines: every number has a range, every name is one
// that this program gives, lists that belong together are of one length, and a scenario is the one that its place
// stands for.
#include <fmt/format.h>

#include <algorithm>

#include "model/base/json_reader.h"
#include "model/step/engine.h"
#include "sim/scenario/scenario_reader.h"
#include "sim/scenario/scenario_writer.h"
#include "tools/explore/explore_formats.h"

namespace a2asim {
namespace {

using ReadJson = nlohmann::json;

constexpr JsonLimits kLimits{.bytes = std::size_t{64} << 20, .depth = 16, .keys = 1'000'000};
constexpr std::size_t kMostText = 4096;  // of a message

// What does not fit throws this or nlohmann's exceptions, caught in read_explore_json.
struct Unfit : std::runtime_error {
  using std::runtime_error::runtime_error;
};

void require(bool fits, const char* what) {
  if (!fits) throw Unfit(what);
}

std::int64_t count_of(const ReadJson& in, std::int64_t most = kMostCases) {
  require(in.is_number_integer() && in >= 0 && in <= most, "a count out of range");
  return in.get<std::int64_t>();
}

std::string text_of(const ReadJson& in, std::size_t most = kMostText) {
  const std::string& text = in.get_ref<const std::string&>();
  require(text.size() <= most, "a text that is too long");
  return text;
}

template <class Names>
std::size_t index_in(const Names& names, std::size_t count, const ReadJson& in) {
  for (std::size_t i = 0; i < count; ++i)
    if (names(i) == in.get_ref<const std::string&>()) return i;
  throw Unfit("an unknown name");
}

std::size_t outcome_index(const ReadJson& word) {
  return index_in([](std::size_t i) { return name(static_cast<ExploreOutcome>(i)); }, kExploreOutcomes, word);
}
std::size_t phase_index(const ReadJson& word) {
  return index_in([](std::size_t i) { return name(kExplorePhases[i]); }, kExplorePhases.size(), word);
}
std::size_t class_index(const ReadJson& word) { return index_in(class_name, kExploreClasses, word); }

const Version& version_of(const Engine& engine, const ReadJson& name) {
  for (const Version* version : engine.versions())
    if (version->name == name.get_ref<const std::string&>()) return *version;
  throw Unfit("an unknown version");
}

ExploreClass read_class(const ReadJson& in, std::int64_t space) {
  ExploreClass out;
  out.configurations = count_of(in.at("configurations"), space);
  out.refused_configurations = count_of(in.at("rejected_configurations"), out.configurations);
  if (const ReadJson& refusal = in.at("first_rejection"); !refusal.is_null()) {
    out.refusal_at = count_of(refusal.at("configuration"), space - 1);
    out.refusal = text_of(refusal.at("message"));
  }
  for (const auto& [phase, cell] : in.at("phases").items())
    for (const auto& [outcome, count] : cell.at("cases").items())
      out.cells[phase_index(phase)].cases[outcome_index(outcome)] = count_of(count);
  return out;
}

GenerationExploration read_generation(const ReadJson& in, const Engine& engine) {
  GenerationExploration out;
  out.generation = version_of(engine, in.at("generation")).name;
  out.space = count_of(in.at("space_configurations"));
  out.configurations = count_of(in.at("configurations"), out.space);
  out.cases = count_of(in.at("cases"));
  if (const ReadJson& stopped = in.at("stopped_before_configuration"); !stopped.is_null())
    out.stopped_at = count_of(stopped, out.space);
  const ReadJson& matrix = in.at("matrix");
  require(matrix.is_array() && matrix.size() == kExploreClasses, "a matrix of another size");
  for (std::size_t i = 0; i < kExploreClasses; ++i) {
    require(class_index(matrix[i].at("class")) == i, "a class out of its place");
    out.classes[i] = read_class(matrix[i], out.space);
  }
  std::int64_t left = out.cases;  // counts are below 2^53, so that none of these sums leaves int64
  for (const ExploreClass& one : out.classes)
    for (const ExploreCell& cell : one.cells) left -= cell.total();
  require(left == 0, "counts that do not add up");
  return out;
}

template <class T>
std::vector<T> list_of(const ReadJson& in, std::size_t length) {
  require(in.is_array() && in.size() == length, "lists of different lengths");
  return in.get<std::vector<T>>();
}

CheckWitness read_witness(const ReadJson& in) {
  CheckWitness out;
  const ReadJson& tokens = in.at("tokens_per_dp_rank");
  require(tokens.is_array() && !tokens.empty() && tokens.size() <= 8, "a batch of another size");
  for (const ReadJson& one : tokens) out.tokens_per_dp_rank.push_back(count_of(one, kMaxScenarioTokens));
  out.modes = list_of<std::string>(in.at("modes"), tokens.size());
  out.paths = list_of<std::string>(in.at("paths"), tokens.size());
  const ReadJson& sizes = in.at("runtime_max_tokens_per_rank");
  require(sizes.is_array() && sizes.size() == tokens.size(), "lists of different lengths");
  for (const ReadJson& r : sizes)
    out.runtime_max_tokens_per_rank.push_back(r.is_null() ? std::nullopt : std::optional(r.get<std::int64_t>()));
  return out;
}

// The scenario is written to files and run for pages, so it has to be that of its configuration, with one step.
void check_scenario(const ExploreWitness& witness, const Version& version, const std::string& own_name) {
  const Result<Scenario> scenario = parse_scenario(witness.scenario, "scenario");
  require(scenario.has_value() && to_yaml(*scenario) == witness.scenario, "a scenario that cannot be read");
  const std::vector<ExploreConfiguration> space = explore_space(version);
  require(witness.configuration < std::ssize(space), "a configuration that is none");
  Scenario expected = explore_scenario(version, space[static_cast<std::size_t>(witness.configuration)]);
  require(scenario->launch == expected.launch && scenario->env == expected.env && scenario->version == expected.version,
          "a scenario of another configuration");
  expected.name = own_name;
  expected.steps = scenario->steps;
  require(scenario->steps.size() == 1 && scenario->steps[0].repeat == 1 && to_yaml(expected) == witness.scenario &&
              scenario->steps[0].tokens == witness.finding.witness->tokens_per_dp_rank,
          "a scenario of another batch");
}

void read_finding(const ReadJson& in, const Engine& engine, ExploreReport& report) {
  const Version& version = version_of(engine, in.at("generation"));
  const auto owner = std::ranges::find(report.generations, version.name, &GenerationExploration::generation);
  require(owner != report.generations.end(), "a finding of another version");
  const std::size_t phase = phase_index(in.at("phase"));
  const std::size_t outcome = outcome_index(in.at("outcome"));
  const std::size_t own_class = class_index(in.at("class"));
  ExploreWitness witness;
  witness.configuration = count_of(in.at("configuration"), owner->space - 1);
  witness.batch = count_of(in.at("batch"));
  witness.ranks = count_of(in.at("ranks"), 8);
  witness.scenario = text_of(in.at("scenario"));
  CheckFinding& finding = witness.finding;
  const auto kind = parse_finding_kind(text_of(in.at("id")));
  require(kind.has_value(), "an unknown finding");
  finding.kind = *kind;
  finding.severity = is_error(static_cast<ExploreOutcome>(outcome)) ? Severity::error : Severity::note;
  finding.phase = kExplorePhases[phase];
  finding.message = text_of(in.at("message"));
  finding.consequence = text_of(in.at("consequence"));
  const ReadJson& why = in.at("why");
  require(why.is_array() && why.size() <= 64, "a chain that is too long");
  for (const ReadJson& link : why) finding.chain.push_back(text_of(link));
  const ReadJson& any_of = in.at("any_of");
  require(any_of.is_array() && any_of.size() <= 64, "a list of conditions that is too long");
  for (const ReadJson& one : any_of)
    finding.any_of.push_back({text_of(one.at("condition")), text_of(one.at("needed")), text_of(one.at("yours"))});
  finding.fix = text_of(in.at("fix"));
  finding.witness = read_witness(in.at("witness"));
  check_scenario(witness, version,
                 witness_name(version.name, own_class, finding.phase, static_cast<ExploreOutcome>(outcome)));
  owner->classes[own_class].cells[phase].witness[outcome] = std::move(witness);
}

ExploreReport read_report(const ReadJson& in) {
  ExploreReport report;
  require(in.at("command") == "explore", "another command's output");
  const Result<const Engine*> engine = find_engine(text_of(in.at("engine")));
  require(engine.has_value(), "an unknown engine");
  report.engine = (*engine)->name;
  if (const ReadJson& rule = in.at("rule"); !rule.is_null()) report.rule = text_of(rule);
  if (const ReadJson& answered = in.at("answered"); !answered.is_null()) report.answered = text_of(answered);
  if (const ReadJson& budget = in.at("budget_cases"); !budget.is_null()) report.budget_cases = count_of(budget);
  if (const ReadJson& shard = in.at("shard"); !shard.is_null()) {
    report.shard = Shard{0, count_of(shard.at("of"), kMostShards)};
    report.shard->index = count_of(shard.at("index"), report.shard->of - 1);
  }
  for (const ReadJson& generation : in.at("generations")) {
    report.generations.push_back(read_generation(generation, **engine));
    const std::string& name = report.generations.back().generation;
    require(std::ranges::count(report.generations, name, &GenerationExploration::generation) == 1, "a version twice");
  }
  for (const ReadJson& finding : in.at("findings")) read_finding(finding, **engine, report);
  return report;
}

}  // namespace

Result<ExploreReport> read_explore_json(const std::string& text, const std::string& file) {
  const auto refused = [&](std::string_view why) {
    return fail(ErrorKind::bad_input,
                fmt::format("'{}' was not written by `a2asim explore --format json` of this version: {}", file, why));
  };
  const Result<ReadJson> document = read_json(text, kLimits);
  if (!document) return refused(document.error().message);
  try {
    return read_report(*document);
  } catch (const Unfit& unfit) {
    return refused(unfit.what());
  } catch (const ReadJson::exception&) {
    return refused("a key is missing, or its value is of another kind");
  }
}

}  // namespace a2asim
