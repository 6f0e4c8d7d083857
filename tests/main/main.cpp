// The one main of every doctest program here.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>
#include <set>
#include <vector>

#include "tests/main/arguments.h"
#include "tests/main/skip.h"

namespace {

std::set<const doctest::TestCaseData*> skipped;
std::size_t ran = 0;

// doctest tells numbers of test cases to reporters only.
struct Counter : doctest::IReporter {
  explicit Counter(const doctest::ContextOptions&) {}
  void test_case_start(const doctest::TestCaseData&) override { ++ran; }
  void report_query(const doctest::QueryData&) override {}
  void test_run_start() override {}
  void test_run_end(const doctest::TestRunStats&) override {}
  void test_case_reenter(const doctest::TestCaseData&) override {}
  void test_case_end(const doctest::CurrentTestCaseStats&) override {}
  void test_case_exception(const doctest::TestCaseException&) override {}
  void subcase_start(const doctest::SubcaseSignature&) override {}
  void subcase_end() override {}
  void log_assert(const doctest::AssertData&) override {}
  void log_message(const doctest::MessageData&) override {}
  void test_case_skipped(const doctest::TestCaseData&) override {}
};
REGISTER_LISTENER("counter", 1, Counter);

}  // namespace

void a2asim::test::skip(const std::string& why) {
  std::printf("SKIPPED: %s\n", why.c_str());
  skipped.insert(doctest::getContextOptions()->currentTest);
}

namespace {
std::vector<std::string> arguments;
}  // namespace

std::optional<std::string> a2asim::test::argument(std::string_view name) {
  const auto found = std::find(arguments.begin(), arguments.end(), name);
  return found == arguments.end() || found + 1 == arguments.end() ? std::nullopt : std::optional(*(found + 1));
}

int main(int argc, char** argv) {
  arguments.assign(argv + 1, argv + argc);
  const int code = doctest::Context(argc, argv).run();
  return code == 0 && ran > 0 && skipped.size() == ran ? a2asim::test::kSkipped : code;
}
