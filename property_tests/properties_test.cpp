// Every law over random worlds of every generation: those that must keep it do, those that are known to break it are
// found to. Each run must have drawn what it is about, and reached its rare branches.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <cstdlib>

#include "property_tests/law_cases.h"
#include "property_tests/outside.h"
#include "property_tests/run.h"

namespace a2asim::props {
namespace {

// Known failures may hide in a corner: they get more worlds.
constexpr int kPatience = 20;
constexpr int kShareOfOthers = 4;

RunParams params_or_fail() {
  const RunParams params = run_params(std::getenv("RC_PARAMS"));
  if (!params.wrong.empty()) FAIL(params.wrong);
  return params;
}

Shares judge(const Law& law, std::string_view generation, const RunParams& params, Marks& marks) {
  const bool must_fail = must_break(law, generation);
  RunParams own = params;
  if (!is_of_first_engine(version_named(generation)))  // many versions have one rule
    own.max_success = std::max(own.max_success / kShareOfOthers, 1);
  if (must_fail) own.max_success *= kPatience;
  const RunResult result = run_random(law, generation, own, marks);
  if (must_fail) {
    CHECK_MESSAGE(result.failure.has_value(), "the known failure of ", generation,
                  " is not found any more: ", law.says);
    if (result.failure)
      fmt::print("  {} breaks it, found in case {}: {}\n", generation, result.failure->cases, result.failure->why);
  } else if (result.failure) {
    FAIL_CHECK(report(law, "random", generation, *result.failure, params));
  }
  return result.shares;
}

// A run shorter than usual may miss what is rare.
bool is_whole(const RunParams& params) { return params.max_success >= RunParams{}.max_success; }

void check_shares(const Shares& shares) {
  fmt::print("  {}\n", text(shares));
  if (shares.worlds < 300) return;  // of laws that most generations break soon
  CHECK(shares.idle * 10 > shares.worlds * 4);
  CHECK(shares.unequal * 10 > shares.worlds * 5);
  CHECK(shares.at_edge * 10 > shares.worlds * 4);
}

// Each was a place where somebody's change went wrong, or one that a change of the generators could miss unseen.
void check_marks(const Law& law, const Marks& marks) {
  for (const auto& [name, times] : marks) fmt::print("  {:6} {}\n", times, name);
  for (const std::string_view name : law.reaches) {
    CAPTURE(name);
    CHECK(marks.contains(name));
  }
}

void judge_all(std::string_view name) {
  const RunParams params = params_or_fail();
  const Law& own = law(name);
  fmt::print("{}: {}. seed {}, {} worlds a generation\n", own.name, own.says, params.seed, params.max_success);
  Marks marks;
  Shares shares;
  std::string skipped;
  for (const Version* version : judged_versions()) {
    const std::string_view why = why_skipped(own, *version);
    if (why.empty())
      shares.add(judge(own, version->name, params, marks));
    else if (skipped != engine_of(*version).title)
      fmt::print("  {}: skipped: {}\n", skipped = engine_of(*version).title, why);
  }
  if (outside() != nullptr) {
    const Result<void> answered = outside()->finish();
    REQUIRE_MESSAGE(answered.has_value(), (answered ? "" : answered.error().message));
    return;  // what one version reaches is no measure
  }
  if (!is_whole(params)) return;
  check_shares(shares);
  check_marks(own, marks);
}

LAW_CASES("random: ", judge_all);

}  // namespace

}  // namespace a2asim::props
