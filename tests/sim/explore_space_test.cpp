// The space that explore goes through: classes, order and the adding up of shards.
#include "sim/explore/explore_space.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <set>

#include "model/step/engine.h"
#include "sim/explore/explore.h"
#include "sim/scenario/scenario_reader.h"

namespace a2asim {
namespace {

TEST_CASE("explore space: every class has a name of its layout and of its one aggravation") {
  CHECK(class_name(0) == "one_rank");
  CHECK(class_name(kExploreExtras) == "tensor_parallel");
  CHECK(class_name(2 * kExploreExtras) == "dp_attention");
  CHECK(class_name(4 * kExploreExtras + 1) == "collapsed+speculative");
  CHECK(class_name(4 * kExploreExtras + 2) == "collapsed+small_cap");
  std::set<std::string> all;
  for (std::size_t one = 0; one < kExploreClasses; ++one) all.insert(class_name(one));
  CHECK(all.size() == 30);
}

TEST_CASE("explore space: of each engine the number of ranks decides the layout, and ordinals count on") {
  for (const Engine* engine : engines()) {
    CAPTURE(engine->title);
    const auto version = engine->find_version("newest");
    REQUIRE(version.has_value());
    const std::vector<ExploreConfiguration> space = explore_space(*version->version);
    REQUIRE_FALSE(space.empty());
    std::int64_t ordinal = 0, ranks = 1;
    for (const ExploreConfiguration& one : space) {
      CHECK(one.ordinal == ordinal++);
      REQUIRE(one.exploring_class < kExploreClasses);
      const std::int64_t tp_size = one.parallel.tp_size.value_or(1);
      CHECK(tp_size >= ranks);  // ordered by ranks
      ranks = tp_size;
      const auto layout = static_cast<ExploreLayout>(one.exploring_class / kExploreExtras);
      CHECK((layout == ExploreLayout::one_rank) == (tp_size == 1));
      if (one.launch && tp_size > 1) CHECK(layout == ExploreLayout::dp_attention);
    }
    CHECK(space.front().exploring_class == 0);
  }
}

TEST_CASE("explore: shards add up, and refuse what is of another space or too much") {
  GenerationExploration into, part;
  into.generation = part.generation = "pr1";
  into.space = part.space = 9;
  into.configurations = 2;
  into.cases = 30;
  part.configurations = 3;
  part.cases = 5;
  part.stopped_at = 7;
  REQUIRE(add(into, part).has_value());
  CHECK(into.configurations == 5);
  CHECK(into.cases == 35);
  CHECK(into.stopped_at == 7);
  part.stopped_at = 4;
  REQUIRE(add(into, part).has_value());
  CHECK(into.stopped_at == 4);
  part.stopped_at.reset();
  REQUIRE(add(into, part).has_value());
  CHECK(into.stopped_at == 4);
  CHECK(into.cases == 45);
  const auto refused = [&](const GenerationExploration& other) {
    const auto ok = add(into, other);
    CHECK(into.cases == 45);
    return ok ? "" : ok.error().message;
  };
  GenerationExploration other = part;
  other.space = 8;
  CHECK(refused(other) == "pr1 with 8 configurations does not fit to pr1 with 9");
  other = part;
  other.generation = "pr2";
  CHECK(refused(other) == "pr2 with 9 configurations does not fit to pr1 with 9");
  other = part;
  other.cases = kMostCases - 44;
  CHECK(refused(other) == "more than 9007199254740992 cases");
  other = part;
  other.configurations = kMostCases - into.configurations + 1;
  CHECK(refused(other) == "more than 9007199254740992 cases");
  other.configurations = 0;
  other.cases = kMostCases - 45;
  CHECK(add(into, other).has_value());
  CHECK(into.cases == kMostCases);
  CHECK(ExploreOptions{}.threads == 1);
  CHECK(ExploreOptions{}.shards == 1);
}

TEST_CASE("scenario: expectations by version, and brackets behind quoted line breaks, are refused where they stand") {
  const auto refusal = [](const std::string& more) {
    const auto read = parse_scenario(
        "name: t\nparallel: {tp_size: 4, dp_size: 4, enable_dp_attention: true}\n"
        "model: {num_experts: 8, top_k: 2, hidden_size: 64}\nsteps: [{mode: decode, tokens: [1, 1, 1, 1]}]\n" +
            more,
        "t.yaml");
    return read ? "" : read.error().message;
  };
  CHECK(refusal("expect_by_generation: {pr30450: {verdict: agrees}}\n").empty());
  CHECK(refusal("expect_by_generation: [pr30450]\n") ==
        "t.yaml:5:23: expect_by_generation is no mapping; give GENERATION: {verdict: ..} pairs");
  CHECK(refusal("expect_by_generation: {\"a b\": {verdict: agrees}}\n") ==
        "t.yaml:5:24: \"a b\" is no generation; name a PR, a release or a date");
  const auto open = parse_scenario("{\"name\": \"x\n y\", \"steps\": [\n", "t.yaml");
  REQUIRE_FALSE(open.has_value());
  CHECK(open.error().message ==
        "t.yaml:2:15: the bracket that opens here is not closed; close it, or complete the text");
}

}  // namespace
}  // namespace a2asim
