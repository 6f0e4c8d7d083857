// The launch commands of tests/data/launch_commands.json, each with the verdict and the numbers that it must give.
#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "tests/cli/run.h"

namespace a2asim {
namespace {

using nlohmann::json;

json cases() {
  std::ifstream in(A2ASIM_SOURCE_DIR "/tests/data/launch_commands.json");
  REQUIRE(in);
  return json::parse(in);
}

Outcome check_case(const json& launch, const std::string& format) {
  const auto number = [&](const char* key) { return std::to_string(launch["model"][key].get<std::int64_t>()); };
  std::vector<std::string> args = {"check", "--format", format, "--sglang", launch["sglang"].get<std::string>()};
  if (launch.contains("model")) {
    args.insert(args.end(), {"--num-experts", number("num_experts"), "--top-k", number("top_k"), "--hidden-size",
                             number("hidden_size")});
  }
  for (const auto& [name, value] : launch["env"].items()) {
    args.insert(args.end(), {"--env", name + "=" + value.get<std::string>()});
  }
  args.insert(args.end(), {"--", launch["command"].get<std::string>()});
  return run(args);
}

bool is_expected(const std::string& verdict, const json& expected) {
  return expected.is_array() ? std::ranges::find(expected, json(verdict)) != expected.end() : expected == verdict;
}

// A labelled verdict is about sizes: whether ranks derive one R, and whether it fits. What bytes do in a version that
// does not sanitize them is a finding beside it, and an error of its own.
bool bytes_go_wrong(const json& report) {
  return std::ranges::any_of(report["findings"],
                             [](const json& found) { return found["id"] == "unsanitized_padding"; });
}

TEST_CASE("every launch command gives its verdict and numbers") {
  const json launches = cases();
  CHECK(launches.size() >= 40);
  for (const json& launch : launches) {
    const std::string id = launch["id"].get<std::string>();
    CAPTURE(id);
    const Outcome outcome = check_case(launch, "json");
    CAPTURE(outcome.err);
    REQUIRE(json::accept(outcome.out));
    const json report = json::parse(outcome.out);
    const std::string verdict = report["verdict"].get<std::string>();
    CAPTURE(verdict);
    CHECK(is_expected(verdict, launch["expect"]["verdict"]));
    const bool sizes_are_right = verdict == "agrees" || verdict == "out_of_scope";
    CHECK(outcome.exit_code == (sizes_are_right && !bytes_go_wrong(report) ? kNothingWrong : kErrorFound));
    const bool runs_flashinfer = report["backend"] == "flashinfer" && verdict != "rejected";
    CHECK(bytes_go_wrong(report) == (launch["sglang"] == "pr14668" && runs_flashinfer));
    for (const char* key : {"max_num_tokens", "workspace_bytes_per_rank"}) {
      if (launch["expect"].contains(key)) CHECK(report["capacity"][key] == launch["expect"][key]);
    }
  }
}

TEST_CASE("every launch command: the text fits one screen, and the SARIF results match the findings") {
  for (const json& launch : cases()) {
    const std::string id = launch["id"].get<std::string>();
    CAPTURE(id);
    const std::string text = check_case(launch, "text").out;
    CHECK(std::ranges::count(text, '\n') <= 24);
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) CHECK(line.size() <= 100);
    json findings = json::parse(check_case(launch, "json").out)["findings"];
    std::erase_if(findings.get_ref<json::array_t&>(), [](const json& one) { return one["severity"] == "note"; });
    const json results = json::parse(check_case(launch, "sarif").out)["runs"][0]["results"];
    REQUIRE(results.size() == findings.size());
    for (std::size_t i = 0; i < results.size(); ++i) CHECK(results[i]["ruleId"] == findings[i]["id"]);
  }
}

}  // namespace
}  // namespace a2asim
