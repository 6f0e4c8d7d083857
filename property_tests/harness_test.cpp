// The harness itself: what generators draw, how worlds shrink, that a law can fail, and which rare branches a run
// reaches.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <filesystem>

#include "model/engines/sglang/generation.h"
#include "property_tests/law_cases.h"
#include "property_tests/run.h"
#include "sim/scenario/scenario_reader.h"
#include "sim/scenario/scenario_writer.h"

namespace a2asim::props {
namespace {

std::int64_t count_starts(Shares& shares, std::string_view generation) {
  std::int64_t starts = 0;
  Workbench bench;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    RandomChoice choose(seed);
    const Scenario world = draw_world(choose, random_space(), generation);
    REQUIRE_MESSAGE(broken_invariant(world).empty(), broken_invariant(world));
    shares.count(world);
    starts += bench.deployment(world) != nullptr ? 1 : 0;
  }
  return starts;
}

}  // namespace

TEST_CASE("every law has its cases") {
  REQUIRE(laws().size() == std::size(kLawNames));
  for (std::size_t at = 0; at < laws().size(); ++at) CHECK(laws()[at].name == kLawNames[at]);
}

TEST_CASE("generators: worlds are valid and idle and unequal and at edges as often as they should") {
  for (const Generation& generation : generations()) {
    CAPTURE(generation.name);
    Shares shares;
    const std::int64_t starts = count_starts(shares, generation.name);
    fmt::print("{}: {} of 1000 start; {}\n", generation.name, starts, text(shares));
    CHECK(starts > 400);
    CHECK(shares.idle > 400);
    CHECK(shares.unequal > 500);
    CHECK(shares.at_edge > 400);
    CHECK(shares.remainder > 100);
    CHECK(shares.several_steps > 500);
    CHECK(shares.graphs > 350);
    CHECK(shares.must_replay > 50);
    CHECK(shares.mixed > 100);
    CHECK(shares.draft_extend > 30);
    CHECK(shares.named_idle > 150);
  }
}

TEST_CASE("generators: every backend of fixed capacity and every kind of fault is drawn and read back") {
  std::map<std::string, int> backends;
  std::map<FaultKind, int> faults;
  std::map<ForwardMode, int> modes;
  std::map<std::int64_t, int> payloads;
  std::map<std::string, int> counts;
  int several = 0, of_all = 0;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    RandomChoice choose(seed), again(seed);
    ++backends[*draw_world(choose, random_space_of_backends(), "pr30450").parallel->moe_a2a_backend];
    const Scenario world = draw_world(again, random_space_with_faults(), "pr30450");
    REQUIRE(broken_invariant(world).empty());
    several += world.faults.size() > 1 ? 1 : 0;
    for (const Fault& fault : world.faults) {
      ++faults[fault.kind];
      of_all += fault.rank ? 0 : 1;
      if (fault.kind == FaultKind::wrong_mode) ++modes[fault.mode];
      if (fault.kind == FaultKind::payload_bytes) ++payloads[fault.payload];
      if (fault.kind == FaultKind::corrupt_count)
        ++counts[fault.value == 0                  ? "none"
                 : fault.value <= 64               ? "some"
                 : fault.value < kMaxScenarioCount ? "many"
                                                   : "most"];
    }
    const auto read = parse_scenario(to_yaml(world), "world");
    REQUIRE_MESSAGE(read.has_value(), read.error().message);
    CHECK(*read == world);
  }
  CHECK(backends.size() == 5);
  CHECK(faults.size() == fault_kinds().size());
  for (const auto& [kind, times] : faults) CHECK(times > 20);
  CHECK(modes.size() == step_modes().size());
  CHECK(payloads.size() == kScenarioPayloads - 1);  // nothing drawn here is quantised
  CHECK(counts.size() == 4);
  CHECK(several > 500);
  CHECK(of_all > 20);
}

TEST_CASE("generators: every value of the model, the routing and the cap is drawn often enough") {
  std::map<std::int64_t, int> layers, hidden, top_k, caps, hot_ranks;
  std::map<DataType, int> types;
  std::map<Routing::Kind, int> routings;
  for (std::uint64_t seed = 0; seed < 1000; ++seed) {
    RandomChoice choose(seed);
    const Scenario world = draw_world(choose, random_space(), "pr30450");
    ++layers[world.model.layers];
    ++hidden[world.model.hidden_size];
    ++top_k[world.model.top_k];
    ++types[world.model.dtype];
    ++caps[*world.parallel->max_num_tokens];
    ++routings[world.routing.kind];
    if (world.routing.kind == Routing::Kind::hot_rank) ++hot_ranks[world.routing.rank];
  }
  // As many values as the space has, the rarest in so many of 1000 worlds.
  const auto drawn = [](const auto& values, std::size_t number, int rarest) {
    CHECK(values.size() == number);
    for (const auto& [value, times] : values) CHECK(times >= rarest);
  };
  drawn(layers, 2, 400);
  drawn(hidden, 4, 200);
  drawn(types, 3, 250);
  drawn(caps, 3, 150);
  CHECK(caps[64] > 500);
  drawn(routings, 3, 250);
  drawn(hot_ranks, 8, 1);
  drawn(top_k, 4, 60);
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

// In a process of its own: the law ends it.
std::string last_words_of(const Law& law, bool random) {
  std::array<int, 2> ends;
  REQUIRE(pipe(ends.data()) == 0);
  const pid_t child = fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    dup2(ends[1], STDERR_FILENO);
    Marks marks;
    if (random)
      run_random(law, "pr30450", RunParams{}, marks);
    else
      run_exhaustive(law, small_space(), "pr30450", marks);
    _exit(0);
  }
  close(ends[1]);
  std::string text;
  std::array<char, 4096> part;
  for (ssize_t n = 0; (n = read(ends[0], part.data(), part.size())) > 0;)
    text.append(part.data(), static_cast<std::size_t>(n));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  CHECK(WIFSIGNALED(status));
  return text;
}

TEST_CASE("random: a law that dies tells of its world") {
  std::filesystem::remove("property_failures/dying-canary-pr30450.yaml");
  const std::string text = last_words_of(dying_law(), true);
  CAPTURE(text);
  CHECK(text.find("internal error: no step has three tokens") != std::string::npos);
  CHECK(text.find("seed 30242, drawn:\nname: world\n") != std::string::npos);
  CHECK(text.find("the law ended with signal 6") != std::string::npos);
  CHECK(
      text.ends_with("reproduce: RC_PARAMS=\"seed=30242 max_success=100\" property_tests "
                     "--test-case=\"random: dying canary\"\n"));
  const auto read = load_scenario("property_failures/dying-canary-pr30450.yaml");
  REQUIRE(read.has_value());
  CHECK(text.find(to_yaml(*read)) != std::string::npos);
  CHECK(last_words_of(dying_law(), false).ends_with("--test-case=\"exhaustive: dying canary\"\n"));
}

TEST_CASE("random: a law that throws has failed") {
  Marks marks;
  const RunResult result = run_random(throwing_law(), "pr30450", RunParams{}, marks);
  REQUIRE(result.failure.has_value());
  CHECK(result.failure->why == "the law throws: three tokens");
}

}  // namespace a2asim::props
