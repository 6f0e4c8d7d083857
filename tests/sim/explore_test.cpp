// Exploring: the space, the batches, the judgement, and what it finds in the generations whose history is known.
#include "sim/explore/explore.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "model/engines/sglang/generation.h"
#include "sim/cluster/replay.h"
#include "sim/explore/explore_batches.h"
#include "sim/explore/explore_configuration.h"
#include "sim/scenario/scenario_reader.h"

namespace a2asim {
namespace {

const Generation& generation(std::string_view name) { return *find_generation(name)->generation; }

const GenerationExploration& explored(const std::string& name) {
  static std::map<std::string, GenerationExploration> known;
  const auto place = known.find(name);
  return place != known.end() ? place->second : known.emplace(name, explore(generation(name), {})).first->second;
}

const ExploreClass& class_of(const GenerationExploration& found, std::string_view name) {
  for (std::size_t i = 0; i < kExploreClasses; ++i)
    if (class_name(i) == name) return found.classes[i];
  FAIL("no class " << std::string(name));
  return found.classes[0];
}

const ExploreCell& cell(const GenerationExploration& found, std::string_view name, Phase phase) {
  const auto at = std::ranges::find(kExplorePhases, phase) - kExplorePhases.begin();
  return class_of(found, name).cells[static_cast<std::size_t>(at)];
}

std::int64_t total(std::span<const RankBatch> batches) {
  std::int64_t sum = 0;
  for (const RankBatch& batch : batches) sum += batch.count;
  return sum;
}

RankDecision decided(std::int64_t r, std::int64_t rows) {
  RankDecision decision;
  decision.participates = true;
  decision.rows = rows;
  decision.sizing = {.runtime_max_tokens_per_rank = r, .dispatched_rows = rows};
  return decision;
}

RankDecision raised() {
  RankDecision decision = decided(0, 1);
  decision.raised = Error{ErrorKind::assertion_error, "no"};
  return decision;
}

RankDecision above_cap(std::int64_t r) {
  RankDecision decision = decided(r, 1);
  decision.exceeds_cap = true;
  return decision;
}

RankDecision leaving() {
  RankDecision decision = decided(0, 3);
  decision.sizing.branch = SizingBranch::allgather_prefill;
  return decision;
}

ExploreOutcome judged(std::vector<RankDecision> decisions) { return outcome_of(judge({.decisions = decisions})); }

TEST_CASE("explore: what becomes of a case") {
  using enum ExploreOutcome;
  CHECK(judged({decided(3, 3), decided(3, 1)}) == safe);
  CHECK(judged({decided(3, 3), decided(2, 1)}) == disagrees);
  CHECK(judged({decided(3, 3), raised()}) == disagrees);        // rank 0 waits
  CHECK(judged({decided(3, 3), above_cap(9)}) == disagrees);    // the same
  CHECK(judged({decided(3, 3), leaving()}) == disagrees);       // two collectives
  CHECK(judged({decided(3, 3), RankDecision{}}) == disagrees);  // rank 1 is absent
  CHECK(judged({raised(), raised()}) == refused);
  CHECK(judged({above_cap(9), above_cap(9)}) == over_cap);
  CHECK(judged({above_cap(9), raised()}) == over_cap);
  CHECK(judged({above_cap(9), decided(0, 1)}) == disagrees);  // the kernel refuses 0, and nobody derived one size
  CHECK(judged({decided(2, 3), decided(2, 1)}) == overflow);
  CHECK(judged({decided(12, 3), decided(12, 1)}) == wasteful);
  CHECK(judged({decided(11, 3), decided(11, 1)}) == safe);
  CHECK(judged({leaving(), leaving()}) == unused);
  CHECK(judged({RankDecision{}, RankDecision{}}) == unused);
  CHECK(is_error(disagrees));
  CHECK(is_error(overflow));
  for (const ExploreOutcome note : {unused, safe, wasteful, refused, over_cap}) CHECK_FALSE(is_error(note));
}

TEST_CASE("explore: the space is ordered by ranks, has no configuration twice, and fills every class") {
  const std::vector<ExploreConfiguration> space = explore_space(generation("pr29461"));
  std::set<std::string> seen;
  std::set<std::size_t> classes;
  std::int64_t ranks = 1;
  for (std::size_t i = 0; i < space.size(); ++i) {
    CHECK(space[i].ordinal == static_cast<std::int64_t>(i));
    CHECK(*space[i].parallel.tp_size >= ranks);
    ranks = *space[i].parallel.tp_size;
    const Scenario scenario = explore_scenario(generation("pr29461"), space[i]);
    std::string text = *scenario.launch;
    for (const auto& [name, value] : scenario.env) text += ' ' + name + '=' + value;
    seen.insert(text);
    classes.insert(space[i].exploring_class);
  }
  CHECK(seen.size() == space.size());
  std::size_t of_lanes = 0;  // of engines whose ranks choose lanes in each step
  for (std::size_t at = 0; at < kExploreClasses; ++at) of_lanes += class_name(at).ends_with("lane") ? 1U : 0U;
  CHECK(of_lanes == kExploreLayouts);
  CHECK(classes.size() == kExploreClasses - of_lanes);
  CHECK(ranks == 8);
}

TEST_CASE("explore: batches come in order of size, none twice, all small ones of up to four ranks among them") {
  const Generation& pr = generation("pr29461");
  int looked_at = 0;
  for (const ExploreConfiguration& configuration : explore_space(pr)) {
    if (configuration.ordinal % 97 != 0) continue;
    const auto deployment = explore_deployment(pr, configuration, {});
    REQUIRE(deployment);
    const ExploreBatches batches(**deployment);
    std::set<std::vector<std::pair<int, std::int64_t>>> seen;
    std::int64_t size = 1, small_decodes = 0;
    for (std::size_t i = 0; i < batches.size(); ++i) {
      CHECK(total(batches.at(i)) >= size);
      size = total(batches.at(i));
      std::vector<std::pair<int, std::int64_t>> key;
      bool small = !is_prefill(batches.at(i));
      for (const RankBatch& rank : batches.at(i)) {
        key.emplace_back(static_cast<int>(rank.mode), rank.count);
        small = small && rank.count <= 3;
      }
      seen.insert(key);
      small_decodes += small ? 1 : 0;
    }
    CHECK(seen.size() == batches.size());
    const std::int64_t ranks = (*deployment)->topology.attn_dp_size;
    if (ranks > 4 || !(*deployment)->decode_reachable || (*deployment)->requests_per_dp_rank.value < 3) continue;
    ++looked_at;
    std::int64_t all = 1;
    for (std::int64_t i = 0; i < ranks; ++i) all *= 4;
    CHECK(small_decodes == all - 1);  // the empty batch is none
  }
  CHECK(looked_at > 5);
}

TEST_CASE("explore: pr29461 replays graphs of unequal buckets: the first witness has two ranks") {
  const GenerationExploration& found = explored("pr29461");
  const ExploreWitness* first = found.first_error();
  REQUIRE(first != nullptr);
  CHECK(first->ranks == 2);
  CHECK(first->finding.kind == FindingKind::geometry_disagreement);
  CHECK(first->finding.phase == Phase::graph_decode);
  CHECK(cell(found, "collapsed", Phase::graph_decode).outcome() == ExploreOutcome::disagrees);
  CHECK(cell(found, "collapsed", Phase::eager_decode).outcome() == ExploreOutcome::wasteful);
  CHECK(cell(found, "dp_attention", Phase::graph_decode).outcome() == ExploreOutcome::safe);
}

TEST_CASE("explore: pr27945 wastes and, over the cap, overflows silently: nothing disagrees") {
  const GenerationExploration& found = explored("pr27945");
  CHECK(found.count(ExploreOutcome::wasteful) > 0);
  CHECK(cell(found, "collapsed", Phase::eager_decode).outcome() == ExploreOutcome::wasteful);
  CHECK(cell(found, "collapsed", Phase::graph_decode).outcome() == ExploreOutcome::wasteful);
  CHECK(cell(found, "collapsed", Phase::prefill).outcome() == ExploreOutcome::wasteful);
  CHECK(found.count(ExploreOutcome::disagrees) == 0);
  CHECK(cell(found, "collapsed+small_cap", Phase::eager_decode).outcome() == ExploreOutcome::overflow);
}

TEST_CASE("explore: pr30450 shows no error in its whole space") {
  const GenerationExploration& found = explored("pr30450");
  CHECK(found.first_error() == nullptr);
  CHECK(found.configurations == found.space);
  CHECK(found.cases > 100'000);
  CHECK_FALSE(found.stopped_at);
}

TEST_CASE("explore: history, generation by generation") {
  CHECK(cell(explored("pr24850"), "tensor_parallel", Phase::prefill).outcome() == ExploreOutcome::wasteful);
  CHECK(cell(explored("pr25685"), "tensor_parallel", Phase::prefill).outcome() == ExploreOutcome::safe);
  CHECK(cell(explored("pr26643"), "collapsed", Phase::eager_decode).outcome() == ExploreOutcome::disagrees);
  CHECK(class_of(explored("pr26643"), "tensor_parallel").refused_configurations ==
        class_of(explored("pr26643"), "tensor_parallel").configurations);
  CHECK(cell(explored("pr35758"), "dp_attention", Phase::prefill).outcome() == ExploreOutcome::unused);
  CHECK(explored("pr35758").first_error() == nullptr);
}

TEST_CASE("explore: counts add up") {
  for (const char* name : {"pr29461", "pr35758"}) {
    const GenerationExploration& found = explored(name);
    std::int64_t cases = 0, configurations = 0;
    for (const ExploreClass& one : found.classes) {
      configurations += one.configurations;
      for (const ExploreCell& cell : one.cells) cases += cell.total();
    }
    CHECK(cases == found.cases);
    CHECK(configurations == found.configurations);
  }
}

TEST_CASE("explore: every witness is a scenario, and replay finds what it is a witness of") {
  const auto verdict_of = [](ExploreOutcome outcome) {
    switch (outcome) {
      case ExploreOutcome::disagrees:
        return Verdict::disagrees;
      case ExploreOutcome::wasteful:
        return Verdict::agrees;
      case ExploreOutcome::refused:
        return Verdict::rejected;
      default:
        return Verdict::over_capacity;
    }
  };
  int replayed = 0;
  for (const char* name : {"pr26643", "pr27945", "pr29461", "pr35758"}) {
    const GenerationExploration& found = explored(name);
    for (const ExploreClass& one : found.classes)
      for (const ExploreCell& cell : one.cells)
        for (std::size_t outcome = 0; outcome < kExploreOutcomes; ++outcome) {
          if (!cell.witness[outcome]) continue;
          const Result<Scenario> scenario = parse_scenario(cell.witness[outcome]->scenario, "witness");
          REQUIRE(scenario);
          ReplayOptions options;
          options.fidelity = Fidelity::geometry;
          const Result<ReplayReport> report = replay(*scenario, "witness", options);
          REQUIRE_MESSAGE(report.has_value(), scenario->name);
          CHECK_MESSAGE(report->verdict == verdict_of(static_cast<ExploreOutcome>(outcome)), scenario->name);
          ++replayed;
        }
  }
  CHECK(replayed > 40);
}

// Everything that a report is made of.
std::string fingerprint(const GenerationExploration& found) {
  std::string out = found.generation + ' ' + std::to_string(found.configurations) + ' ' + std::to_string(found.cases);
  for (const ExploreClass& one : found.classes) {
    out += '\n' + std::to_string(one.configurations) + ' ' + std::to_string(one.refused_configurations) + ' ' +
           std::to_string(one.refusal_at) + one.refusal;
    for (const ExploreCell& cell : one.cells)
      for (std::size_t outcome = 0; outcome < kExploreOutcomes; ++outcome) {
        out += ' ' + std::to_string(cell.cases[outcome]);
        if (const auto& witness = cell.witness[outcome])
          out += '@' + std::to_string(witness->configuration) + '.' + std::to_string(witness->batch) +
                 witness->finding.message + witness->scenario;
      }
  }
  return out;
}

TEST_CASE("explore: the result does not depend on the number of threads") {
  ExploreOptions options;
  options.threads = 5;
  CHECK(fingerprint(explore(generation("pr29461"), options)) == fingerprint(explored("pr29461")));
}

TEST_CASE("explore: shards add up to the whole, with a budget too") {
  for (const std::optional<std::int64_t> budget :
       {std::optional<std::int64_t>(), std::optional<std::int64_t>(20'001)}) {
    ExploreOptions options;
    options.budget_cases = budget;
    const GenerationExploration whole = explore(generation("pr29461"), options);
    if (budget) CHECK(whole.cases == *budget);
    options.shards = 3;
    std::optional<GenerationExploration> sum;
    for (const std::int64_t shard : {2, 0, 1}) {
      options.shard = shard;
      const GenerationExploration part = explore(generation("pr29461"), options);
      CHECK(part.cases < whole.cases);
      if (sum)
        REQUIRE(add(*sum, part));
      else
        sum = part;
    }
    CHECK(fingerprint(*sum) == fingerprint(whole));
  }
  GenerationExploration other = explored("pr30450");
  CHECK_FALSE(add(other, explored("pr29461")));
}

TEST_CASE("explore: a stop from outside keeps the prefix and says where") {
  ExploreOptions options;
  options.on_progress = [](std::int64_t done, std::int64_t) { return done < 100; };
  const GenerationExploration found = explore(generation("pr29461"), options);
  REQUIRE(found.stopped_at);
  CHECK(*found.stopped_at == found.configurations);
  CHECK(found.configurations >= 100);
  CHECK(found.configurations < 200);
}

TEST_CASE("explore: a rule of one's own is judged by itself") {
  ExploreOptions options;
  options.budget_cases = 60'000;
  options.rule = sizing_pr29461;
  CHECK(explore(generation("pr29461"), options).first_error() != nullptr);
  options.rule = [](const RankView& view) -> Result<SizingDecision> {
    return SizingDecision{.runtime_max_tokens_per_rank = view.ep_rank == 1 ? 63 : 64};
  };
  const GenerationExploration unequal = explore(generation("pr30450"), options);
  REQUIRE(unequal.first_error() != nullptr);
  CHECK(unequal.first_error()->finding.kind == FindingKind::geometry_disagreement);
  options.rule = [](const RankView& view) -> Result<SizingDecision> {
    return SizingDecision{.runtime_max_tokens_per_rank = view.max_num_tokens};
  };
  CHECK(explore(generation("pr29461"), options).count(ExploreOutcome::disagrees) == 0);
  options.rule = [](const RankView&) -> Result<SizingDecision> { return fail(ErrorKind::assertion_error, "never"); };
  const GenerationExploration never = explore(generation("pr30450"), options);
  CHECK(never.first_error() == nullptr);
}

}  // namespace
}  // namespace a2asim
