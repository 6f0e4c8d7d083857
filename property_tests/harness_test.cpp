// The harness itself: what generators draw, how worlds shrink, that a law can fail, and which rare branches a run reaches.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <fstream>

#include "model/generation.h"
#include "property_tests/run.h"
#include "sim/scenario_reader.h"
#include "sim/scenario_writer.h"

namespace a2asim::props {
namespace {

// Parts of a thousand.
struct Shares {
  std::int64_t starts = 0, idle = 0, unequal = 0, at_edge = 0, remainder = 0, several_steps = 0, graphs = 0;
};

bool is_at_edge(const Scenario& world) {
  for (const Step& step : world.steps)
    for (std::size_t rank = 0; rank < step.tokens.size(); ++rank) {
      const std::int64_t count = step.tokens[rank];
      for (const std::int64_t bs : world.parallel->cuda_graph_bs)
        if (count == bs || count == bs + 1) return true;
      if (count > 0 && count == limit_of(world, step.mode_of(rank))) return true;
    }
  return false;
}

bool any_step(const Scenario& world, bool (*test)(const std::vector<std::int64_t>&)) {
  return std::ranges::any_of(world.steps, [&](const Step& step) { return test(step.tokens); });
}

Shares draw_shares(const Space& space, std::string_view generation) {
  Shares shares;
  Workbench bench;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    RandomChoice choose(seed);
    const Scenario world = draw_world(choose, space, generation);
    REQUIRE_MESSAGE(broken_invariant(world).empty(), broken_invariant(world));
    shares.starts += bench.deployment(world) != nullptr ? 1 : 0;
    shares.at_edge += is_at_edge(world) ? 1 : 0;
    shares.remainder += world.model.num_experts % world.parallel->world_size() != 0 ? 1 : 0;
    shares.several_steps += world.steps.size() > 1 ? 1 : 0;
    shares.graphs += world.parallel->cuda_graph_bs.empty() ? 0 : 1;
    shares.idle += any_step(world, [](const std::vector<std::int64_t>& tokens) {
      return std::ranges::count(tokens, 0) > 0 && std::ranges::count(tokens, 0) < std::ssize(tokens);
    }) ? 1 : 0;
    shares.unequal += any_step(world, [](const std::vector<std::int64_t>& tokens) {
      return std::ranges::any_of(tokens, [&](std::int64_t count) { return count != tokens.front(); });
    }) ? 1 : 0;
  }
  return shares;
}

}  // namespace

TEST_CASE("generators: worlds are valid and idle and unequal and at edges as often as they should") {
  for (const Generation& generation : generations()) {
    CAPTURE(generation.name);
    const Shares shares = draw_shares(random_space(), generation.name);
    fmt::print("{}: of 1000 worlds {} start, {} have idle ranks, {} unequal ones, {} stand at an edge, {} have a remainder "
               "of experts, {} several steps, {} graphs\n",
               generation.name, shares.starts, shares.idle, shares.unequal, shares.at_edge, shares.remainder,
               shares.several_steps, shares.graphs);
    CHECK(shares.starts > 400);
    CHECK(shares.idle > 400);
    CHECK(shares.unequal > 500);
    CHECK(shares.at_edge > 400);
    CHECK(shares.remainder > 100);
    CHECK(shares.several_steps > 500);
    CHECK(shares.graphs > 350);
  }
}

TEST_CASE("generators: every backend of fixed capacity and every kind of fault is drawn and read back") {
  std::map<std::string, int> backends;
  std::map<FaultKind, int> faults;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    RandomChoice choose(seed), again(seed);
    ++backends[*draw_world(choose, random_space_of_backends(), "pr30450").parallel->moe_a2a_backend];
    const Scenario world = draw_world(again, random_space_with_faults(), "pr30450");
    REQUIRE(broken_invariant(world).empty());
    ++faults[world.faults.front().kind];
    const auto read = parse_scenario(to_yaml(world), "world");
    REQUIRE_MESSAGE(read.has_value(), read.error().message);
    CHECK(*read == world);
  }
  CHECK(backends.size() == 5);
  CHECK(faults.size() == fault_kinds().size());
  for (const auto& [kind, times] : faults) CHECK(times > 20);
}

TEST_CASE("shrinking: every smaller world is valid and smaller: it ends") {
  std::int64_t candidates = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    RandomChoice choose(seed);
    Scenario world = draw_world(choose, random_space_with_faults(), "pr29461");
    while (true) {  // always the last one: the most timid path
      const std::vector<Scenario> smaller = smaller_worlds(world);
      for (const Scenario& one : smaller) {
        REQUIRE_MESSAGE(broken_invariant(one).empty(), broken_invariant(one));
        REQUIRE(size_of(one) < size_of(world));
        ++candidates;
      }
      if (smaller.empty()) break;
      world = smaller.back();
    }
    CHECK(world.parallel->world_size() <= 2);
  }
  CHECK(candidates > 10'000);
}

// A law that no world keeps: it fails, is shrunk to a smallest world, and its report can be replayed.
TEST_CASE("random: canary") {
  Marks marks;
  const RunParams params;
  const RunResult result = run_random(canary_law(), "pr30450", params, marks);
  REQUIRE(result.failure.has_value());
  const Scenario& smallest = result.failure->smallest;
  CHECK(smallest.parallel->world_size() == 1);
  CHECK(smallest.steps.size() == 1);
  std::int64_t tokens = 0;
  for (const std::int64_t count : smallest.steps[0].tokens) tokens += count;
  CHECK(tokens == 3);
  const std::string text = report(canary_law(), "random", "pr30450", *result.failure, params);
  CHECK(text.find("seed 30242, drawn:\nname: world\n") != std::string::npos);
  const std::string last = text.substr(text.rfind('\n') + 1);
  CHECK(last == "reproduce: RC_PARAMS=\"seed=30242 max_success=100\" property_tests --test-case=\"random: canary\"");
  const auto read = load_scenario("property_failures/canary-pr30450.yaml");
  REQUIRE(read.has_value());
  CHECK(*read == smallest);
}

TEST_CASE("the smallest witness of #29461 has two ranks and one step") {
  Marks marks;
  const RunResult result = run_random(law("agreement"), "pr29461", RunParams{}, marks);
  REQUIRE(result.failure.has_value());
  const Scenario& smallest = result.failure->smallest;
  CHECK(smallest.parallel->world_size() == 2);
  CHECK(smallest.steps.size() == 1);
  CHECK(result.failure->why.find("ranks differ: R [") != std::string::npos);
}

TEST_CASE("RC_PARAMS: what it means and what is refused") {
  CHECK(run_params(nullptr).wrong.empty());
  CHECK(run_params("").seed == 30242);
  CHECK(run_params("seed=7 max_success=12").seed == 7);
  CHECK(run_params("seed=7 max_success=12").max_success == 12);
  CHECK(run_params("max_success=12").seed == 30242);
  for (const char* bad : {"seed", "seed=x", "sed=7", "seed=-1", "seed=7,max_success=3", "max_size=3", "\"seed=7"}) {
    CAPTURE(bad);
    CHECK(run_params(bad).wrong.find("RC_PARAMS=") == 0);
  }
}

// Each was a place where somebody's change went wrong, or one that a change of the generators could miss unseen.
TEST_CASE("marks: the rare branches are reached") {
  Marks marks;
  RunParams params;
  params.max_success = 250;
  for (const Generation& generation : generations())
    for (const char* name : {"idle ranks", "sound check", "static caps", "fidelities", "causes", "conservation", "texts"})
      run_random(law(name), generation.name, params, marks);
  for (const auto& [name, times] : marks) fmt::print("{:6} {}\n", times, name);
  for (const char* name :
       {"max over the gathered token counts", "max over the gathered token counts, divided by attn_tp_size",
        "the static cap max_num_tokens", "this rank's own rows", "no all-to-all: all-gatherv and reduce-scatterv",
        "dummy token", "the cap refuses", "SUM_LEN keeps counts apart", "MAX_LEN evens counts out",
        "idle rank replays padding", "idle rank runs eagerly", "bucket pads", "above the largest bucket",
        "at the largest bucket", "the engine does not start", "check: agrees", "check: disagrees", "check: over capacity",
        "check: rejected", "a static cap is exceeded", "row: misplaced", "row: stale", "row: unwritten", "row: torn",
        "row: expert_id_out_of_range", "nan_output", "wrong_output", "receive overflow runs on",
        "some ranks refuse, their peers wait", "prefill is gathered", "a fault reaches the outputs",
        "a fault stops the run", "rows to experts with a remainder", "a damaged scenario is read",
        "a damaged scenario is refused", "a damaged command is read", "a damaged command is refused"}) {
    CAPTURE(name);
    CHECK(marks.contains(name));
  }
}

}  // namespace a2asim::props
