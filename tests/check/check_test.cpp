#include "model/check/check.h"

#include <algorithm>

#include "model/check/check_explain.h"
#include "tests/launch.h"

using namespace a2asim;
using test::deploy;

namespace {

const CheckFinding* find(const CheckReport& report, std::string_view id, Phase phase) {
  const auto found = std::find_if(report.findings.begin(), report.findings.end(), [&](const CheckFinding& finding) {
    return name(finding.kind) == id && finding.phase == phase;
  });
  return found == report.findings.end() ? nullptr : &*found;
}

CheckReport check(std::string_view generation, const std::string& command,
                  std::optional<ModelShape> model = ModelShape{256, 8, 7168}) {
  return check_deployment(*deploy(generation, command, model));
}

constexpr std::string_view kCap = "SGLANG_FLASHINFER_NUM_MAX_DISPATCH_TOKENS_PER_RANK=";

}  // namespace

TEST_CASE("the collapse by generation") {
  const std::string command(test::kCollapsed);
  CHECK(check("pr26643", command).verdict == Verdict::disagrees);
  CHECK(check("pr27945", command).verdict == Verdict::agrees);
  CHECK(check("pr29461", command).verdict == Verdict::disagrees);
  CHECK(check("pr30450", command).verdict == Verdict::agrees);
}

TEST_CASE("a disagreement comes with a smallest witness, the chain and the fix") {
  const CheckReport report = check("pr29461", std::string(test::kCollapsed));
  const CheckFinding* finding = find(report, "geometry_disagreement", Phase::graph_decode);
  REQUIRE(finding != nullptr);
  CHECK(finding->severity == Severity::error);
  REQUIRE(finding->witness.has_value());
  CHECK(finding->witness->tokens_per_dp_rank == std::vector<std::int64_t>{2, 0, 0, 0});
  CHECK(finding->witness->runtime_max_tokens_per_rank == std::vector<std::optional<std::int64_t>>{2, 1, 1, 1});
  CHECK(finding->fix.find("--enable-dp-lm-head") != std::string::npos);
  CHECK(finding->chain.front().find("require_mlp_tp_gather is false") != std::string::npos);
  // Both flags that the fix offers to drop are among the conditions, with what is needed and what is there.
  CHECK(std::ranges::count(finding->any_of, Condition{"--enable-dp-lm-head", "not set", "set"}) == 1);
  CHECK(std::ranges::count(finding->any_of, Condition{"--moe-dense-tp-size", "not set", "1"}) == 1);
  CHECK(std::ranges::count(finding->any_of, Condition{"--moe-a2a-backend", "none", "flashinfer"}) == 1);
  CHECK(finding->any_of.size() == 4);
  CHECK(finding->chain.back().ends_with("R = 1 (same on ranks 2 and 3)"));
  CHECK(find(report, "geometry_disagreement", Phase::eager_decode) == nullptr);  // eager uses the cap
}

TEST_CASE("the chain has a line for four outcomes, and counts the ranks whose outcome has none") {
  const auto deployment =
      deploy("pr25907",
             "python3 -m sglang.launch_server --model-path M --tp 8 --dp 8 --enable-dp-attention --enable-dp-lm-head "
             "--moe-dense-tp-size 1 "
             "--moe-a2a-backend flashinfer --moe-runner-backend flashinfer_cutlass --disable-cuda-graph");
  TroubledBatch batch;
  batch.phase = Phase::eager_decode;
  for (const std::int64_t count : {7, 2, 3, 2, 9, 4, 6, 6}) {
    batch.batches.push_back({ForwardMode::decode, count});
    RankDecision decision;
    decision.rows = decision.sizing.runtime_max_tokens_per_rank = count;
    batch.decisions.push_back(decision);
  }
  const std::vector<std::string> chain = explain_disagreement(*deployment, batch).chain;
  REQUIRE(chain.size() == 7);  // two of the flags, four outcomes, and the rest
  CHECK(chain.at(3).starts_with("DP rank 1: 2 requests"));
  CHECK(chain.at(3).ends_with("R = 2 (same on rank 3)"));
  CHECK(chain.at(6) == "3 more DP ranks use other R, from 4 to 6");
  batch.batches.resize(6);
  batch.decisions.resize(6);
  CHECK(explain_disagreement(*deployment, batch).chain.back() == "1 more DP rank uses other R, 4");
}

TEST_CASE("without graphs #29461 agrees: only the eager path matters, and it wastes") {
  const CheckReport report = check("pr29461", std::string(test::kCollapsed) + "--disable-cuda-graph");
  CHECK(report.verdict == Verdict::agrees);
  CHECK(find(report, "wasted", Phase::eager_decode) != nullptr);
}

TEST_CASE("an explicit chunk above an explicit cap is an error with both numbers, an open one is a note") {
  const std::string command = std::string(kCap) + "1024 " + std::string(test::kGathered);
  const CheckReport over = check("pr30450", command + "--chunked-prefill-size 32768 --max-running-requests 64");
  CHECK(over.verdict == Verdict::over_capacity);
  const CheckFinding* finding = find(over, "over_capacity", Phase::prefill);
  REQUIRE(finding != nullptr);
  CHECK(finding->witness->tokens_per_dp_rank.front() == 1025);
  CHECK(finding->fix.find("8192") != std::string::npos);  // the variable, for 32768 / 4
  CHECK(finding->fix.find("--chunked-prefill-size 4096 (now 32768 / dp_size 4 = 8192 per rank)") != std::string::npos);

  const CheckReport open = check("pr30450", command + "--max-running-requests 64");
  CHECK(open.verdict == Verdict::agrees);
  CHECK(find(open, "chunk_open", Phase::prefill) != nullptr);
}

TEST_CASE("an unset request limit is a note with the threshold, never an error") {
  const CheckReport report =
      check("pr30450", std::string(kCap) + "64 " + std::string(test::kGathered) + "--chunked-prefill-size 256");
  CHECK(report.verdict == Verdict::agrees);
  const CheckFinding* note = find(report, "request_limit_open", Phase::eager_decode);
  REQUIRE(note != nullptr);
  CHECK(note->message.find("safe up to 64 running requests per rank") != std::string::npos);
}

TEST_CASE("with the cap baked, a bucket above it overflows silently") {
  const CheckReport report =
      check("pr27945", std::string(kCap) + "16 " + std::string(test::kCollapsed) +
                           "--max-running-requests 512 --cuda-graph-max-bs 160 --disaggregation-mode decode "
                           "--chunked-prefill-size 512");
  CHECK(report.verdict == Verdict::over_capacity);
  const CheckFinding* finding = find(report, "over_capacity", Phase::graph_decode);
  REQUIRE(finding != nullptr);
  CHECK(finding->consequence.find("nothing checks it") != std::string::npos);
}

TEST_CASE("a skipped all-gather with the predicate true is refused on the first forward") {
  const CheckReport report = check("pr26643", "SGLANG_SCHEDULER_SKIP_ALL_GATHER=1 " + std::string(test::kGathered));
  CHECK(report.verdict == Verdict::rejected);
  CHECK(report.findings.front().fix.find("SGLANG_SCHEDULER_SKIP_ALL_GATHER") != std::string::npos);
}

TEST_CASE("a skipped all-gather under #35758: one rank leaves for the all-gatherv, the idle ones assert") {
  const CheckReport report = check("pr35758", "SGLANG_SCHEDULER_SKIP_ALL_GATHER=1 " + std::string(test::kGathered) +
                                                  "--disaggregation-mode prefill");
  CHECK(report.verdict == Verdict::rejected);
}

TEST_CASE("what FlashInfer refuses whatever the batch") {
  CHECK(check("pr14668", std::string(test::kGathered), ModelShape{512, 10, 4096}).verdict == Verdict::rejected);
  CHECK(check("pr26643", std::string(test::kGathered), ModelShape{512, 10, 4096}).verdict == Verdict::agrees);
  CHECK(check("pr30450", std::string(test::kGathered), ModelShape{258, 8, 4096}).verdict == Verdict::rejected);
  CHECK(check("main20260823", std::string(test::kGathered), ModelShape{258, 8, 4096}).verdict == Verdict::agrees);
}

TEST_CASE("a request limit below dp_size leaves a rank without requests: refused") {
  CHECK(check("pr30450", std::string(test::kGathered) + "--max-running-requests 3").verdict == Verdict::rejected);
}

TEST_CASE("without the model's shape the cap is known and the bytes are not") {
  const CheckReport report = check("pr30450", std::string(test::kGathered), std::nullopt);
  CHECK(report.verdict == Verdict::agrees);
  REQUIRE(report.capacity.has_value());
  CHECK(report.capacity->max_num_tokens == 4096);
  CHECK_FALSE(report.workspace_known);
  CHECK(find(report, "model_unknown", Phase::start) != nullptr);
}

TEST_CASE("backends with a static cap, and none") {
  const std::string deepep =
      "python3 -m sglang.launch_server --model-path M --tp 8 --dp 8 --enable-dp-attention --moe-a2a-backend deepep ";
  CHECK(check("pr27945", deepep + "--max-running-requests 1024 --deepep-mode low_latency --disaggregation-mode decode")
            .verdict == Verdict::agrees);
  CHECK(check("pr27945", deepep + "--max-running-requests 1032 --deepep-mode low_latency --disaggregation-mode decode")
            .verdict == Verdict::over_capacity);
  CHECK(check("pr27945", "python3 -m sglang.launch_server --model-path M --tp 8").verdict == Verdict::out_of_scope);
}

TEST_CASE("precedence: rejected before disagrees before over_capacity") {
  const std::string both = std::string(kCap) + "4 " + std::string(test::kCollapsed) +
                           "--max-running-requests 512 --chunked-prefill-size 8192";
  CHECK(check("pr25907", both).verdict == Verdict::disagrees);
  CHECK(check("pr25907", both + " --moe-runner-backend triton").verdict == Verdict::rejected);
}
