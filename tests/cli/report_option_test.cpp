// --report as a person calls it.
#include <doctest/doctest.h>

#include <fstream>

#include "tests/cli/run.h"

namespace a2asim {
namespace {

const std::string kScenarios = A2ASIM_SOURCE_DIR "/sim/scenarios/";
const std::string kLaunchFile = A2ASIM_SOURCE_DIR "/tools/examples/collapse.sh";

const std::vector<std::vector<std::string>>& calls() {
  static const std::vector<std::vector<std::string>> all = {
      {"replay", kScenarios + "collapse.yaml", "--sglang", "pr26643"},
      {"replay", kScenarios + "collapse.yaml", kScenarios + "capture.yaml"},
      {"check", "--sglang", "pr29461", "--file", kLaunchFile},
      {"explore", "--sglang", "pr29461", "--budget", "2000"}};
  return all;
}

}  // namespace

TEST_CASE("--report writes a page beside what is printed, twice the same, over what was there") {
  for (std::vector<std::string> call : calls()) {
    CAPTURE(call[0]);
    const Outcome plain = run(call);
    const TemporaryFile first("first.html"), second("second.html");
    std::ofstream(second.path) << std::string(10'000'000, 'x');
    call.insert(call.end(), {"--report", first.path});
    const Outcome with = run(call);
    CHECK(with.out == plain.out);
    CHECK(with.exit_code == plain.exit_code);
    call.back() = second.path;
    CHECK(run(call).exit_code == plain.exit_code);
    CHECK(first.text().rfind("<!DOCTYPE html>", 0) == 0);
    CHECK(first.text() == second.text());
  }
}

TEST_CASE("--report to a place that cannot be written is one line and exit code 2") {
  for (std::vector<std::string> call : calls()) {
    call.insert(call.end(), {"--report", "/nonexistent/page.html"});
    const Outcome outcome = run(call);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.err.find("--report: cannot write '/nonexistent/page.html': No such file or directory; give a path "
                           "that can be written") != std::string::npos);
  }
}

TEST_CASE("--report of a rule of one's own replays its witness with that rule") {
  const TemporaryFile page("page.html");
  const Outcome outcome =
      run({"check", "--sglang", "pr29461", "--file", kLaunchFile, "--rule-cmd",
           "python3 '" A2ASIM_SOURCE_DIR "/tools/examples/rule_pr29461.py'", "--report", page.path});
  CHECK(outcome.exit_code == 1);
  const std::string text = page.text();
  const std::size_t replay = text.find("The same batch, replayed");
  REQUIRE(replay != std::string::npos);
  CHECK(text.find("the external rule", replay) != std::string::npos);
}

}  // namespace a2asim
