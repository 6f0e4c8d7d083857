// One test case a law, from the table: LAW_CASES("random: ", judge_all) at namespace scope has each call
// judge_all(name).
#pragma once

#include <doctest/doctest.h>

#include <string>
#include <string_view>
#include <utility>

namespace a2asim::props {

// As laws() has them, in its order. Cases register before that table exists, so the names stand here too; a test
// compares.
inline constexpr std::string_view kLawNames[] = {
    "agreement", "exact fit", "no waste", "idle ranks", "permuted ranks", "shared decisions", "sound check",
    "static caps", "oracle", "no stale read", "fidelities", "verdicts", "digest", "blame", "causes", "faults",
    "fault order", "permuted rows", "conservation", "unequal sizes", "renamed experts", "graphs", "judge",
    "missing ranks", "texts"};

using LawCase = void (*)(std::string_view law);

template <LawCase kCase, std::size_t kAt>
void run_law_case() {
  kCase(kLawNames[kAt]);
}

template <LawCase kCase, std::size_t... kAt>
int register_law_cases(const char* file, const std::string& prefix, std::index_sequence<kAt...>) {
  static const std::string names[] = {prefix + std::string(kLawNames[kAt])...};  // doctest keeps pointers
  const auto add = [&](void (*run)(), std::size_t at) {
    // The number in place of the line keeps the cases apart, and in order.
    const auto& suite = doctest_detail_test_suite_ns::getCurrentTestSuite();
    doctest::detail::TestCase one(run, file, static_cast<unsigned>(at), suite);
    return doctest::detail::regTest(one * names[at].c_str());
  };
  return (add(run_law_case<kCase, kAt>, kAt) + ...);
}

}  // namespace a2asim::props

#define LAW_CASES(prefix, run)                                                                   \
  [[maybe_unused]] static const int law_cases_registered = ::a2asim::props::register_law_cases<run>( \
      __FILE__, prefix, std::make_index_sequence<std::size(::a2asim::props::kLawNames)>())
