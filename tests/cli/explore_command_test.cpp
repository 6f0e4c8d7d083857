// a2asim explore, merge and --rule-cmd, run in this process.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/cli/run.h"

namespace a2asim {
namespace {

using Json = nlohmann::json;

const std::string kExampleRule = "python3 '" A2ASIM_SOURCE_DIR "/tools/examples/rule_pr29461.py'";
const std::vector<std::string> kCollapsedLaunch = {"--",
                                                   "python3",
                                                   "-m",
                                                   "sglang.launch_server",
                                                   "--model-path",
                                                   "M",
                                                   "--tp",
                                                   "2",
                                                   "--dp",
                                                   "2",
                                                   "--enable-dp-attention",
                                                   "--enable-dp-lm-head",
                                                   "--moe-dense-tp-size",
                                                   "1",
                                                   "--moe-a2a-backend",
                                                   "flashinfer",
                                                   "--moe-runner-backend",
                                                   "flashinfer_cutlass",
                                                   "--cuda-graph-max-bs",
                                                   "8",
                                                   "--chunked-prefill-size",
                                                   "64",
                                                   "--max-running-requests",
                                                   "16"};

struct ScratchFolder {
  std::filesystem::path path =
      std::filesystem::temp_directory_path() / ("a2asim_explore_" + std::to_string(::getpid()));
  ScratchFolder() { std::filesystem::create_directories(path); }
  ~ScratchFolder() { std::filesystem::remove_all(path); }
  std::string write(const std::string& name, const std::string& text) const {
    std::ofstream(path / name, std::ios::binary) << text;
    return (path / name).string();
  }
};

std::vector<std::string> with(std::vector<std::string> args, const std::vector<std::string>& more) {
  args.insert(args.end(), more.begin(), more.end());
  return args;
}

void check_refused(const std::vector<std::string>& args, const std::string& message) {
  const Outcome outcome = run(args);
  INFO(outcome.err);
  CHECK(outcome.exit_code == 2);
  CHECK(outcome.out.empty());
  CHECK(outcome.err.find(message) != std::string::npos);
  CHECK(std::ranges::count(outcome.err, '\n') == 1);
}

TEST_CASE("explore finds the buckets of pr29461 and writes a scenario that replay reproduces") {
  const ScratchFolder folder;
  const std::string out = (folder.path / "witnesses").string();
  const Outcome found = run({"explore", "--sglang", "pr29461", "--out", out});
  CHECK(found.exit_code == 1);
  CHECK(found.err.empty());
  CHECK(found.out.find("the smallest error, 2 ranks") != std::string::npos);
  const std::string file = out + "/pr29461-collapsed-graph_decode-disagrees.yaml";
  const Outcome replayed = run({"replay", "--format", "json", file});
  CHECK(replayed.exit_code == 1);
  CHECK(Json::parse(replayed.out)["scenarios"][0]["verdict"] == "disagrees");
  CHECK(run({"replay", "--sglang", "pr30450", file}).exit_code == 0);
}

TEST_CASE("explore of pr30450 says that nothing disagrees, and in how many cases") {
  const Outcome found = run({"explore", "--sglang", "pr30450", "--format", "json"});
  CHECK(found.exit_code == 0);
  const Json report = Json::parse(found.out);
  CHECK(report["verdict"] == "agrees");
  CHECK(report["cases"] > 100'000);
  CHECK(report["generations"][0]["configurations"] == report["generations"][0]["space_configurations"]);
  for (const Json& finding : report["findings"]) CHECK(finding["severity"] == "note");
}

TEST_CASE("merge of all shards prints what the whole prints, in every format") {
  const ScratchFolder folder;
  const std::vector<std::string> command = {"explore", "--sglang", "pr27945..pr29461", "--budget", "30000"};
  std::vector<std::string> shards;
  for (const char* shard : {"3/3", "1/3", "2/3"}) {
    const Outcome part = run(with(command, {"--shard", shard, "--format", "json"}));
    REQUIRE(part.exit_code != 2);
    shards.push_back(folder.write(std::string(1, shard[0]) + ".json", part.out));
  }
  for (const char* format : {"text", "json", "sarif"}) {
    const Outcome whole = run(with(command, {"--format", format, "--threads", "2"}));
    const Outcome merged = run(with({"merge", "--format", format}, shards));
    CHECK(merged.exit_code == whole.exit_code);
    CHECK(merged.out == whole.out);
  }
  check_refused({"merge"}, "no shards");
  check_refused({"merge", shards[0], shards[1]}, "shard 2/3 is missing");
  check_refused({"merge", shards[0], shards[1], shards[1]}, "are the same shard");
  // All that is missing is named, of many the first twenty.
  for (const int of : {3, 21, 22}) {
    const std::string first = fmt::format("0/{}", of);
    const Outcome part = run(with(command, {"--shard", first, "--format", "json"}));
    std::string missing = "1/" + std::to_string(of);
    for (int i = 2; i < of && i <= 20; ++i) missing += fmt::format(", {}/{}", i, of);
    check_refused({"merge", folder.write("first.json", part.out)},
                  fmt::format("shards {}{} are missing: run each again alone with --shard, and give the outputs of "
                              "all {}",
                              missing, of > 21 ? ", .." : "", of));
  }
  const std::string whole = folder.write("whole.json", run(with(command, {"--format", "json"})).out);
  check_refused({"merge", whole}, "is no shard");
  const std::string other =
      folder.write("other.json",
                   run({"explore", "--sglang", "pr30450", "--budget", "10", "--shard", "2/3", "--format", "json"}).out);
  check_refused({"merge", shards[0], shards[1], other}, "differs");
  check_refused({"merge", folder.write("no.json", "no")}, "no JSON at line 1");
  check_refused({"merge", folder.write("list.json", "[]")}, "was not written by");
  check_refused({"merge", (folder.path / "missing.json").string()}, "missing.json");
}

// Shards come from other machines. One that is right, with one thing changed.
TEST_CASE("merge believes of a shard only what explore can have written") {
  const ScratchFolder folder;
  const Json whole = Json::parse(
      run({"explore", "--sglang", "pr29461", "--budget", "20000", "--shard", "0/1", "--format", "json"}).out);
  const auto merged = [&](const Json& shard, const std::vector<std::string>& more = {}) {
    return run(with({"merge", folder.write("shard.json", shard.dump())}, more));
  };
  CHECK(merged(whole).exit_code == 1);
  const auto find = [](const Json& shard) -> std::size_t {
    for (std::size_t i = 0; i < shard["findings"].size(); ++i)
      if (shard["findings"][i]["outcome"] == "disagrees") return i;
    return 0;
  };
  const std::string finding = "/findings/" + std::to_string(find(whole));
  const std::vector<std::pair<std::string, Json>> changes = {
      {"/generations/0/generation", "../../escaped"},
      {finding + "/generation", "../../escaped"},
      {"/generations/0/cases", 9'223'372'036'854'775'807},
      {"/generations/0/cases", -1},
      {"/generations/0/cases", 18'446'744'073'709'551'615U},
      {"/generations/0/matrix/0/phases/verify/cases/safe", 9'007'199'254'740'992},
      {"/generations/0/matrix/0/class", "collapsed"},
      {"/generations/0/matrix", Json::array()},
      {"/generations/0/matrix/3/first_rejection", "text"},
      {"/shard/of", 0},
      {"/shard/index", 1},
      {"/shard/of", 1e300},
      {finding + "/witness/modes", Json::array()},
      {finding + "/witness/paths", {"eager"}},
      {finding + "/witness/runtime_max_tokens_per_rank", {1}},
      {finding + "/witness/tokens_per_dp_rank", {1, 2, 3, 4, 5, 6, 7, 8, 9}},
      {finding + "/witness", nullptr},
      {finding + "/configuration", 1},
      {finding + "/configuration", 1'000'000},
      {finding + "/ranks", 1'000'000'000},
      {finding + "/scenario", "name: x"},
      {finding + "/scenario", "# \u001b[2J\n" + whole[Json::json_pointer(finding + "/scenario")].get<std::string>()},
      {finding + "/message", std::string(100'000, 'x')},
      {finding + "/why", 7},
      {finding + "/id", "no_such"},
      {"/findings", {{"a", 1}}},
      {"/command", "replay"},
  };
  for (const auto& [place, value] : changes) {
    Json shard = whole;
    shard[Json::json_pointer(place)] = value;
    const Outcome outcome = merged(shard, {"--out", (folder.path / "out").string()});
    INFO(place << " = " << value.dump().substr(0, 60) << ": " << outcome.err);
    CHECK(outcome.exit_code == 2);
    CHECK(outcome.out.empty());
    CHECK(std::ranges::count(outcome.err, '\n') == 1);
    CHECK_FALSE(std::filesystem::exists(folder.path / "out"));
  }
  Json hostile = whole;  // words are data
  hostile[Json::json_pointer("/rule")] = "sh -c 'x'\u001b]0;owned\u0007\u202e";
  hostile[Json::json_pointer("/generations/0/matrix/0/first_rejection/message")] = "\u001b[31m\u009b1m no";
  for (const char* format : {"text", "json", "sarif"}) {
    const Outcome outcome = merged(hostile, {"--format", format, "--out", (folder.path / "out").string()});
    CHECK(outcome.exit_code == 1);
    for (const std::string_view control : {"\x1b", "\x07", "\xe2\x80\xae", "\xc2\x9b"})
      CHECK(outcome.out.find(control) == std::string::npos);
  }
  for (const auto& file : std::filesystem::directory_iterator(folder.path / "out")) {
    std::ifstream in(file.path());
    std::string line;
    std::getline(in, line);
    CHECK(line == "# a2asim replay --rule-cmd 'sh -c '\\''x'\\''\\x1b]0;owned\\x07\\u202e' FILE");
  }
}

TEST_CASE("explore: witnesses are shrunk, and plain launches come first") {
  // Of pr29461's own, but R rounded up to a power of two.
  const std::string rule =
      "python3 -u -c \"import json, sys\nfor line in sys.stdin:\n  v = json.loads(line)\n  assert v['max_num_tokens'] "
      "< "
      "2**31\n  need = max(max(v['dp_global'] or [v['rows']]), v['rows'], 1)\n  r = 1\n  while r < need: r *= 2\n  "
      "print(json.dumps(dict(id=v['id'], runtime_max_tokens_per_rank=min(r, v['max_num_tokens']))), flush=True)\"";
  const Outcome found = run({"explore", "--sglang", "pr29461", "--rule-cmd", rule, "--budget", "100000"});
  CHECK(found.err.empty());
  CHECK(found.exit_code == 1);
  CHECK(contains(found.out, "requests [5, 9] -> size [8, 16]"));
  CHECK_FALSE(contains(found.out, "[5, 31]"));
  const std::size_t plain = found.out.find("  collapsed "), odd = found.out.find("+small_cap");
  CHECK(plain < odd);
  CHECK(contains(found.out, "name: pr29461-collapsed-"));
  CHECK_FALSE(contains(found.out, "name: pr29461-dp_attention-small_cap"));
}

TEST_CASE("SARIF of an exploration has one result a bad cell") {
  const Json sarif = Json::parse(run({"explore", "--sglang", "pr29461", "--format", "sarif"}).out);
  CHECK(sarif["version"] == "2.1.0");
  bool found = false;
  for (const Json& result : sarif["runs"][0]["results"])
    found = found || (result["ruleId"] == "geometry_disagreement" && result["level"] == "error");
  CHECK(found);
}

TEST_CASE("options of explore that cannot be used") {
  check_refused({"explore", "--sglang", "pr1"}, "no generation");
  check_refused({"explore", "--sglang", "pr30450..pr29461"}, "older version comes first");
  check_refused({"explore", "--sglang", "pr29461.."}, "no generation");
  for (const char* budget : {"", "s", "-1", "0", "10h", "ten", "99999999999999999999"})
    check_refused({"explore", "--budget", budget}, "--budget");
  for (const char* shard : {"", "1", "1/", "/2", "3/2", "1/0", "-1/2", "a/b"})
    check_refused({"explore", "--shard", shard}, "--shard");
  check_refused({"explore", "--threads", "0"}, "--threads");
  check_refused({"explore", "--format", "xml"}, "--format");
  check_refused({"explore", "--budget", "1", "--out", "/dev/null/x"}, "--out");
  check_refused({"explore", "--", "python3"}, "takes no launch command");
}

TEST_CASE("a budget in seconds stops, and says where") {
  const Outcome found = run({"explore", "--sglang", "all", "--budget", "1s", "--threads", "1"});
  CHECK(found.exit_code != 2);
  CHECK(found.out.find("stopped by the budget before configuration") != std::string::npos);
}

TEST_CASE("the example rule is judged like the generation that it was taken from") {
  const Outcome found = run({"explore", "--sglang", "pr29461", "--rule-cmd", kExampleRule, "--budget", "100000"});
  CHECK(found.exit_code == 1);
  CHECK(found.out.find("pr29461-collapsed-graph_decode-disagrees") != std::string::npos);
  CHECK(found.out.find("the smallest error, 2 ranks") != std::string::npos);

  const auto verdict = [](const std::vector<std::string>& options) {
    return Json::parse(run(with(with({"check", "--format", "json"}, options), kCollapsedLaunch)).out)["verdict"];
  };
  CHECK(verdict({"--sglang", "pr29461", "--rule-cmd", kExampleRule}) == "disagrees");
  CHECK(verdict({"--sglang", "pr30450", "--rule-cmd", kExampleRule}) == "agrees");
  CHECK(verdict({"--sglang", "pr30450"}) == "agrees");

  const std::string scenario = A2ASIM_SOURCE_DIR "/sim/scenarios/graph_buckets.yaml";
  const auto replayed = [&](const std::vector<std::string>& options) {
    const Outcome outcome = run(with({"replay", "--format", "json", "--sglang", "pr29461", scenario}, options));
    return Json::parse(outcome.out)["scenarios"][0]["verdict"];
  };
  CHECK(replayed({"--rule-cmd", kExampleRule}) == replayed({}));
}

TEST_CASE("a rule that fails ends every command with one line") {
  const std::vector<std::string> garbage = {"--rule-cmd", "sh -c 'while read x; do echo hello; done'"};
  check_refused(with({"explore", "--sglang", "pr29461"}, garbage), "no JSON object");
  check_refused(with(with({"check"}, garbage), kCollapsedLaunch), "no JSON object");
  check_refused(with({"replay", A2ASIM_SOURCE_DIR "/sim/scenarios/graph_buckets.yaml"}, garbage), "no JSON object");
  check_refused({"explore", "--rule-cmd", "/nowhere/rule"}, "cannot start");
  check_refused({"explore", "--rule-cmd", "true"}, "before it answered");
}

}  // namespace
}  // namespace a2asim
