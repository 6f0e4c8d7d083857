// The one main of every doctest program here.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <cstdio>
#include <set>

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

int main(int argc, char** argv) {
  const int code = doctest::Context(argc, argv).run();
  return code == 0 && ran > 0 && skipped.size() == ran ? a2asim::test::kSkipped : code;
}
