// Every fix that check offers for a batch above the cap, applied to the command as a person would, cures it.
#include "model/check/capacity_fix.h"

#include <fmt/format.h>

#include <map>
#include <string>
#include <vector>

#include "model/base/random.h"
#include "model/check/check.h"
#include "model/engines/sglang/generation.h"
#include "tests/launch.h"

using namespace a2asim;
using test::deploy;

namespace {

CheckReport checked(std::string_view generation, const std::string& command) {
  return check_deployment(*deploy(generation, command));
}

// The command with one alternative of a fix applied; counts the names that were seen.
std::string fixed(const std::string& command, const Fix& fix, std::map<std::string, int>& seen) {
  CHECK_FALSE(fix.steps.empty());
  for (const FixStep& step : fix.steps) ++seen[step.name];
  LaunchCommand launch = parse_launch_command(command).value();
  CHECK(apply(fix, launch, {}));
  return print(launch);
}

// Applies every alternative of every error; the number of errors above the cap.
int check_fixes(std::string_view generation, const std::string& command, std::map<std::string, int>& seen) {
  CAPTURE(generation);
  CAPTURE(command);
  int errors = 0;
  const CheckReport report = checked(generation, command);
  if (report.verdict != Verdict::over_capacity) return 0;  // it may disagree too, which no limit cures
  for (const CheckFinding& finding : report.findings) {
    if (finding.kind != FindingKind::over_capacity || finding.severity != Severity::error) continue;
    ++errors;
    CAPTURE(finding.fix);
    for (const Fix& alternative : finding.fixes) {
      CAPTURE(in_words(alternative));
      CHECK(checked(generation, fixed(command, alternative, seen)).verdict == Verdict::agrees);
    }
  }
  return errors;
}

std::string fix_of(std::string_view generation, const std::string& command) {
  const CheckReport report = checked(generation, command);
  REQUIRE(report.verdict == Verdict::over_capacity);
  return report.findings.front().fix;
}

std::string server(int cap, int size) {
  return fmt::format(
      "SGLANG_FLASHINFER_NUM_MAX_DISPATCH_TOKENS_PER_RANK={} python3 -m sglang.launch_server --model-path M --tp {} "
      "--dp {} "
      "--enable-dp-attention --moe-a2a-backend flashinfer --moe-runner-backend flashinfer_cutlass ",
      cap, size, size);
}

bool contains(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("fix: the flag that made the batch is named, with a number that cures") {
  // pr26643 rounds counts up to a multiple of 2, so that 1025 tokens a rank would become 1026.
  const std::string chunk =
      fix_of("pr26643", server(1025, 2) + "--max-running-requests 16 --chunked-prefill-size 65536");
  CHECK(contains(chunk, "set --chunked-prefill-size 2048 (now 65536 / dp_size 2 = 32768 per rank)"));
  CHECK_FALSE(contains(chunk, "--max-running-requests"));
  const std::string requests =
      fix_of("pr24850",
             "SGLANG_FLASHINFER_NUM_MAX_DISPATCH_TOKENS_PER_RANK=31 python3 -m sglang.launch_server --tp 2 --dp 2 "
             "--model-path M --enable-dp-attention --moe-a2a-backend flashinfer --moe-runner-backend "
             "flashinfer_cutlass --max-running-requests 200 --chunked-prefill-size 64 --disable-cuda-graph");
  CHECK(contains(requests, "set --max-running-requests 124 (now 200 / dp_size 2 = 100 per rank)"));
}

TEST_CASE("fix: a batch of a small rank beside a large chunk is the chunk's") {
  const std::string fix = fix_of("pr22394", server(255, 2) +
                                                "--max-running-requests 16 --chunked-prefill-size 512 "
                                                "--cuda-graph-max-bs 200");
  CHECK(contains(fix, "set SGLANG_FLASHINFER_NUM_MAX_DISPATCH_TOKENS_PER_RANK=256 or more (the cap is 255 now)"));
  CHECK(contains(fix, "set --chunked-prefill-size 510 (now 512 / dp_size 2 = 256 per rank)"));
  CHECK_FALSE(contains(fix, "--max-running-requests"));
}

TEST_CASE("fix: with a cap of 0 only the variable cures") {
  const std::string fix =
      fix_of("pr30450", server(0, 4) + "--max-running-requests 64 --chunked-prefill-size 512 --cuda-graph-max-bs 8");
  CHECK(contains(fix, "set SGLANG_"));
  CHECK_FALSE(contains(fix, " --"));
}

TEST_CASE("fix: without chunks the bound of a prefill batch is --max-prefill-tokens") {
  const std::string fix = fix_of("pr30450", server(4096, 4) +
                                                "--max-running-requests 64 --chunked-prefill-size -1 "
                                                "--cuda-graph-max-bs 8");
  CHECK(contains(fix, "set --max-prefill-tokens 4096 (now 16384, the bound without chunks)"));
}

TEST_CASE("fix: two limits above the cap are lowered together") {
  const std::string fix =
      fix_of("pr30450", server(64, 4) + "--max-running-requests 500 --chunked-prefill-size 4096 --cuda-graph-max-bs 8");
  CHECK(contains(fix,
                 "set --chunked-prefill-size 256 (now 4096 / dp_size 4 = 1024 per rank), and set "
                 "--max-running-requests 256 (now 500 / dp_size 4 = 125 per rank)"));
}

TEST_CASE(
    "fix: January's request pool is not divided by dp_size, so that a bucket can be larger than a rank's requests") {
  const std::string command = server(63, 2) +
                              "--max-running-requests 64 --chunked-prefill-size 64 --speculative-algorithm "
                              "NGRAM --speculative-num-steps 3 --speculative-eagle-topk 2 "
                              "--speculative-num-draft-tokens 4";
  std::map<std::string, int> seen;
  CHECK(check_fixes("pr14668", command, seen) > 0);
  CHECK(seen["--max-running-requests"] > 0);
}

TEST_CASE("fix: a graph bucket above the cap, with requests below it") {
  const std::string command = server(20, 2) + "--max-running-requests 64 --chunked-prefill-size 16 ";
  std::map<std::string, int> seen;
  CHECK(check_fixes("pr14668", command + "--cuda-graph-bs 8 64 2", seen) > 0);
  CHECK(check_fixes(
            "pr14668",
            server(17, 2) + "--max-running-requests 66 --chunked-prefill-size 16 --cuda-graph-max-bs 64",  // bucket 40
            seen) > 0);
  CHECK(seen["--cuda-graph-bs"] > 0);
  CHECK(seen["--cuda-graph-max-bs"] > 0);
}

TEST_CASE("fix: backends with a static cap") {
  const std::string command =
      "python3 -m sglang.launch_server --model-path M --tp 8 --dp 4 --enable-dp-attention "
      "--deepep-mode low_latency ";
  std::map<std::string, int> seen;
  const std::string limits = "--max-running-requests 4096 --chunked-prefill-size 2048";
  for (const char* backend : {"deepep", "mooncake", "nixl"})
    CHECK(check_fixes("pr30450", command + limits + " --moe-a2a-backend " + backend, seen) > 0);
  CHECK(seen["SGLANG_DEEPEP_NUM_MAX_DISPATCH_TOKENS_PER_RANK"] > 0);
  CHECK(seen["--max-running-requests"] > 0);
  CHECK(seen["--chunked-prefill-size"] > 0);
  seen.clear();  // 4096 tokens a rank: no value of the variable is accepted
  CHECK(check_fixes("pr30450",
                    command + "--max-running-requests 32768 --max-total-tokens 99999999 --chunked-prefill-size 64 "
                              "--moe-a2a-backend deepep",
                    seen) > 0);
  CHECK_FALSE(seen.contains("SGLANG_DEEPEP_NUM_MAX_DISPATCH_TOKENS_PER_RANK"));
}

TEST_CASE("fix: every fix that is offered for a drawn launch cures it, in every generation") {
  constexpr int kDraws = 60;  // a generation
  Random random(20260823);
  const auto pick = [&](auto... values) {
    const std::vector all = {values...};
    return all[random.below(static_cast<std::uint32_t>(all.size()))];
  };
  std::map<std::string, int> seen;
  for (const Generation& generation : generations()) {
    int errors = 0;
    for (int draw = 0; draw < kDraws; ++draw) {
      std::string command = server(pick(0, 1, 7, 16, 63, 64, 255, 1025, 2000), pick(2, 4, 8));
      command += fmt::format("--max-running-requests {} --chunked-prefill-size {} ",
                             pick(8, 16, 64, 100, 500, 4100, 8192), pick(-1, 16, 512, 1000, 4096, 65536));
      command += pick(std::string("--disable-cuda-graph "), std::string("--cuda-graph-max-bs 200 "),
                      std::string("--cuda-graph-max-bs 8 "), std::string("--cuda-graph-bs 4 1 256 32 "));
      command +=
          pick(std::string(), std::string(),
               std::string("--speculative-algorithm STANDALONE --speculative-num-steps 3 --speculative-eagle-topk 2 "
                           "--speculative-num-draft-tokens 4 "));
      command += pick(std::string(), std::string(), std::string("--enable-dp-lm-head --moe-dense-tp-size 1 "));
      command += pick(std::string(), std::string("--disaggregation-mode decode "),
                      std::string("--disaggregation-mode prefill "));
      errors += check_fixes(generation.name, command, seen);
    }
    CAPTURE(generation.name);
    CHECK(errors >= 5);
  }
  for (const std::string name : {"SGLANG_FLASHINFER_NUM_MAX_DISPATCH_TOKENS_PER_RANK", "--chunked-prefill-size",
                                 "--max-prefill-tokens", "--max-running-requests"}) {
    CAPTURE(name);
    CHECK(seen[name] > 0);
  }
}
