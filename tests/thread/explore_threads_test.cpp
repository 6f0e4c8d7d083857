// Exploring with many threads, for the thread sanitizer: blocks, merging, progress, and one rule asked by all.
#include <doctest/doctest.h>

#include "model/engines/sglang/generation.h"
#include "sim/explore/explore.h"
#include "tools/program/engine_process.h"

namespace a2asim {
namespace {

constexpr std::int64_t kCases = 20'000;

TEST_CASE("threads share the work of exploring and one external rule") {
  const Generation& generation = *find_generation("pr29461")->generation;
  const auto process = EngineProcess::start_rule(
      "sh -c 'id=0; while read -r x; do echo \"{\\\"id\\\": $id, \\\"runtime_max_tokens_per_rank\\\": 64}\"; "
      "id=$((id + 1)); done'");
  REQUIRE(process);
  for (const bool external : {false, true}) {
    ExploreOptions options;
    options.budget_cases = kCases;
    if (external) options.rule = (*process)->rule();
    std::int64_t calls = 0;
    options.on_progress = [&](std::int64_t, std::int64_t) { return ++calls > 0; };
    options.threads = 8;
    const GenerationExploration many = explore(generation, options);
    options.threads = 1;
    const GenerationExploration one = explore(generation, options);
    CHECK(many.cases == kCases);
    for (std::size_t outcome = 0; outcome < kExploreOutcomes; ++outcome)
      CHECK(many.count(static_cast<ExploreOutcome>(outcome)) == one.count(static_cast<ExploreOutcome>(outcome)));
    CHECK((many.first_error() == nullptr) == external);  // 64 everywhere: nothing disagrees
    CHECK(calls > 0);
  }
  CHECK((*process)->finish());
}

}  // namespace
}  // namespace a2asim
