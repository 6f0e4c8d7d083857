// What a replay writes to a terminal while it runs, and the line that counts several files.
#include <doctest/doctest.h>

#include "tests/cli/run.h"
#include "tools/replay/replay_formats.h"

namespace a2asim {
namespace {

std::string scenario_file(const std::string& name) { return A2ASIM_SOURCE_DIR "/sim/scenarios/" + name + ".yaml"; }

Outcome run_on_terminal(const std::vector<std::string>& args) {
  std::istringstream in;
  std::ostringstream out, err;
  Io io{in, out, err, false, false, true};
  const int exit_code = run_program(args, io, Caller{});
  return {exit_code, out.str(), err.str()};
}

}  // namespace

TEST_CASE("replay: progress of one file names it in 50 characters, its steps, and the share of the next") {
  CHECK(progress_words("a.yaml", {0, 4}) == "a.yaml: 0 of 4 steps");
  CHECK(progress_words("a.yaml", {1, 4, 0, 3}) == "a.yaml: 1 of 4 steps, 0 % of the next");
  CHECK(progress_words("a.yaml", {1, 4, 2, 3}) == "a.yaml: 1 of 4 steps, 66 % of the next");
  CHECK(progress_words("a.yaml", {3, 4, 3, 3}) == "a.yaml: 3 of 4 steps, 100 % of the next");
  const std::string fits(50, 'f');
  CHECK(progress_words(fits, {1, 1}) == fits + ": 1 of 1 steps");
  CHECK(progress_words(fits + "f", {1, 1}) == fits.substr(0, 48) + "..: 1 of 1 steps");
}

TEST_CASE("replay: on a terminal several files are counted on one line, which is gone at the end") {
  const std::vector<std::string> two = {
      "replay", "--threads", "1", "--fidelity", "geometry", scenario_file("capture"), scenario_file("collapse")};
  std::vector<std::string> three = two;
  three.push_back(scenario_file("capture"));
  CHECK(run_on_terminal(two).err == "\r1 of 2 scenarios\r\x1b[K");
  CHECK(run_on_terminal(three).err == "\r1 of 3 scenarios\r2 of 3 scenarios\r\x1b[K");
  CHECK(run(three).err.empty());
  CHECK(run_on_terminal({"replay", scenario_file("capture")}).err.empty());  // it ends before anybody looks
}

TEST_CASE("replay: of files that are not good ten are named") {
  const std::string file = scenario_file("collapse");
  for (const std::size_t count : {2, 10, 11, 13}) {
    std::vector<std::string> args = {"replay", "--fidelity", "geometry", "--sglang", "pr26643"};
    args.insert(args.end(), count, file);
    std::string named;
    for (std::size_t at = 0; at < std::min<std::size_t>(count, 10); ++at) named += (at == 0 ? "" : ", ") + file;
    if (count > 10) named += " and " + std::to_string(count - 10) + " more";
    const Outcome outcome = run(args);
    CHECK(outcome.exit_code == kErrorFound);
    const std::string all = std::to_string(count);
    CHECK(outcome.out.ends_with("\n\n" + all + " scenarios: " + all + " disagrees; " + all +
                                " with an error, or not as expected: " + named + "\n"));
  }
}

TEST_CASE("replay: options that cannot be used are said in one line") {
  const std::string file = scenario_file("capture");
  const std::vector<std::pair<std::vector<std::string>, std::string>> table = {
      {{"--format", "sarif", file}, "--format takes one of text, json, not 'sarif'"},
      {{"--fidelity", "exact", file}, "--fidelity takes one of geometry, provenance, numeric, not 'exact'"},
      {{}, "no scenario: name one or more files, such as sim/scenarios/collapse.yaml"},
      {{"--trace", "t.json", file, file}, "--trace writes one scenario: name one file"}};
  for (const auto& [more, said] : table) {
    std::vector<std::string> args = {"replay"};
    args.insert(args.end(), more.begin(), more.end());
    const Outcome outcome = run(args);
    CHECK(outcome.exit_code == kUnusableInput);
    CHECK(outcome.out.empty());
    CHECK(outcome.err == "a2asim replay: " + said + "\n");
  }
}

}  // namespace a2asim
