// Bad input gives exit code 2 and one line that says what, where and how to fix it; good input its answer.
#include <doctest/doctest.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "model/engines/sglang/generation.h"
#include "tests/cli/run.h"

namespace a2asim {
namespace {

using Args = std::vector<std::string>;
using nlohmann::json;

const std::string kServer = "python3 -m sglang.launch_server --model-path M ";
const std::string kFlashInfer =
    "--enable-dp-attention --moe-a2a-backend flashinfer --moe-runner-backend flashinfer_cutlass ";
const std::string kCollapse = kServer + kFlashInfer + "--tp 4 --dp 4 --enable-dp-lm-head --moe-dense-tp-size 1 ";

Args check(Args options, const std::string& command) {
  options.insert(options.begin(), "check");
  options.insert(options.end(), {"--", command});
  return options;
}

// One line on standard error that holds all of `parts`; nothing on standard output.
void refused(const Outcome& outcome, const std::vector<std::string>& parts) {
  CAPTURE(outcome.err);
  CAPTURE(outcome.out);
  CHECK(outcome.exit_code == kUnusableInput);
  CHECK(outcome.out.empty());
  CHECK(std::ranges::count(outcome.err, '\n') == 1);
  CHECK(outcome.err.ends_with('\n'));
  CHECK(outcome.err.starts_with("a2asim"));
  CHECK(outcome.err.size() < 1200);
  for (const std::string& part : parts) {
    CAPTURE(part);
    CHECK(contains(outcome.err, part));
  }
}

TEST_CASE("the program's own command line") {
  refused(run({}), {"check", "versions", "--help"});
  refused(run({"chek"}), {"did you mean 'check'"});
  refused(run({"frobnicate"}), {"there is no command 'frobnicate'", "check"});
  refused(run({"--frobnicate"}), {"--frobnicate"});
  refused(run({"check", "--frobnicate", "--", kServer}), {"a2asim check", "--frobnicate", "--help"});
  refused(run({"check", "--formt", "json", "--", kServer}), {"did you mean --format?"});
  refused(run({"explore", "--sglng", "v0.5.13"}), {"did you mean --sglang?"});
  refused(run({"check", "--format"}), {"--format needs a value"});
  refused(run({"check", "python3", "-m", "sglang.launch_server"}), {"--"});
  refused(run({"check", "--sglang", "pr30450", "--sglang", "pr29461", "--", kServer}),
          {"--sglang is given more than once"});
  refused(run({"generations", "--format", "sarif"}), {"--format", "text, json", "sarif"});
  refused(run({"generations", "--", "x"}), {"versions"});
}

TEST_CASE("help and version") {
  for (const Args& args : {Args{"--help"}, Args{"check", "--help"}, Args{"versions", "--help"}}) {
    const Outcome outcome = run(args);
    CHECK(outcome.exit_code == kNothingWrong);
    CHECK(outcome.err.empty());
    CHECK(contains(outcome.out, "Usage: a2asim"));
  }
  CHECK(contains(run({"--help"}).out, "Exit codes"));
  CHECK(contains(run({"check", "--help"}).out, "-- python3 -m sglang.launch_server"));
  CHECK(contains(run({"check", "--help"}).out, "Exit codes"));
  CHECK(run({"--version"}).out == "a2asim " + std::string(program_version()) + "\n");
  CHECK(run({"check", "--version"}).out == run({"--version"}).out);
  CHECK(run({"help", "check"}).out == run({"check", "--help"}).out);
  CHECK(run({"help"}).out == run({"--help"}).out);
  CHECK(run({"generations"}).out == run({"versions"}).out);
  for (const char* hidden : {"  merge", "  completion", "  man "}) CHECK_FALSE(contains(run({"--help"}).out, hidden));
  CHECK(contains(run({"help", "explore", "merge"}).out, "merge"));
}

TEST_CASE("no launch command") {
  refused(run({"check"}, "", true), {"no launch command", "`--`"});
  refused(run({"check"}, ""), {"no launch command", "standard input"});
  refused(run({"check"}, " \n\t\n"), {"no launch command"});
  refused(run({"check", "--"}), {"command"});
  refused(run(check({}, "")), {"command"});
  const TemporaryFile file("empty.sh", "\n");
  refused(run({"check", "--file", file.path}), {"empty.sh", "empty"});
}

TEST_CASE("files that are none, or no text") {
  refused(run({"check", "--file", "/nonexistent/serve.sh"}), {"/nonexistent/serve.sh", "does not exist"});
  refused(run({"check", "/"}), {"more than 10000 files"});
  refused(run({"check", "--file", ""}), {"does not exist"});
  const TemporaryFile binary("binary.sh", std::string("\x7F"
                                                      "ELF\0\0\0",
                                                      7));
  refused(run({"check", "--file", binary.path}), {"binary.sh", "no text", "byte 5"});
  const TemporaryFile latin("latin.sh", kServer + "\xE9");
  refused(run({"check", "--file", latin.path}), {"no text", "UTF-8"});
  refused(run({"check"}, kServer + std::string(1, '\0')), {"standard input", "no text"});
  refused(run({"check"}, kServer + std::string(10 << 20, 'x')), {"MiB"});
  refused(run({"check"}, kServer + std::string(2 << 20, 'x')), {"MiB"});
  refused(run({"check", "--file", "/dev/zero"}), {"MiB"});
  const TemporaryFile good("good.sh", kServer);
  refused(run({"check", "--file", good.path, "--", kServer}), {"one of them"});
}

TEST_CASE("a value that argparse refuses: the nearest choice, and the version that takes it") {
  const auto fix = [](const char* sglang, const std::string& flags) -> std::string {
    const Outcome outcome = run(check({"--sglang", sglang, "--format", "json"}, kServer + flags));
    CHECK(outcome.exit_code == kErrorFound);
    return json::parse(outcome.out).at("findings").at(0).at("fix");
  };
  CHECK(fix("pr30450", "--moe-a2a-backend depep") ==
        "give --moe-a2a-backend deepep (now depep); no version that is known here takes depep");
  CHECK(contains(fix("pr14668", "--moe-a2a-backend pplx"),
                 "use SGLang of 2026-08-23 (main20260823 or newer), which knows pplx"));
  CHECK(contains(fix("pr14668", "--moe-a2a-backend pplx"), "one of none, deepep, mooncake"));
}

TEST_CASE("what a shell loses or does not fill in is said where everybody sees it") {
  const std::string head = "python3 -m sglang.launch_server --model-path M --tp 8 ";
  const Outcome lost = run({"check"}, head + "\\\n  --max-running-requests 16384\n  --moe-a2a-backend deepep\n");
  CHECK(lost.exit_code == kNothingWrong);
  CHECK(contains(lost.out, "OUT_OF_SCOPE"));
  CHECK(contains(lost.out, "warning"));
  CHECK(contains(lost.out, "is a backslash missing at the end of line 2?"));
  const Outcome open = run({"check"}, head + "--node-rank $RANK --port $PORT --mem-fraction-static ${F:-0.8}");
  CHECK(open.exit_code == kNothingWrong);
  CHECK(contains(open.out, "--node-rank $RANK: the command does not set this value"));
  refused(run({"check"}, head + "--dp $DP"), {"$DP", "write its value"});
  CHECK(contains(
      run({"check"}, "services:\n  s:\n    command: >\n      " + head + "\n      --moe-a2a-backend mooncake\n").out,
      "all-to-all mooncake"));
}

TEST_CASE("commands that cannot be read") {
  refused(run(check({}, kServer + "--tp 'abc")), {"quote"});
  refused(run(check({}, kServer + "--tp abc")), {"--tp", "abc"});
  refused(run(check({}, kServer + "--tp 0")), {"tp", "0"});
  refused(run(check({}, kServer + "--tp -4")), {"tp", "-4"});
  refused(run(check({}, kServer + "--tp 99999999999999999999")), {"tp", "99999999999999999999"});
  refused(run(check({}, kServer + "--tp 4611686018427387904")), {"tp", "4611686018427387904"});
  refused(run(check({}, "lmdeploy serve api_server M --tp 8")), {"starts no server that is known here"});
  refused(run(check({}, "ls -l")), {"sglang"});
  // Ambiguous from June 2026 on, and both names are said.
  refused(run(check({}, kServer + "--enable-dp-att")), {"--enable-dp-attention"});
}

TEST_CASE("check: what argparse does not recognize is refused, with what was probably meant") {
  const auto rejected = [](const std::string& options) {
    const Outcome outcome = run(check({"--sglang", "v0.5.16", "--format", "json"}, kServer + "--tp 8 " + options));
    CHECK(outcome.exit_code == kErrorFound);
    const json document = json::parse(outcome.out);
    CHECK(document["verdict"] == "rejected");
    return document["findings"][0];
  };
  CHECK(contains(rejected("--not-a-flag")["message"].get<std::string>(), "unrecognized arguments: --not-a-flag"));
  CHECK(rejected("--enable-dp-atention")["fix"] == "write --enable-dp-attention for --enable-dp-atention");
  CHECK(rejected("\u2013dp 8")["fix"] == "write --dp for \u2013dp");  // a word processor's dash
  CHECK(rejected("\u2013-dp 8")["fix"] == "write --dp for \u2013-dp");
  CHECK(contains(rejected("stray")["fix"].get<std::string>(), "leave out stray"));
  // The newest list is not the last one that there will be.
  refused(run(check({}, kServer + "--tp 8 --enable-dp-atention")), {"--enable-dp-attention", "name the version"});
  // A front end of its own has options of its own.
  CHECK(run(check({"--sglang", "v0.5.16"}, "python3 -m dynamo.sglang --model-path M --tp 8 --namespace x")).exit_code ==
        kNothingWrong);
}

TEST_CASE("check: a tensor-parallel size that dp_size does not divide comes with one that it does") {
  const Outcome outcome = run(check({}, kServer + "--dp 8 --enable-dp-attention"));
  CHECK(outcome.exit_code == kErrorFound);
  CHECK(contains(outcome.out, "set --tp-size 8 (now 1)"));
}

TEST_CASE("words and text are read alike") {
  const Args words = {"check",        "--format", "json", "--", "python3", "-m", "sglang.launch_server",
                      "--model-path", "M",        "--tp", "4"};
  const auto answer = [](const Outcome& outcome) {
    CHECK(outcome.exit_code == kNothingWrong);
    json document = json::parse(outcome.out);
    for (const char* where : {"file", "line"}) document["servers"][0].erase(where);
    for (json& finding : document["findings"]) finding.erase("fingerprint");
    for (json& finding : document["servers"][0]["findings"]) finding.erase("fingerprint");
    return document;
  };
  const json as_words = answer(run(words));
  CHECK(as_words == answer(run(check({"--format", "json"}, kServer + "--tp 4"))));
  CHECK(as_words == answer(run({"check", "--format", "json"}, kServer + "--tp 4\n")));
  CHECK(as_words == answer(run({"check", "--format", "json", "--file", "-"}, kServer + "\\\n  --tp 4\n")));
  const TemporaryFile file("serve.sh", "\xEF\xBB\xBF# my server\n" + kServer + "\\\n--tp 4\n");
  CHECK(as_words == answer(run({"check", "--format", "json", "--file", file.path})));
}

TEST_CASE("generations: unknown ones are refused with where to look") {
  for (const char* text : {"pr1", "v9.9.9", "newst", "", "2026-13-45", "v0.5.99"}) {
    CAPTURE(text);
    refused(run(check({"--sglang", text}, kServer)), {"--sglang"});
  }
  for (const char* text : {"pr30450", "30450", "#30450", "2026-07-08"}) {
    CAPTURE(text);
    CHECK(json::parse(run(check({"--format", "json", "--sglang", text}, kServer)).out)["generation"] == "pr30450");
  }
}

TEST_CASE("generations: the table and its JSON list all of them") {
  const Outcome text = run({"generations"});
  const json document = json::parse(run({"generations", "--format", "json"}).out);
  CHECK(text.exit_code == kNothingWrong);
  REQUIRE(document["generations"].size() == generations().size());
  for (const json& row : document["generations"]) {
    CHECK(contains(text.out, row["name"].get<std::string>()));
    CHECK(contains(text.out, row["date"].get<std::string>()));
    CHECK(contains(text.out, row["flashinfer"].get<std::string>()));
    CHECK_FALSE(row["changed"].get<std::string>().empty());
  }
  CHECK(document["default"] == document["generations"].back()["name"]);
}

TEST_CASE("model shapes: numbers") {
  const auto with = [](Args options) { return run(check(std::move(options), kServer)); };
  refused(with({"--num-experts", "256"}), {"--top-k", "--hidden-size"});
  refused(with({"--num-experts", "0", "--top-k", "8", "--hidden-size", "7168"}), {"--num-experts", "'0'"});
  refused(with({"--num-experts", "99999999999999999999", "--top-k", "8", "--hidden-size", "7168"}), {"--num-experts"});
  refused(with({"--num-experts", "4", "--top-k", "8", "--hidden-size", "7168"}), {"--top-k 8", "--num-experts 4"});
  refused(with({"--num-experts", "256", "--top-k", "x", "--hidden-size", "7168"}), {"--top-k", "'x'"});
  refused(with({"--num-experts", "256", "--top-k", "8", "--hidden-size", "-1"}), {"--hidden-size", "'-1'"});
  refused(with({"--model", "DeepSeek-V3", "--top-k", "8"}), {"exclude"});
  refused(with({"--model", "No-Such-Model"}), {"--model", "No-Such-Model"});
  for (const char* text : {"nan", "-80", "0", "inf", "80GB", "", "1e400"}) {
    CAPTURE(text);
    refused(with({"--gpu-memory", text}), {"--gpu-memory"});
  }
  CHECK(with({"--gpu-memory", "139.8"}).exit_code == kNothingWrong);
}

TEST_CASE("model shapes: config.json") {
  const auto with = [](const std::string& content) {
    const TemporaryFile file("config.json", content);
    return run(check({"--format", "json", "--model-config", file.path}, kCollapse));
  };
  refused(with("{}"), {"config.json", "num_experts"});
  refused(with(R"({"num_experts": 256, "hidden_size": 7168})"), {"num_experts_per_tok"});
  refused(with(R"({"num_experts": 256, "num_experts_per_tok": 8})"), {"hidden_size"});
  refused(with(R"({"num_experts": "many"})"), {"num_experts", "many"});
  refused(with(R"({"num_experts": 1e999})"), {"config.json"});
  refused(with(R"({"num_experts": 18446744073709551615})"), {"num_experts"});
  refused(with("[1]"), {"no JSON object"});
  refused(with("{\n  \"num_experts\": }"), {"line 2"});
  refused(with(std::string(100000, '[')), {"nested"});
  refused(run(check({"--model-config", "/nonexistent.json"}, kServer)), {"--model-config", "does not exist"});

  const auto workspace = [](const Outcome& outcome) {
    CAPTURE(outcome.err);
    const json bytes = json::parse(outcome.out)["capacity"]["workspace_bytes_per_rank"];
    CHECK(bytes.is_number_integer());
    return bytes;
  };
  const json expected = workspace(
      run(check({"--format", "json", "--num-experts", "256", "--top-k", "8", "--hidden-size", "7168"}, kCollapse)));
  CHECK(workspace(with(R"({"n_routed_experts": 256, "num_experts_per_tok": 8, "hidden_size": 7168})")) == expected);
  CHECK(workspace(with(R"({"text_config": {"num_local_experts": 256, "moe_topk": 8, "hidden_size": 7168}})")) ==
        expected);
  CHECK(workspace(run(check({"--format", "json", "--model", "deepseek-v3"}, kCollapse))) == expected);
}

TEST_CASE("environment: in the command and with --env") {
  const std::string cap = "SGLANG_FLASHINFER_NUM_MAX_DISPATCH_TOKENS_PER_RANK";
  const auto max_num_tokens = [](const Outcome& outcome) {
    CAPTURE(outcome.err);
    return json::parse(outcome.out)["capacity"]["max_num_tokens"];
  };
  CHECK(max_num_tokens(run(check({"--format", "json", "--env", cap + "=640"}, kCollapse))) == 640);
  CHECK(max_num_tokens(run(check({"--format", "json"}, cap + "=640 " + kCollapse))) == 640);
  CHECK(max_num_tokens(run({"check", "--format", "json"}, "export " + cap + "=640\n" + kCollapse)) == 640);
  refused(run(check({"--env", "NOTHING"}, kServer)), {"--env", "NAME=VALUE", "NOTHING"});
  refused(run(check({"--env", "=1"}, kServer)), {"--env"});
  refused(run(check({"--env", "A B=1"}, kServer)), {"--env"});
}

TEST_CASE("two values for one flag: the last wins, with a note") {
  const json document = json::parse(run(check({"--format", "json"}, kServer + "--tp 2 --tp 4")).out);
  CHECK(document["topology"]["tp_size"] == 4);
  const bool said = std::ranges::any_of(document["findings"], [](const json& finding) {
    return finding["severity"] == "note" && contains(finding["message"].get<std::string>(), "tp");
  });
  CHECK(said);
}

TEST_CASE("the collapse: broken, hidden, broken again for graphs, cured") {
  const Args shape = {"--num-experts", "256", "--top-k", "8", "--hidden-size", "7168", "--format", "json", "--sglang"};
  const auto with = [&](const char* generation) {
    Args options = shape;
    options.push_back(generation);
    return run(check(options, kCollapse));
  };
  const Outcome broken = with("pr29461");
  CHECK(broken.exit_code == kErrorFound);
  const json document = json::parse(broken.out);
  CHECK(document["verdict"] == "disagrees");
  const bool shown = std::ranges::any_of(document["findings"], [](const json& finding) {
    if (finding["phase"] != "graph_decode" || finding["severity"] != "error") return false;
    const json& tokens = finding["witness"]["tokens_per_dp_rank"];
    const json& sizes = finding["witness"]["runtime_max_tokens_per_rank"];
    const auto unequal = [](const json& list) {
      return std::ranges::adjacent_find(list, std::not_equal_to{}) != list.end();
    };
    return tokens.size() == 4 && unequal(tokens) && unequal(sizes);
  });
  CHECK(shown);
  for (const char* generation : {"pr27945", "pr30450"}) {
    CAPTURE(generation);
    const Outcome fine = with(generation);
    CHECK(fine.exit_code == kNothingWrong);
    CHECK(json::parse(fine.out)["verdict"] == "agrees");
  }
}

TEST_CASE("text: the version and why, then the verdict, on one screen") {
  for (const Generation& generation : generations()) {
    CAPTURE(generation.name);
    const Outcome outcome = run(check({"--sglang", std::string(generation.name)}, kCollapse));
    CHECK(outcome.out.starts_with("sglang " + std::string(generation.name)));
    CHECK(contains(outcome.out.substr(0, outcome.out.find('\n')), ": --sglang"));
    const bool agrees = contains(outcome.out, "\nAGREES: ");
    CHECK(agrees != contains(outcome.out, "\nDISAGREES: "));
    CHECK(outcome.exit_code == (agrees ? kNothingWrong : kErrorFound));
    CHECK(std::ranges::count(outcome.out, '\n') <= 24);
  }
}

}  // namespace
}  // namespace a2asim
