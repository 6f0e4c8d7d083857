// The only translation unit that includes rapidcheck: it costs seconds to compile.
#include "property_tests/run.h"

#include <fmt/format.h>
#include <rapidcheck.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <regex>
#include <unordered_map>

#include "property_tests/last_words.h"
#include "property_tests/outside.h"
#include "sim/scenario/scenario_writer.h"

namespace a2asim {
// How rapidcheck shows a world.
inline void showValue(const Scenario& world, std::ostream& out) { out << to_yaml(world); }
}  // namespace a2asim

namespace a2asim::props {
namespace {

rc::Gen<Scenario> worlds(const Space& space, std::string_view generation) {
  return rc::Gen<Scenario>([space, generation](const rc::Random& random, int) {
    rc::Random copy = random;
    RandomChoice choose(copy.next());
    return rc::shrinkable::shrinkRecur(draw_world(choose, space, generation), [](const Scenario& world) {
      return rc::seq::fromContainer(smaller_worlds(world));
    });
  });
}

// Its default listener tells of every failure, also of those that are wanted, with a seed of its own.
struct SilentListener final : rc::detail::TestListener {
  void onTestCaseFinished(const rc::detail::CaseDescription&) override {}
  void onShrinkTried(const rc::detail::CaseDescription&, bool) override {}
  void onTestFinished(const rc::detail::TestMetadata&, const rc::detail::TestResult&) override {}
};

// rapidcheck writes what it found as text; the values are kept here.
struct Watch {
  std::int64_t cases = 0;
  Shares shares;
  std::optional<Failure> failure;

  void failed(const Scenario& world, std::string why) {
    if (!failure) failure = Failure{cases, world, world, why};
    // rapidcheck goes on from the last world that failed, so this is the smallest so far.
    failure->smallest = world;
    failure->why = std::move(why);
  }
};

// A law that throws has failed; one that dies is told of by LastWords.
std::string judged(const Law& law, const Scenario& world, std::int64_t number, Trial& trial, LastWords& words) {
  std::string why;
  words.trying(&world, number);
  try {
    why = law.body(world, trial);
  } catch (const std::exception& error) {
    why = fmt::format("the law throws: {}", error.what());
  }
  words.trying(nullptr, 0);
  return why;
}

std::string file_name(const Law& law, std::string_view generation) {
  std::string name(law.name);
  std::ranges::replace(name, ' ', '-');
  return fmt::format("property_failures/{}-{}.yaml", name, generation);
}

}  // namespace

RunParams run_params(const char* rc_params) {
  RunParams params;
  if (rc_params == nullptr || *rc_params == '\0') return params;
  rc::detail::Configuration defaults;
  defaults.testParams.seed = params.seed;
  defaults.testParams.maxSuccess = params.max_success;
  try {
    const rc::detail::Configuration read = rc::detail::configFromString(rc_params, defaults);
    params.seed = read.testParams.seed;
    params.max_success = read.testParams.maxSuccess;
  } catch (const rc::detail::ConfigurationException& error) {
    params.wrong = fmt::format("RC_PARAMS=\"{}\" cannot be read ({}); write it as RC_PARAMS=\"seed=7 max_success=100\"",
                               rc_params, error.what());
    return params;
  }
  // configFromString takes what it knows and is silent about the rest.
  static const std::regex known("\\s*((seed|max_success)=[0-9]+\\s*)*");
  if (!std::regex_match(rc_params, known))
    params.wrong = fmt::format("RC_PARAMS=\"{}\": only seed=N and max_success=N are understood here", rc_params);
  return params;
}

RunResult run_random(const Law& law, std::string_view generation, const RunParams& params, Marks& marks) {
  Workbench bench(outside_rule());
  Trial trial{bench, marks};
  Watch watch;
  LastWords words(law, "random", generation, params);
  SilentListener listener;
  const Space space = law.random();
  rc::detail::TestParams test;
  test.seed = params.seed;
  for (const char c : generation) test.seed = test.seed * 31 + static_cast<unsigned char>(c);  // each its own worlds
  test.maxSuccess = params.max_success;
  const rc::detail::TestResult result = rc::detail::checkTestable(
      [&] {
        const Scenario world = *worlds(space, generation);
        if (!watch.failure) {
          ++watch.cases;
          watch.shares.count(world);
        }
        std::string why = judged(law, world, watch.cases, trial, words);
        if (!why.empty()) watch.failed(world, why);
        RC_ASSERT(why.empty());
      },
      rc::detail::TestMetadata{std::string(law.name), std::string(law.name)}, test, listener,
      std::unordered_map<std::string, rc::detail::Reproduce>{});
  const bool passed = result.is<rc::detail::SuccessResult>();
  A2ASIM_INVARIANT(passed == !watch.failure, "rapidcheck and the law judge alike");
  return {watch.cases, watch.shares, std::move(watch.failure)};
}

RunResult run_exhaustive(const Law& law, const Space& space, std::string_view generation, Marks& marks) {
  Workbench bench(outside_rule());
  Trial trial{bench, marks};
  LastWords words(law, "exhaustive", generation, {});
  ExhaustiveChoice choose;
  RunResult result;
  do {
    const Scenario world = draw_world(choose, space, generation);
    ++result.cases;
    if (std::string why = judged(law, world, result.cases, trial, words); !why.empty()) {
      result.failure = Failure{result.cases, world, world, std::move(why)};
      return result;
    }
  } while (choose.next());
  return result;
}

std::string report(const Law& law, std::string_view run, std::string_view generation, const Failure& failure,
                   const RunParams& params) {
  const std::string path = file_name(law, generation);
  std::error_code ignored;
  std::filesystem::create_directories("property_failures", ignored);
  std::ofstream(path) << to_yaml(failure.smallest);
  return fmt::format(
      "PROPERTY FAILED: {} | {} | case {}\n({})\nseed {}, drawn:\n{}\nsmallest: {}\n{}\nwritten to {}\n"
      "reproduce: RC_PARAMS=\"seed={} max_success={}\" property_tests --test-case=\"{}: {}\"",
      law.name, generation, failure.cases, law.says, params.seed, to_yaml(failure.drawn), failure.why,
      to_yaml(failure.smallest), std::filesystem::absolute(path).string(), params.seed, params.max_success, run,
      law.name);
}

}  // namespace a2asim::props
