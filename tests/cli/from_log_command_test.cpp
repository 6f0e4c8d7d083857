// a2asim from-log as a person calls it, and what replay makes of it.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "sim/scenario/scenario_reader.h"
#include "tests/cli/run.h"

namespace a2asim {
namespace {

using Args = std::vector<std::string>;

const std::string kLogs = A2ASIM_SOURCE_DIR "/tests/data/logs/";
const Args kSmallShape = {"--num-experts", "8", "--top-k", "2", "--hidden-size", "64"};

std::string text_of(const std::string& name) {
  std::ifstream file(kLogs + name);
  REQUIRE(file.good());
  return {std::istreambuf_iterator<char>(file), {}};
}

Outcome from_log(const std::string& log, Args more = {}, const Args& shape = kSmallShape) {
  Args args = {"from-log", "-"};
  args.insert(args.end(), shape.begin(), shape.end());
  args.insert(args.end(), more.begin(), more.end());
  return run(args, log);
}

Scenario scenario_of(const Outcome& outcome) {
  REQUIRE_MESSAGE(outcome.exit_code == 0, outcome.err);
  Result<Scenario> scenario = parse_scenario(outcome.out, "from-log");
  REQUIRE_MESSAGE(scenario.has_value(), (scenario ? "" : scenario.error().message));
  return std::move(*scenario);
}

nlohmann::json replayed(const Outcome& outcome, const std::string& generation) {
  const TemporaryFile file("scenario.yaml", outcome.out);
  return nlohmann::json::parse(run({"replay", file.path, "--sglang", generation, "--format", "json"}).out)
      .at("scenarios")
      .at(0);
}

// Replaces every line by what `change` makes of it.
template <class F>
std::string each_line(const std::string& text, F&& change) {
  std::istringstream in(text);
  std::string out;
  for (std::string line; std::getline(in, line);) out += change(line) + "\n";
  return out;
}

// Messages as they were before they were wrapped.
std::string in_one_line(std::string text) {
  for (std::size_t at = 0; (at = text.find("\n  ", at)) != std::string::npos;) text.replace(at, 3, " ");
  return text;
}

constexpr const char* kLoggedLaunch =
    "python3 -m sglang.launch_server --model-path M --tp 4 --dp 4 --enable-dp-attention --moe-a2a-backend flashinfer "
    "--moe-runner-backend flashinfer_cutlass";
const std::string kTwoRanks =
    "[2026-06-20 10:11:12 DP0 TP0] Decode batch, #running-req: 3, cuda graph: True, #queue-req: 0\n"
    "[2026-06-20 10:11:12 DP1 TP1] Decode batch, #running-req: 4, cuda graph: True, #queue-req: 0\n"
    "[2026-06-20 10:11:20 DP1 TP1] Decode batch, #running-req: 5, cuda graph: False, #queue-req: 0\n";

}  // namespace

TEST_CASE("from-log: the log of a collapse, replayed, disagrees where the loads differ") {
  const Outcome made = from_log(text_of("collapse.log"), {"--sglang", "pr26643"});
  const Scenario scenario = scenario_of(made);
  REQUIRE(scenario.steps.size() == 3);
  CHECK(scenario.steps[0].mode == std::vector{ForwardMode::extend});
  CHECK(scenario.steps[0].tokens == std::vector<std::int64_t>{32, 32, 32, 32});
  CHECK(scenario.steps[1].tokens == std::vector<std::int64_t>{1, 1, 1, 1});
  CHECK(scenario.steps[2].tokens == std::vector<std::int64_t>{7, 1, 0, 5});
  CHECK(scenario.steps[2].graph == false);
  const nlohmann::json bad = replayed(made, "pr26643");
  CHECK(bad.at("verdict") == "disagrees");
  CHECK(bad.at("first_bad_step") == 2);
  CHECK(bad.at("bad_tokens") > 0);
  CHECK(replayed(made, "pr30450").at("verdict") == "agrees");
  CHECK(made.err.find("11 of 11 batch lines placed in 3 steps") != std::string::npos);
  CHECK(made.out.find("# 10:11:16; lines 15..17; no line of DP 2: taken as idle") != std::string::npos);
}

TEST_CASE("from-log: prefixes, colours, line ends and full stops change nothing") {
  const std::string log = text_of("collapse.log");
  const Scenario plain = scenario_of(from_log(log));
  const auto same = [&](const std::string& text) { CHECK(scenario_of(from_log(text)) == plain); };
  same(each_line(log, [](const std::string& line) { return "2026-01-01T00:00:00.000000001Z stderr F " + line; }));
  same(each_line(log, [](const std::string& line) { return "\x1b[36m(Worker pid=7)\x1b[0m " + line + "\x1b[0m\r"; }));
  same(each_line(log, [](std::string line) {
    if (const std::size_t at = line.find("Decode batch, "); at != std::string::npos)
      line.replace(at, 13, "Decode batch.");
    if (const std::size_t at = line.find("#token:"); at != std::string::npos) line.replace(at, 7, "#full token:");
    return line;
  }));
  same(each_line(log, [](const std::string& line) { return std::string("\xff\xfe noise\n") + line; }));
}

TEST_CASE("from-log: a decode worker's log with iteration numbers, retries and a rank that never logs") {
  const Outcome made =
      from_log(text_of("decode_worker.log"),
               {"--sglang", "pr29461", "--env", "SGLANG_FLASHINFER_NUM_MAX_DISPATCH_TOKENS_PER_RANK=64"});
  const Scenario scenario = scenario_of(made);
  REQUIRE(scenario.steps.size() == 2);
  CHECK(scenario.steps[0].tokens == std::vector<std::int64_t>{9, 1, 3, 0});
  CHECK(scenario.steps[0].graph == true);
  CHECK(scenario.steps[1].tokens == std::vector<std::int64_t>{9, 2, 0, 0});
  CHECK_FALSE(scenario.steps[1].graph.has_value());  // one rank says True, the other False
  CHECK(scenario.env.at("SGLANG_FLASHINFER_NUM_MAX_DISPATCH_TOKENS_PER_RANK") == "64");
  CHECK(made.err.find("not placed: 1 line (8): a second line of its rank for the same iteration") != std::string::npos);
  CHECK(made.err.find("once in 40 decode iterations") != std::string::npos);
  CHECK(replayed(made, "pr29461").at("verdict") == "disagrees");  // the buckets of #30242
  CHECK(replayed(made, "pr30450").at("verdict") == "agrees");
}

TEST_CASE("from-log: --missing says what a rank without a line is") {
  const Args launch = {"--", kLoggedLaunch};
  const auto with = [&](const std::string& missing) {
    Args args = {"--missing", missing};
    args.insert(args.end(), launch.begin(), launch.end());
    return from_log(kTwoRanks, args);
  };
  const Scenario idle = scenario_of(with("idle"));
  CHECK(idle.steps.at(1).tokens == std::vector<std::int64_t>{0, 5, 0, 0});
  const Scenario last = scenario_of(with("last"));
  CHECK(last.steps.at(1).tokens == std::vector<std::int64_t>{3, 5, 0, 0});
  const Outcome drop = with("drop");
  CHECK(drop.exit_code == 2);
  CHECK(drop.err.find("--missing drop") != std::string::npos);
  CHECK(with("idle").err.find("2 steps are without a line of some rank") != std::string::npos);
}

TEST_CASE("from-log: without DP attention every DP rank is a server of its own") {
  constexpr const char* alone = "python3 -m sglang.launch_server --model-path M --tp 2 --dp 2";
  const std::string log =
      each_line(kTwoRanks, [](std::string line) { return line.replace(line.find(" TP"), 4, " TP0"); });
  const Outcome first = from_log(log, {"--", alone});
  CHECK(scenario_of(first).steps.at(0).tokens == std::vector<std::int64_t>{3});
  CHECK(first.err.find("not placed: 2 lines (2, 3): without DP attention") != std::string::npos);
  CHECK(scenario_of(from_log(log, {"--replica", "1", "--", alone})).steps.at(0).tokens == std::vector<std::int64_t>{4});
}

TEST_CASE("from-log: equal neighbours are one step that repeats") {
  std::string log;
  for (int second = 10; second < 20; second += 2)
    log +=
        "[2026-06-20 10:11:" + std::to_string(second) + " DP0 TP0] Decode batch, #running-req: 3, cuda graph: True\n";
  const Scenario scenario = scenario_of(from_log(log, {"--", kLoggedLaunch}));
  REQUIRE(scenario.steps.size() == 1);
  CHECK(scenario.steps[0].repeat == 5);
}

TEST_CASE("from-log: mixed chunks, and verification under speculation") {
  const std::string log =
      "[2026-06-20 10:11:12 DP0 TP0] Prefill batch, #new-seq: 1, #new-token: 100, #running-req: 7, #queue-req: 0\n"
      "[2026-06-20 10:11:12 DP1 TP1] Prefill batch, #new-seq: 1, #new-token: 50, #running-req: 0, #queue-req: 0\n";
  const Scenario mixed = scenario_of(from_log(log, {"--", std::string(kLoggedLaunch) + " --enable-mixed-chunk"}));
  CHECK(mixed.steps.at(0).tokens == std::vector<std::int64_t>{107, 50, 0, 0});
  CHECK(mixed.steps.at(0).mode.at(0) == ForwardMode::mixed);
  CHECK(mixed.steps.at(0).mode.at(1) == ForwardMode::extend);
  CHECK(scenario_of(from_log(log, {"--", kLoggedLaunch})).steps.at(0).tokens ==
        std::vector<std::int64_t>{100, 50, 0, 0});
  const Scenario verify = scenario_of(from_log(
      kTwoRanks, {"--", std::string(kLoggedLaunch) + " --speculative-algorithm EAGLE --speculative-num-steps 1 "
                                                     "--speculative-eagle-topk 1 --speculative-num-draft-tokens 2"}));
  CHECK(verify.steps.at(0).mode == std::vector{ForwardMode::target_verify});
}

TEST_CASE("from-log: a part of the log, and the start of another server") {
  const std::string log = text_of("collapse.log");
  CHECK(scenario_of(from_log(log, {"--lines", "10:13"})).steps.size() == 1);
  std::string other = log;
  other.replace(other.find("tp_size=4"), 9, "tp_size=8");
  const Outcome both = from_log(log + other);
  CHECK(scenario_of(both) == scenario_of(from_log(log)));
  CHECK(both.err.find("after the start of another server") != std::string::npos);
}

TEST_CASE("from-log: batches before the start of the server whose arguments are used are not its own") {
  const std::string log = text_of("collapse.log");
  const Outcome rotated = from_log(kTwoRanks + log);
  CHECK(scenario_of(rotated) == scenario_of(from_log(log)));
  const std::string said = in_one_line(rotated.err);
  CHECK(said.find("11 of 14 batch lines placed") != std::string::npos);
  CHECK(said.find("not placed: 3 lines (1, 2, 3): before the start of the server whose arguments are used") !=
        std::string::npos);
  const Outcome nothing_after = from_log(kTwoRanks + log.substr(0, log.find("Prefill batch")));
  CHECK(nothing_after.exit_code == 2);
  CHECK(nothing_after.err.find("before the start of the server") != std::string::npos);
  // A launch command that is given stands for all lines.
  CHECK(from_log(kTwoRanks + log, {"--", kLoggedLaunch}).err.find("14 of 14 batch lines placed") != std::string::npos);
}

TEST_CASE("from-log: what becomes of a speculative server's decode lines is said") {
  const auto errors = [](const std::string& flags) {
    return in_one_line(from_log(kTwoRanks, {"--", std::string(kLoggedLaunch) + flags}).err);
  };
  CHECK(errors("").find("target_verify") == std::string::npos);
  const std::string known = errors(
      " --speculative-algorithm EAGLE --speculative-num-steps 3 --speculative-eagle-topk 1 "
      "--speculative-num-draft-tokens 4");
  CHECK(known.find("EAGLE speculates: 3 decode lines taken as target_verify, 4 tokens for each request;") !=
        std::string::npos);
  CHECK(known.find("draft_extend") != std::string::npos);
  CHECK(errors(" --speculative-algorithm NGRAM").find("assumed") != std::string::npos);
}

TEST_CASE("from-log: the launch command from a file or after the dashes, in place of server_args") {
  const TemporaryFile script("serve.sh", kLoggedLaunch);
  const Outcome by_file = from_log(kTwoRanks, {"--launch", script.path});
  CHECK(scenario_of(by_file) == scenario_of(from_log(kTwoRanks, {"--", kLoggedLaunch})));
  CHECK(scenario_of(by_file).launch.has_value());
  CHECK(from_log(text_of("collapse.log"), {"--", kLoggedLaunch}).err.find("not the server_args of the log") !=
        std::string::npos);
}

TEST_CASE("from-log: arguments that are cut do not matter where a launch command is given") {
  CHECK(scenario_of(from_log("server_args=ServerArgs(tp_size=8, \n" + kTwoRanks, {"--", kLoggedLaunch})) ==
        scenario_of(from_log(kTwoRanks, {"--", kLoggedLaunch})));
}

TEST_CASE("from-log: --out, and the model's shape from the log's model_path") {
  const TemporaryFile file("scenario.yaml");
  std::string log = text_of("collapse.log");
  log.replace(log.find("/models/tiny-moe"), 16, "a/Qwen3-30B-A3B/");
  const Outcome outcome = from_log(log, {"--out", file.path}, {});
  CHECK(outcome.exit_code == 0);
  CHECK(outcome.out.empty());
  const Result<Scenario> scenario = load_scenario(file.path);
  REQUIRE(scenario.has_value());
  CHECK(scenario->model.num_experts == 128);
  CHECK(outcome.err.find("Qwen3-30B-A3B") != std::string::npos);
}

TEST_CASE("from-log: what cannot be used is said in one line, with exit code 2") {
  const auto refused = [&](const Outcome& outcome, const std::string& part) {
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.out.empty());
    CHECK(std::ranges::count(outcome.err, '\n') == 1);
    CHECK_MESSAGE(outcome.err.find(part) != std::string::npos, outcome.err);
  };
  refused(run({"from-log"}), "no log: name a file");
  refused(run({"from-log", "/no/such/log"}), "cannot be opened");
  refused(run({"from-log", kLogs}), "is a directory");
  refused(from_log(""), "no batch line among 0 lines");
  refused(from_log("hello\n"), "no batch line among 1 line");
  refused(from_log(kTwoRanks), "no launch command is given");
  refused(from_log(kTwoRanks, {"--", kLoggedLaunch}, {}), "the model's shape is not known");
  refused(from_log(kTwoRanks, {"--", "python3 train.py"}), "sglang");
  refused(from_log(kTwoRanks, {"--launch", "x", "--", kLoggedLaunch}), "two launch commands");
  refused(from_log(kTwoRanks, {"--launch", "/no/such/file"}), "--launch");
  refused(from_log(kTwoRanks, {"--missing", "guess", "--", kLoggedLaunch}), "--missing takes one of");
  refused(from_log(kTwoRanks, {"--window", "0", "--", kLoggedLaunch}), "--window takes seconds");
  refused(from_log(kTwoRanks, {"--replica", "0", "--", kLoggedLaunch}), "--replica 0: with DP attention");
  refused(from_log(kTwoRanks, {"--sglang", "pr1", "--", kLoggedLaunch}), "pr1");
  refused(from_log(kTwoRanks, {"--env", "x", "--", kLoggedLaunch}), "--env takes NAME=VALUE");
  for (const std::string lines : {"3", ":", "0:5", "5:4", "a:b"})
    refused(from_log(kTwoRanks, {"--lines", lines, "--", kLoggedLaunch}), "--lines");
  refused(from_log("server_args=ServerArgs(tp_size=4, \n" + kTwoRanks), "line 1: server_args is not closed");
  refused(from_log("server_args=ServerArgs(tp_size=-4)\n" + kTwoRanks), "tp_size=-4");
  refused(from_log(kTwoRanks, {"--out", "/no/such/folder/x", "--", kLoggedLaunch}), "--out");
  const std::string other_ranks =
      each_line(kTwoRanks, [](std::string line) { return line.replace(line.find(" TP"), 3, " TP9"); });
  refused(from_log(other_ranks, {"--", kLoggedLaunch}), "none of 3 batch lines can be placed");
  std::string many;
  for (int i = 0; i < 40000; ++i)
    many += "[2026-06-20 10:11:12 DP0 TP0] Decode batch, #running-req: " + std::to_string(i) + "\n";
  refused(from_log(many, {"--", kLoggedLaunch}), "--lines FIRST:LAST");
}

TEST_CASE("from-log: the shape comes from the model path of the launch, too") {
  const std::string launch =
      "python3 -m sglang.launch_server --model-path deepseek-ai/DeepSeek-V3 --tp 2 --dp 2 --enable-dp-attention "
      "--moe-a2a-backend flashinfer --moe-runner-backend flashinfer_cutlass";
  const Outcome made = from_log(kTwoRanks, {"--", launch}, {});
  CHECK(scenario_of(made).model.num_experts == 256);
  CHECK(contains(in_one_line(made.err), "taken from the launch's --model-path"));
}

// Ranks 0 and 1 of four are on another host, whose log is another file.
TEST_CASE("from-log: a rank of another node is not idle") {
  const std::string node1 =
      "[2026-06-20 10:11:12 DP2 TP2] Decode batch, #running-req: 3, cuda graph: True, #queue-req: 0\n"
      "[2026-06-20 10:11:12 DP3 TP3] Decode batch, #running-req: 4, cuda graph: True, #queue-req: 0\n";
  const Args launch = {"--", std::string(kLoggedLaunch) + " --nnodes 2 --node-rank 1"};
  const Outcome refused = from_log(node1, launch);
  CHECK(refused.exit_code == 2);
  CHECK(contains(refused.err, "DP 0..1 of its step log on another of the 2 nodes: give the logs of all nodes"));
  const Outcome idle = from_log(node1, {"--", std::string(kLoggedLaunch)});
  CHECK(scenario_of(idle).steps[0].tokens == std::vector<std::int64_t>{0, 0, 3, 4});
  // With a line of the other node in the same log, its silent rank is idle as before.
  const std::string both = node1 + "[2026-06-20 10:11:12 DP1 TP1] Decode batch, #running-req: 5, #queue-req: 0\n";
  CHECK(scenario_of(from_log(both, launch)).steps[0].tokens == std::vector<std::int64_t>{0, 5, 3, 4});
  const std::string logged =
      "server_args={'model_path': 'M', 'tp_size': 4, 'dp_size': 4, 'enable_dp_attention': True, 'nnodes': 2, "
      "'moe_a2a_backend': 'flashinfer', 'moe_runner_backend': 'flashinfer_cutlass'}\n";
  CHECK(from_log(logged + node1).exit_code == 2);
  CHECK(contains(from_log("[x] " + logged + both).err, "3 of 3 batch lines placed"));
}

TEST_CASE("from-log: more accepted tokens than a pass can hold are a contradiction") {
  const auto said = [](const std::string& accepted, const std::string& flags) {
    const std::string log = "[2026-06-20 10:11:12 DP0 TP0] Decode batch, #running-req: 3, accept len: " + accepted +
                            ", cuda graph: True, #queue-req: 0\n";
    return in_one_line(from_log(log, {"--", std::string(kLoggedLaunch) + flags}).err);
  };
  const std::string eagle =
      " --speculative-algorithm EAGLE --speculative-num-steps 1 --speculative-eagle-topk 1 "
      "--speculative-num-draft-tokens 2";
  CHECK(
      contains(said("2.5", eagle), "CONTRADICTION: line 1 logs accept len 2.5, and the deployment verifies 2 tokens"));
  CHECK_FALSE(contains(said("1.9", eagle), "CONTRADICTION"));
  CHECK(contains(said("1.5", ""), "does not speculate"));
  CHECK_FALSE(contains(said("1.0", ""), "CONTRADICTION"));
}

}  // namespace a2asim
