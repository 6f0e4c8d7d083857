// a2asim replay as a person or a program calls it.
#include <doctest/doctest.h>

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>

#include "tests/cli/run.h"

namespace a2asim {
namespace {

std::string shipped(const std::string& name) { return A2ASIM_SOURCE_DIR "/sim/scenarios/" + name + ".yaml"; }

nlohmann::json scenario_json(const Outcome& outcome, std::size_t index = 0) {
  const nlohmann::json document = nlohmann::json::parse(outcome.out);
  CHECK(document.at("tool").at("name") == "a2asim");
  return document.at("scenarios").at(index);
}

TEST_CASE("replay says which tokens can be wrong under some order of the slots") {
  const std::string file = A2ASIM_SOURCE_DIR "/sim/scenarios/verify_over_cap.yaml";
  const Outcome text = run({"replay", file});
  CHECK(contains(text.out, "can be wrong under some order of the slots"));
  const Outcome json = run({"replay", file, "--format", "json"});
  CHECK(contains(json.out, "\"tokens_in_doubt\""));
  const TemporaryFile page("doubts.html");
  run({"replay", file, "--report", page.path});
  CHECK(contains(page.text(), "can be wrong under some order of the slots"));
}

}  // namespace

TEST_CASE("replay: exit codes follow expectations, or findings under --sglang") {
  CHECK(run({"replay", shipped("collapse")}).exit_code == 0);  // disagrees, as the file expects
  CHECK(run({"replay", shipped("collapse"), "--sglang", "pr26643"}).exit_code == 1);
  CHECK(run({"replay", shipped("collapse"), "--sglang", "pr27945"}).exit_code == 0);
  CHECK(run({"replay", shipped("skip_all_gather"), "--sglang", "pr30450"}).exit_code == 1);
  CHECK(run({"replay", shipped("graph_buckets"), shipped("collapse"), "--sglang", "pr30450"}).exit_code == 0);
}

TEST_CASE("replay: an expectation that fails is said and gives 1") {
  std::ifstream file(shipped("capture"));
  std::string text((std::istreambuf_iterator<char>(file)), {});
  const std::size_t at = text.find("expect: {verdict: agrees");
  REQUIRE(at != std::string::npos);
  const TemporaryFile changed("changed.yaml", text.substr(0, at) + "expect: {verdict: disagrees}\n");
  const Outcome outcome = run({"replay", changed.path});
  CHECK(outcome.exit_code == 1);
  CHECK(outcome.out.find("NOT AS EXPECTED: expected verdict disagrees, got agrees") != std::string::npos);
}

TEST_CASE("replay: a launch is told from a scenario, with the command that takes it") {
  const TemporaryFile launch("run.sh", "sglang serve --model-path M --tp 8\n");
  const Outcome outcome = run({"replay", launch.path});
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.err.find("this is a launch, not a scenario: run it with 'a2asim check --file") != std::string::npos);
}

TEST_CASE("replay: text has the verdict first, then what each rank saw, the chain, and the waste") {
  const Outcome outcome = run({"replay", shipped("collapse"), "--digest"});
  CHECK(outcome.err.empty());
  CHECK(outcome.out.rfind("DISAGREES, as the file expects: ranks use different buffer sizes, first at step 0\n", 0) ==
        0);
  // The fix stands above what the run looked like.
  CHECK(outcome.out.find("fix: ") < outcome.out.find("\nstep 0"));
  for (const char* part : {"first at step 0", "this rank's own rows", "bad output: rank ", "chain, rank ",
                           "fix: ", "were never filled", "as the file expects", "\ndigest "})
    CHECK_MESSAGE(outcome.out.find(part) != std::string::npos, part);
  const Outcome folded = run({"replay", shipped("capture")});
  CHECK(folded.out.find("0..3  DECODE") != std::string::npos);
  CHECK(folded.out.find("every output of the all-to-all equals the dense oracle") != std::string::npos);
}

TEST_CASE("replay: JSON says per step the R of every rank, the findings and the bytes") {
  const Outcome outcome = run({"replay", shipped("graph_buckets"), "--format", "json"});
  CHECK(outcome.exit_code == 0);
  const nlohmann::json scenario = scenario_json(outcome);
  CHECK(scenario.at("verdict") == "disagrees");
  CHECK(scenario.at("first_bad_step") == 1);
  CHECK(scenario.at("expected").at("as_expected") == true);
  CHECK(scenario.at("digest").get<std::string>().size() == 16);
  CHECK(scenario.at("bytes_moved") > 0);
  CHECK(scenario.at("bytes_wasted") > 0);
  REQUIRE(scenario.at("steps").size() == 4);
  const nlohmann::json& bad = scenario.at("steps").at(1);
  CHECK(bad.at("runtime_max_tokens_per_rank") == nlohmann::json({16, 1, 4, 8}));
  CHECK(bad.at("paths") == nlohmann::json({"graph", "graph", "graph", "graph"}));
  CHECK(bad.at("branches").at(0) == "local_rows");
  CHECK(bad.at("views").at(0) == nlohmann::json({9}));
  CHECK(bad.at("findings").at(0).at("id") == "geometry_disagreement");
  CHECK(bad.at("findings").at(0).at("severity") == "error");
  CHECK(bad.at("findings").at(0).at("witness").at("tokens_per_dp_rank") == nlohmann::json({9, 1, 3, 5}));
  CHECK(bad.at("counts").at("nan_output") > 0);
  const Outcome integers = run({"replay", shipped("graph_buckets"), "--format", "json", "--fidelity", "geometry"});
  CHECK(scenario_json(integers).at("bytes_moved").is_null());
  CHECK(scenario_json(integers).at("fidelity") == "geometry");
}

TEST_CASE("replay: sizes that agree over wrong bytes are corrupt, in text, JSON, page and exit code") {
  const std::string file = shipped("padding_rows");
  const Outcome text = run({"replay", file, "--sglang", "pr14668"});
  CHECK(text.exit_code == 1);
  CHECK(text.out.rfind("CORRUPT: sizes agree, but output is corrupt, first at step 1", 0) == 0);
  CHECK(contains(text.out, "step 1, eager_decode: corrupt"));
  const Outcome json = run({"replay", file, "--format", "json"});
  CHECK(json.exit_code == 0);  // as the file expects
  CHECK(scenario_json(json).at("verdict") == "corrupt");
  CHECK(scenario_json(json).at("steps").at(0).at("verdict") == "agrees");
  CHECK(scenario_json(json).at("steps").at(1).at("verdict") == "corrupt");
  const TemporaryFile page("page.html");
  CHECK(run({"replay", file, "--report", page.path}).exit_code == 0);
  CHECK(contains(page.text(), "Corrupt"));
  CHECK(run({"replay", file, "--fidelity", "geometry"}).exit_code == 0);  // where no byte can show it
  CHECK(run({"replay", file, "--sglang", "pr30450"}).exit_code == 0);
}

// Lines that are too long go on behind four blanks.
TEST_CASE("replay: each step that the text shows has the verdict and the counts of JSON, for every scenario") {
  int counted = 0;
  for (const auto& entry : std::filesystem::directory_iterator(A2ASIM_SOURCE_DIR "/sim/scenarios")) {
    if (entry.path().extension() != ".yaml") continue;
    const std::string file = entry.path().string();
    CAPTURE(file);
    std::string text = run({"replay", file}).out;
    for (std::size_t at = 0; (at = text.find("\n    ", at)) != std::string::npos;) text.replace(at, 5, " ");
    const auto all = nlohmann::ordered_json::parse(run({"replay", file, "--format", "json"}).out);
    for (const auto& step : all.at("scenarios").at(0).at("steps")) {
      const std::string head = "\nstep " + step.at("step").dump() + ", ";
      const std::size_t begin = text.find(head);
      if (begin == std::string::npos) continue;  // without --verbose the first few are shown
      const std::string shown = text.substr(begin, text.find("\nstep ", begin + 1) - begin);
      const std::size_t in_all = shown.find("\n  in all: ");
      std::multiset<std::string> counts, said;
      for (const auto& [id, count] : step.at("counts").items())
        if (count > 1) counts.insert(count.dump() + " " + id);
      if (in_all != std::string::npos) {
        std::string rest = shown.substr(in_all + 11, shown.find('\n', in_all + 1) - in_all - 11) + ", ";
        for (std::size_t comma; (comma = rest.find(", ")) != std::string::npos; rest.erase(0, comma + 2))
          said.insert(rest.substr(0, comma));
      }
      counted += counts.empty() ? 0 : 1;
      CHECK(said == counts);
      const std::string line = shown.substr(0, shown.find('\n', 1));
      CHECK(contains(line, head + step.at("phase").get<std::string>() + ": "));
      CHECK((contains(line, ": no work") || contains(line, ": " + step.at("verdict").get<std::string>())));
      CHECK(contains(line, "; the run stops here") == step.at("stopped").get<bool>());
    }
  }
  CHECK(counted >= 15);
}

TEST_CASE("replay: several files end with a line that counts them") {
  const auto last_line = [](const Outcome& outcome) {
    return outcome.out.substr(outcome.out.rfind('\n', outcome.out.size() - 2) + 1);
  };
  CHECK(last_line(run({"replay", shipped("collapse"), shipped("padding_rows"), shipped("capture")})) ==
        "3 scenarios: 1 disagrees, 1 corrupt, 1 agrees; none with an error, or not as expected\n");
  const Outcome bad = run({"replay", shipped("collapse"), shipped("capture"), "--sglang", "pr26643"});
  CHECK(last_line(bad) ==
        "2 scenarios: 1 disagrees, 1 agrees; 1 with an error, or not as expected: " + shipped("collapse") + "\n");
  CHECK_FALSE(contains(run({"replay", shipped("capture")}).out, "scenarios:"));
}

// Rank 1 has no work: the rows that it pads with go wrong first, and nobody reads them.
TEST_CASE("replay: the story follows a request's token, never padding") {
  const TemporaryFile idle(
      "idle.yaml",
      "name: idle\nsglang: pr29461\nlaunch: python3 -m sglang.launch_server --model-path M --tp-size 4 "
      "--dp-size 4 --ep-size 4 --moe-dense-tp-size 1 --enable-dp-attention --enable-dp-lm-head "
      "--moe-a2a-backend flashinfer --moe-runner-backend flashinfer_cutlass --cuda-graph-max-bs 16\n"
      "model: {num_experts: 8, top_k: 2, hidden_size: 64}\nseed: 3\n"
      "steps: [{mode: decode, tokens: [0, 9, 0, 3]}]\n");
  const nlohmann::json step = scenario_json(run({"replay", idle.path, "--format", "json"})).at("steps").at(0);
  bool seen = false;
  for (const nlohmann::json& found : step.at("findings")) {
    if (!found.contains("row")) continue;
    const auto source = found.at("row").at("payload") < 0 ? found.at("rank") : found.at("row").at("source");
    CHECK((source == 1 || source == 3));
    seen = true;
    break;
  }
  CHECK(seen);
}

TEST_CASE("replay: --seed takes what a file's seed may be") {
  CHECK(run({"replay", shipped("collapse"), "--seed", "18446744073709551615"}).exit_code != 2);
}

TEST_CASE("replay: a trace is written where it is asked for") {
  const TemporaryFile trace("trace.json");
  CHECK(run({"replay", shipped("collapse"), "--trace", trace.path}).exit_code == 0);
  std::ifstream file(trace.path);
  CHECK(nlohmann::json::parse(file).at("traceEvents").size() > 20);
  const Outcome nowhere = run({"replay", shipped("collapse"), "--trace", "/nonexistent/trace.json"});
  CHECK(nowhere.exit_code == 2);
  CHECK(nowhere.err.find("--trace") != std::string::npos);
}

TEST_CASE("replay: what cannot be used is one line and exit code 2") {
  const TemporaryFile broken("broken.yaml", "name: x\nsteps: 3\n");
  const TemporaryFile nan_tokens("nan.yaml",
                                 "name: x\nparallel: {tp_size: 1}\nmodel: {num_experts: 8, top_k: 2, hidden_size: 16}\n"
                                 "steps: [{mode: decode, tokens: [.nan]}]\n");
  const std::vector<std::vector<std::string>> cases = {
      {"replay"},
      {"replay", "/nonexistent.yaml"},
      {"replay", "/tmp"},
      {"replay", broken.path},
      {"replay", nan_tokens.path},
      {"replay", shipped("collapse"), "--fidelity", "exact"},
      {"replay", shipped("collapse"), "--sglang", "pr1"},
      {"replay", shipped("collapse"), "--seed", "-1"},
      {"replay", shipped("collapse"), "--seed", "18446744073709551616"},
      {"replay", shipped("collapse"), "--format", "sarif"},
      {"replay", shipped("collapse"), shipped("capture"), "--trace", "x.json"},
  };
  for (const auto& arguments : cases) {
    CAPTURE(arguments.back());
    const Outcome outcome = run(arguments);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.out.empty());
    CHECK(std::count(outcome.err.begin(), outcome.err.end(), '\n') == 1);
  }
}

}  // namespace a2asim
