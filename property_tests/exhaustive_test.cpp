// The exhaustive twin: the same bodies over every small world (at most 4 ranks, 6 experts, 3 tokens a rank, top_k 2),
// in every phase, for every generation; the walk finds the known failures too. And every routing of the smallest ones.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>

#include "property_tests/law_cases.h"
#include "property_tests/laws_alltoall.h"
#include "property_tests/outside.h"
#include "property_tests/run.h"

namespace a2asim::props {
namespace {

// Versions of other engines, of which there are many with one rule, walk pairs of ranks.
std::vector<Space> spaces_of(const Law& law, const Version& version) {
  std::vector<Space> out;
  for (Space (*const space)() : law.exhaustive)
    if (is_of_first_engine(version)) out.push_back(space());
  if (!out.empty()) return out;
  const Space first = law.exhaustive.front()();
  out.push_back(first.faults > 0 ? first : small_pairs());
  return out;
}

// A cluster costs more than a decision: of other engines the newest version is walked, the random run has all.
bool walks_all(const Law& law, const Version& version) {
  constexpr std::string_view kDecisions[] = {"agreement",      "exact fit",        "no waste",   "idle ranks",
                                             "permuted ranks", "shared decisions", "sound check"};
  return law.asks_generation &&
         (is_of_first_engine(version) || std::ranges::find(kDecisions, law.name) != std::end(kDecisions));
}

void walk(std::string_view name) {
  const Law& own = law(name);
  REQUIRE(!own.exhaustive.empty());
  const auto all = judged_versions();
  for (const Version* version : all) {
    const Version& generation = *version;
    if (!why_skipped(own, generation).empty()) continue;  // the random run says why
    const bool is_last = version == engine_of(generation).versions().back() || all.size() == 1;
    if (!walks_all(own, generation) && !is_last) continue;
    bool fails = false;
    std::int64_t cases = 0;
    for (const Space& space : spaces_of(own, generation)) {
      Marks marks;
      const RunResult result = run_exhaustive(own, space, generation.name, marks);
      cases += result.cases;
      if (!result.failure) continue;
      fails = true;
      if (!must_break(own, generation.name))
        FAIL_CHECK(report(own, "exhaustive", generation.name, *result.failure, {}));
    }
    // A failure that needs more than pairs of ranks is found by the random run.
    const bool must = must_break(own, generation.name) && is_of_first_engine(generation);
    CHECK_MESSAGE((fails || !must), generation.name, ": ", own.says);
    fmt::print("{}: {} {} {} worlds\n", own.name, generation.name,
               fails ? "breaks it, found within" : "keeps it in all", cases);
    REQUIRE(cases > 0);
  }
}

// All assignments of experts to the tokens of one round.
Round walk_round(ChoiceSource& choose, const AllToAllConfig& config) {
  Random values(7);
  Round round;
  for (int rank = 0; rank < config.ep_size; ++rank) {
    TokenBatch batch(config, {.hidden_payload = 0, .weight_payload = 2}, choose.between(0, config.max_num_tokens),
                     RoutingPattern::distinct, values);
    std::vector<std::int32_t> ids = batch.expert_ids();
    for (std::int32_t& id : ids) id = static_cast<std::int32_t>(choose.between(0, config.num_experts - 1));
    round.push_back({std::move(batch), std::move(ids)});
  }
  return round;
}

AllToAllConfig small_config(int ranks, std::int64_t experts, int top_k, std::int64_t tokens) {
  AllToAllConfig config;
  config.ep_size = ranks;
  config.num_experts = experts;
  config.top_k = top_k;
  config.max_num_tokens = tokens;
  config.hidden_size = 2;
  config.payload_bytes_per_token = {config.combine_bytes_per_token(), 4 * top_k, 4 * top_k};
  return config;
}

std::int64_t walk_routings(const AllToAllConfig& config) {
  ExhaustiveChoice choose;
  std::int64_t cases = 0;
  do {
    const std::string wrong = judge_rounds({}, config, {walk_round(choose, config)});
    REQUIRE_MESSAGE(wrong.empty(), wrong);
    ++cases;
  } while (choose.next());
  return cases;
}

LAW_CASES("exhaustive: ", walk);

}  // namespace

TEST_CASE("exhaustive: every routing of the smallest worlds") {
  std::int64_t cases = walk_routings(small_config(2, 3, 2, 2));
  cases += walk_routings(small_config(3, 4, 1, 2));
  cases += walk_routings(small_config(2, 6, 2, 1));
  cases += walk_routings(small_config(1, 3, 2, 2));
  cases += walk_routings(small_config(4, 6, 1, 1));
  fmt::print("conservation: {} routings\n", cases);
  CHECK(cases > 10'000);
}

// The walk meets every choice once, and a law can fail in it.
TEST_CASE("exhaustive: canary") {
  ExhaustiveChoice choose;
  std::vector<std::int64_t> seen;
  do {
    const std::int64_t first = choose.between(0, 2);
    seen.push_back(10 * first + (first == 1 ? choose.between(4, 5) : 0));
  } while (choose.next());
  CHECK((seen == std::vector<std::int64_t>{0, 14, 15, 20}));
  Marks marks;
  CHECK(run_exhaustive(canary_law(), small_space(), "pr30450", marks).failure.has_value());
}

}  // namespace a2asim::props
