// One test case for each case of the suite and each subject.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <utility>

#include "sim/alltoall/sim_alltoall.h"
#include "tests/conformance/case_shapes.h"
#include "tests/conformance/subjects.h"
#include "tests/main/skip.h"

namespace a2asim::conformance {
namespace {

// shapes: of all that the simulator was made for.
Subject subject(std::string_view name, std::vector<std::string>& shapes) {
  Subject made{std::string(name), {}};
  if (name == "sim") {
    made.make = [&shapes](const auto& configs, bool guard) -> Result<std::unique_ptr<Dispatcher>> {
      shapes.push_back(shape_in_words(configs, guard));
      auto sim = SimAllToAll::create(configs, {});
      if (!sim) return tl::unexpected(sim.error());
      return std::unique_ptr<Dispatcher>(std::move(*sim));
    };
    return made;
  }
  const auto digit = name.find_first_of("0123456789");
  const int gpus = digit == std::string_view::npos ? 0 : name[digit] - '0';
  made.make = [gpus](const auto& configs, bool guard) { return make_cuda(configs, guard, gpus); };
  return made;
}

template <std::size_t kSubject, std::size_t kCase>
void run_one() {
  const Case& one = cases()[kCase];
  std::vector<std::string> shapes;
  const CaseResult result = run(subject(kSubjects[kSubject], shapes), one);
  if (result.outcome == CaseOutcome::skipped) return test::skip(result.why);
  CHECK_MESSAGE(result.outcome == CaseOutcome::passed, result.why);
  if (kSubjects[kSubject] != "sim" || one.name.starts_with("law: ")) return;  // laws draw their worlds
  const auto known = std::ranges::find(kCaseShapes, one.name, &CaseShapes::name);
  REQUIRE_MESSAGE(known != std::end(kCaseShapes), "give its shapes in tests/conformance/case_shapes.h");
  CHECK(shapes == known->shapes);
  CHECK(one.is_large == known->is_large);
}

constexpr std::size_t kMostCases = 40;

template <std::size_t kSubject, std::size_t... kCase>
void add_cases(std::index_sequence<kCase...>) {
  static std::vector<std::string> names(kMostCases);  // doctest keeps pointers
  const auto add = [&](void (*body)(), std::size_t at) {
    if (at >= cases().size()) return;
    names[at] = "conformance " + std::string(kSubjects[kSubject]) + ": " + std::string(cases()[at].name);
    // The number in place of the line keeps the cases apart, and in order.
    doctest::detail::TestCase one(body, __FILE__, static_cast<unsigned>(kSubject * kMostCases + at),
                                  doctest_detail_test_suite_ns::getCurrentTestSuite());
    doctest::detail::regTest(one * names[at].c_str());
  };
  (add(run_one<kSubject, kCase>, kCase), ...);
}

template <std::size_t... kSubject>
bool add_subjects(std::index_sequence<kSubject...>) {
  (add_cases<kSubject>(std::make_index_sequence<kMostCases>()), ...);
  return true;
}

[[maybe_unused]] const bool registered = add_subjects(std::make_index_sequence<kSubjects.size()>());

TEST_CASE("conformance: the suite has cases, each under its own name, and all are registered") {
  CHECK(cases().size() > 20);
  CHECK(cases().size() <= kMostCases);
  for (std::size_t i = 0; i < cases().size(); ++i)
    for (std::size_t j = 0; j < i; ++j) CHECK(cases()[i].name != cases()[j].name);
}

}  // namespace
}  // namespace a2asim::conformance
