// What the limits of a command settle, what they leave open, and what a start refuses: through check, end to end.
#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "model/check/check.h"
#include "model/engines/sglang/deployment.h"
#include "tests/launch.h"
#include "tools/program/model_config.h"

using namespace a2asim;

namespace {

constexpr std::string_view kServer = "python3 -m sglang.launch_server --model-path M ";
constexpr std::string_view kDp8 = "python3 -m sglang.launch_server --model-path M --tp 8 --dp 8 --enable-dp-attention ";

struct Question {
  std::string_view generation = "pr30450";
  std::optional<std::int64_t> cap = std::nullopt;
  std::optional<double> gpu_memory_gib = std::nullopt;
  std::optional<std::string> model_quantization = std::nullopt;
};

CheckReport check(const Question& question, const std::string& command) {
  const auto match = engines().front()->find_version(question.generation);
  REQUIRE(match.has_value());
  DeployOptions options;
  options.version = *match;
  if (question.cap)
    options.env.set("SGLANG_FLASHINFER_NUM_MAX_DISPATCH_TOKENS_PER_RANK", std::to_string(*question.cap));
  options.model = ModelShape{256, 8, 7168};
  options.gpu_memory_gib = question.gpu_memory_gib;
  options.model_quantization = question.model_quantization;
  const auto deployed = deploy_command(command, options);
  REQUIRE(deployed.has_value());
  REQUIRE_MESSAGE(deployed->deployment, (deployed->refused ? deployed->refused->message : ""));
  return check_deployment(*deployed->deployment);
}

const CheckFinding* find(const CheckReport& report, std::string_view id, std::string_view part = "") {
  const auto found = std::ranges::find_if(report.findings, [&](const CheckFinding& finding) {
    return name(finding.kind) == id && finding.message.find(part) != std::string::npos;
  });
  return found == report.findings.end() ? nullptr : &*found;
}

std::string gathered(std::string_view flags) { return std::string(test::kGathered) + std::string(flags); }
std::string server(std::string_view flags) { return std::string(kServer) + std::string(flags); }
std::string dp8(std::string_view flags) { return std::string(kDp8) + std::string(flags); }

std::size_t errors(const CheckReport& report) {
  return static_cast<std::size_t>(std::ranges::count(report.findings, Severity::error, &CheckFinding::severity));
}

}  // namespace

TEST_CASE("a graph size above the cap is captured at the start, whatever the request limit") {
  for (const auto& [sizes, fix] : {std::pair{"--cuda-graph-max-bs 256", "set --cuda-graph-max-bs 64 (now 256)"},
                                   std::pair{"--cuda-graph-bs 1 2 128", "set --cuda-graph-bs 1 2 (now 1 2 128)"}}) {
    CAPTURE(sizes);
    const CheckReport report = check({.cap = 64}, gathered(sizes));
    CHECK(report.verdict == Verdict::over_capacity);
    const CheckFinding* const finding = find(report, "over_capacity", "captured at the start");
    REQUIRE(finding != nullptr);
    CHECK(finding->severity == Severity::error);
    CHECK(finding->phase == Phase::graph_decode);
    REQUIRE(finding->witness.has_value());
    CHECK(finding->witness->runtime_max_tokens_per_rank.front() > 64);
    CHECK(finding->fix.find(fix) != std::string::npos);
  }
  // With speculation the requests are always settled, and from May on buckets are no larger than a rank's. January's
  // pool is not divided by dp_size.
  const std::string january =
      "--max-running-requests 64 --chunked-prefill-size 64 --cuda-graph-max-bs 64 --speculative-num-draft-tokens 4 "
      "--speculative-algorithm ";
  const CheckReport drafts = check({.generation = "pr14668", .cap = 16},
                                   gathered(january + "EAGLE --speculative-num-steps 3 --speculative-eagle-topk 1"));
  CHECK(drafts.verdict == Verdict::over_capacity);
  const CheckFinding* const captured = find(drafts, "over_capacity", "x 4 tokens");
  REQUIRE(captured != nullptr);
  CHECK(captured->message.find("captured at the start") != std::string::npos);
  CHECK(captured->phase == Phase::verify);
  CHECK(captured->witness->runtime_max_tokens_per_rank.front() == 72);
  const CheckReport ngram = check({.generation = "pr14668", .cap = 16}, gathered(january + "NGRAM"));
  REQUIRE(find(ngram, "over_capacity", "R = 80") != nullptr);
  CHECK(find(ngram, "over_capacity", "R = 80")->phase == Phase::verify);
}

TEST_CASE("graph sizes that fit, are cut by the request pool, or are left open, are no error") {
  CHECK(check({.cap = 64}, gathered("--cuda-graph-max-bs 64")).verdict == Verdict::agrees);
  CHECK(check({.cap = 64}, gathered("--cuda-graph-max-bs 256 --max-running-requests 256 --chunked-prefill-size 256"))
            .verdict == Verdict::agrees);
  CHECK(check({.cap = 64}, gathered("--cuda-graph-max-bs 256 --disable-cuda-graph")).verdict == Verdict::agrees);
  CHECK(check({.cap = 64}, gathered("")).verdict == Verdict::agrees);
}

TEST_CASE("with the cap baked a captured bucket has more rows than R") {
  const CheckReport report =
      check({.generation = "pr27945", .cap = 16}, std::string(test::kCollapsed) + "--cuda-graph-max-bs 32");
  CHECK(report.verdict == Verdict::over_capacity);
  CHECK(find(report, "over_capacity", "rows, above R = 16") != nullptr);
}

TEST_CASE("with the cap baked the drafts of a captured bucket have more rows than R") {
  const std::string flags =
      std::string(test::kCollapsed) + "--chunked-prefill-size 64 --speculative-num-steps 3 --speculative-eagle-topk 1 ";
  const std::string eagle = "--speculative-algorithm EAGLE ";
  const auto baked = [&](const std::string& options) {
    return check({.generation = "pr27945", .cap = 16}, flags + options);
  };
  // 8 requests are 32 rows; 4 are 16.
  const CheckReport over = baked(eagle + "--max-running-requests 32 --cuda-graph-bs 8");
  CHECK(over.verdict == Verdict::over_capacity);
  CHECK(find(over, "over_capacity", "32 rows on a rank exceed R = 16") != nullptr);
  CHECK(baked(eagle + "--max-running-requests 16 --cuda-graph-bs 4").verdict == Verdict::agrees);
  CHECK(baked("--max-running-requests 32 --cuda-graph-bs 8").verdict == Verdict::agrees);  // nobody drafts
}

TEST_CASE("waterfill makes every backend deepep") {
  const std::string flags = "--deepep-mode low_latency --chunked-prefill-size 8192 ";
  const CheckReport report = check({.generation = "pr35758"}, dp8(flags + "--enable-waterfill"));
  CHECK(report.backend == "deepep");
  CHECK(report.topology.ep_size == 8);
  CHECK(report.verdict == Verdict::over_capacity);
  CHECK(check({}, dp8(flags + "--enable-deepep-waterfill")).verdict == Verdict::over_capacity);
}

TEST_CASE("DWDP has no all-to-all: replicas with their own weights") {
  const CheckReport alone = check({.generation = "pr35758"}, server("--tp 4 --dwdp-size 4"));
  CHECK(alone.verdict == Verdict::out_of_scope);
  CHECK(alone.topology.dp_size == 4);
  CHECK(alone.topology.ep_size == 4);
  CHECK(alone.topology.enable_dp_attention);
  const CheckReport over_a2a = check({.generation = "pr35758"}, dp8("--dwdp-size 8 --moe-a2a-backend flashinfer "
                                                                    "--moe-runner-backend flashinfer_cutlass"));
  CHECK(over_a2a.verdict == Verdict::out_of_scope);
  CHECK(find(over_a2a, "note", "--moe-a2a-backend none (was flashinfer)") != nullptr);
  const CheckReport part = check({.generation = "pr35758"}, dp8("--dwdp-size 4 --moe-a2a-backend flashinfer "
                                                                "--moe-runner-backend flashinfer_cutlass"));
  CHECK(part.verdict == Verdict::out_of_scope);
  CHECK(find(part, "note", "meant to equal --tp-size 8") != nullptr);
  for (const char* off : {"--dwdp-size 0", "--dwdp-size -1"}) {
    const CheckReport report = check({.generation = "pr35758"}, server(std::string("--tp 4 ") + off));
    CHECK(report.topology.dp_size == 1);
    CHECK(find(report, "note", "means off") != nullptr);
  }
}

TEST_CASE("context parallelism and data-parallel experts") {
  for (const char* illegal :
       {"--tp 8 --moe-dp-size 2 --ep-size 2", "--tp 8 --ep-size 4 --moe-dp-size 2 --attn-cp-size 2 --pp-size 2",
        "--tp 8 --ep-size 4 --moe-dp-size 2 --attn-cp-size 4", "--tp 8 --moe-dp-size 2", "--tp 8 --attn-cp-size 3",
        "--tp 8 --moe-dp-size 3 --attn-cp-size 3", "--tp 8 --dp 4 --enable-dp-attention --attn-cp-size 4"}) {
    CAPTURE(illegal);
    const CheckReport report = check({}, server(illegal));
    CHECK(report.verdict == Verdict::rejected);
    CHECK(errors(report) == 1);
    CHECK(find(report, "rejected", "_handle_context_parallelism") != nullptr);
  }
  const auto fix = [](std::string_view flags) { return find(check({}, server(flags)), "rejected")->fix; };
  CHECK(fix("--tp 8 --ep-size 4 --moe-dp-size 2 --attn-cp-size 4").starts_with("set --attn-cp-size 2 (now 4)"));
  CHECK(fix("--tp 8 --ep-size 2 --moe-dp-size 2 --attn-cp-size 2").starts_with("set --ep-size 4 (now 2)"));
  CHECK(fix("--tp 8 --ep-size 4 --moe-dp-size 2 --attn-cp-size 2 --pp-size 2").starts_with("set --pp-size 1 (now 2)"));
  for (const char* legal : {"--tp 8 --ep-size 4 --moe-dp-size 2 --attn-cp-size 2", "--tp 8 --attn-cp-size 4",
                            "--tp 8 --moe-dp-size 2 --attn-cp-size 2"}) {
    CAPTURE(legal);
    CHECK(check({}, server(legal)).verdict == Verdict::out_of_scope);
  }
}

TEST_CASE("draft steps are eagle_topk wide, and count where that is more than a verify step") {
  const std::string flags =
      "--chunked-prefill-size 4096 --max-running-requests 1024 --speculative-algorithm EAGLE "
      "--speculative-eagle-topk 8 --speculative-num-draft-tokens 4 ";
  const CheckReport report = check({.cap = 1024}, gathered(flags + "--speculative-num-steps 3"));
  CHECK(report.verdict == Verdict::over_capacity);
  const CheckFinding* const finding = find(report, "over_capacity", "a draft step");
  REQUIRE(finding != nullptr);
  CHECK(finding->phase == Phase::verify);
  CHECK(finding->witness->tokens_per_dp_rank.front() == 129);
  CHECK(finding->fix.find("2048") != std::string::npos);
  CHECK(check({.cap = 2048}, gathered(flags + "--speculative-num-steps 3")).verdict == Verdict::agrees);
  // Its graphs are captured before any request.
  const std::string graphs =
      "--max-running-requests 1024 --cuda-graph-max-bs 256 --speculative-algorithm EAGLE --speculative-eagle-topk 8 "
      "--speculative-num-draft-tokens 4 --speculative-num-steps 3";
  CHECK(find(check({.cap = 1024}, gathered(graphs)), "over_capacity", "a draft step")->severity == Severity::error);
  // One step drafts from the verify step's own output; steps or a model that are not known give a note.
  CHECK(check({.cap = 1024}, gathered(flags + "--speculative-num-steps 1")).verdict == Verdict::agrees);
  const CheckReport other =
      check({.cap = 1024}, gathered(flags + "--speculative-num-steps 3 --speculative-draft-model-path D"));
  CHECK(other.verdict == Verdict::agrees);
  CHECK(find(other, "over_capacity", "a draft step") != nullptr);
}

TEST_CASE("a draft model may have a backend of its own") {
  const std::string flags =
      "--max-running-requests 1024 --chunked-prefill-size 1024 --speculative-algorithm EAGLE --speculative-num-steps 3 "
      "--speculative-eagle-topk 4 --speculative-num-draft-tokens 4 --speculative-moe-a2a-backend ";
  const CheckReport deepep = check({}, dp8(flags + "deepep"));
  CHECK(deepep.verdict == Verdict::over_capacity);  // 128 requests x 4
  CHECK(find(deepep, "over_capacity", "the draft model: 128 requests") != nullptr);
  CHECK(check({}, dp8(flags + "none")).verdict == Verdict::out_of_scope);
  CHECK(find(check({}, dp8("--moe-a2a-backend deepep " + flags + "flashinfer")), "note", "not checked") != nullptr);
  CHECK(check({.cap = 512}, gathered("--max-running-requests 512 --chunked-prefill-size 1024 --speculative-algorithm "
                                     "EAGLE --speculative-num-steps 3 --speculative-eagle-topk 8 "
                                     "--speculative-num-draft-tokens 4 --speculative-moe-a2a-backend none"))
            .verdict == Verdict::agrees);
}

TEST_CASE("--gpu-memory settles chunk and graph sizes") {
  const CheckReport chunk = check({.cap = 256, .gpu_memory_gib = 80}, gathered("--max-running-requests 64"));
  CHECK(chunk.verdict == Verdict::over_capacity);  // 8192 / 4
  CHECK(find(chunk, "chunk_open") == nullptr);
  CHECK(check({.cap = 256}, gathered("--max-running-requests 64")).verdict == Verdict::agrees);
  const CheckReport graph = check({.cap = 256, .gpu_memory_gib = 80}, gathered("--chunked-prefill-size 1024"));
  CHECK(find(graph, "over_capacity", "captured at the start") != nullptr);  // 512
  CHECK(find(graph, "graph_sizes_open") == nullptr);

  const std::string pplx = dp8("--moe-a2a-backend pplx --max-running-requests 1024 ");
  const Question known{.generation = "pr35758", .gpu_memory_gib = 80};
  const Question open{.generation = "pr35758"};
  CHECK(check(known, pplx + "--chunked-prefill-size 1024").verdict == Verdict::rejected);  // 512 > 128
  CHECK(check(known, pplx + "--chunked-prefill-size 1024 --cuda-graph-max-bs 64").verdict == Verdict::agrees);
  const CheckReport left_open = check(open, pplx + "--chunked-prefill-size 1024");
  CHECK(left_open.verdict == Verdict::agrees);
  CHECK(find(left_open, "graph_sizes_open", "safe up to 128") != nullptr);
  CHECK(check(open, pplx + "--cuda-graph-max-bs 64").verdict == Verdict::agrees);     // the chunk is open
  CHECK(check(open, pplx + "--cuda-graph-max-bs 256").verdict == Verdict::rejected);  // the graph is not
  CHECK(check(open, "SGLANG_MORI_NUM_MAX_DISPATCH_TOKENS_PER_RANK=256 " + dp8("--moe-a2a-backend mori")).verdict ==
        Verdict::agrees);
  CHECK(check(known, "SGLANG_MORI_NUM_MAX_DISPATCH_TOKENS_PER_RANK=256 " + dp8("--moe-a2a-backend mori")).verdict ==
        Verdict::rejected);
}

TEST_CASE("the quantization may come from the model") {
  const std::string flags =
      "--tp 16 --dp 16 --enable-dp-attention --moe-a2a-backend flashinfer --moe-runner-backend flashinfer_cutedsl";
  CHECK(check({}, server(flags)).verdict == Verdict::rejected);
  CHECK(check({.model_quantization = "modelopt_fp4"}, server(flags)).verdict == Verdict::agrees);
  const std::string nvfp4 = "python3 -m sglang.launch_server --model-path nvidia/DeepSeek-R1-0528-NVFP4 ";
  const CheckReport guessed = check({}, nvfp4 + flags);
  CHECK(guessed.verdict == Verdict::agrees);
  CHECK(find(guessed, "note", "modelopt_fp4 is guessed") != nullptr);
  CHECK(check({}, nvfp4 + flags + " --quantization fp8").verdict == Verdict::rejected);  // a given one wins

  const std::string cutlass =
      "--tp 4 --dp 4 --enable-dp-attention --moe-a2a-backend flashinfer --moe-runner-backend "
      "flashinfer_cutlass";
  const auto bytes = [](const CheckReport& report) { return report.capacity->dispatch_bytes_per_token; };
  CHECK(bytes(check({}, nvfp4 + cutlass)) == bytes(check({}, server(cutlass + " --quantization modelopt_fp4"))));
  CHECK(bytes(check({}, nvfp4 + cutlass)) < bytes(check({}, server(cutlass))));
  CHECK(guess_quantization("nvidia/DeepSeek-R1-FP4") == "modelopt_fp4");
  CHECK_FALSE(guess_quantization("openai/gpt-oss-120b-MXFP4"));
  CHECK_FALSE(guess_quantization("deepseek-ai/DeepSeek-R1"));
}

TEST_CASE("the quantization of a config.json") {
  CHECK(quantization_from_config_json(
            R"({"quantization_config": {"quant_method": "modelopt", "quant_algo": "NVFP4"}})") == "modelopt_fp4");
  CHECK(quantization_from_config_json(
            R"({"text_config": {"quantization_config": {"quant_method": "modelopt_fp4"}}})") == "modelopt_fp4");
  for (const char* other : {R"({"quantization_config": {"quant_method": "fp8"}})", R"({"quantization_config": 4})",
                            "{}", "[1]", "no json", R"({"text_config": 1})"})
    CHECK_FALSE(quantization_from_config_json(other));
}

TEST_CASE("a refusal stands alone: what comes after it was never reached") {
  const std::string cutedsl = server(
      "--tp 16 --dp 16 --enable-dp-attention --moe-a2a-backend flashinfer --moe-runner-backend "
      "flashinfer_cutedsl --max-prefill-tokens 8192");
  for (const CheckReport& report :
       {check({}, cutedsl),
        check({.generation = "pr35758"}, dp8("--attn-cp-size 2 --moe-a2a-backend flashinfer --moe-runner-backend "
                                             "flashinfer_cutlass")),
        check({.generation = "pr35758"}, "SGLANG_MORI_NUM_MAX_DISPATCH_TOKENS_PER_RANK=64 " +
                                             dp8("--moe-a2a-backend mori --chunked-prefill-size 8192"))}) {
    CHECK(report.verdict == Verdict::rejected);
    CHECK(errors(report) == 1);
    for (const CheckFinding& finding : report.findings) CHECK(finding.message.find("safe up to") == std::string::npos);
  }
}

TEST_CASE("--max-total-tokens bounds the requests of a rank by half of it") {
  const std::string flags = "--chunked-prefill-size 4096 --max-running-requests 8192 --max-total-tokens ";
  CHECK(check({.cap = 1024}, gathered(flags + "2000")).verdict == Verdict::agrees);
  CHECK(check({.cap = 1024}, gathered(flags + "2048")).verdict == Verdict::agrees);
  CHECK(check({.cap = 1024}, gathered(flags + "2050")).verdict == Verdict::over_capacity);
  CHECK(check({}, gathered(flags + "1")).verdict == Verdict::rejected);
}

TEST_CASE("the dispatch type belongs to the flashinfer backend") {
  const Question newest{.generation = "pr35758"};
  CHECK(check(newest, dp8("--moe-a2a-backend deepep --flashinfer-a2a-dispatch-type nvfp4")).verdict ==
        Verdict::rejected);
  CHECK(check(newest, gathered("--flashinfer-a2a-dispatch-type nvfp4")).verdict == Verdict::agrees);
}

TEST_CASE("prefill graphs are captured through the all-to-all") {
  const std::string flags = "--max-running-requests 64 --chunked-prefill-size 8192 --disable-decode-cuda-graph ";
  const std::string graphs = "--cuda-graph-backend-prefill breakable --cuda-graph-max-bs-prefill ";
  const Question newest{.generation = "pr35758", .cap = 64};
  const CheckReport over = check(newest, gathered(flags + graphs + "8192"));
  CHECK(over.verdict == Verdict::over_capacity);
  CHECK(find(over, "over_capacity", "the largest prefill graph, 2048 tokens") != nullptr);  // clamped to the chunk
  CHECK(check(newest, gathered(flags + graphs + "64")).verdict == Verdict::agrees);
  const CheckReport open = check(newest, gathered(flags + "--cuda-graph-max-bs-prefill 8192"));
  CHECK(open.verdict == Verdict::agrees);
  CHECK(find(open, "over_capacity", "left open") != nullptr);
  CHECK(check(newest, gathered(flags)).verdict == Verdict::agrees);
  // Until pr30450 the backend disables them; the budget of cutedsl counts them.
  CHECK(find(check({.cap = 64}, gathered("--max-running-requests 64 --chunked-prefill-size 256 " + graphs + "8192")),
             "over_capacity") == nullptr);
  const std::string cutedsl =
      dp8("--moe-a2a-backend flashinfer --moe-runner-backend flashinfer_cutedsl --quantization modelopt_fp4 "
          "--max-prefill-tokens 128 --chunked-prefill-size 65536 ");
  CHECK(check({.generation = "pr35758", .cap = 128}, cutedsl + graphs + "2048").verdict == Verdict::rejected);
}

TEST_CASE("the autotune dummy run is as large as the request pool") {
  const std::string flags = "--disaggregation-mode prefill --max-running-requests 2560 --chunked-prefill-size 256 ";
  const CheckReport report = check({.cap = 64}, gathered(flags));
  CHECK(report.verdict == Verdict::agrees);
  const CheckFinding* const finding = find(report, "autotune", "640 per rank");
  REQUIRE(finding != nullptr);
  CHECK(finding->severity == Severity::warning);
  CHECK(find(check({.cap = 64}, gathered(flags + "--disable-flashinfer-autotune")), "autotune") == nullptr);
  CHECK(find(check({.cap = 640}, gathered(flags)), "autotune") == nullptr);
  CHECK(find(check({.generation = "pr26643", .cap = 64}, gathered(flags)), "autotune") == nullptr);
}

TEST_CASE("numbers that mean nothing are not shown") {
  CHECK_FALSE(check({.cap = -1}, gathered("")).workspace_known);
  const CheckReport normal = check({}, dp8("--moe-a2a-backend deepep --deepep-mode normal"));
  CHECK(normal.capacity_source.find("128") == std::string::npos);
  CHECK(check({}, dp8("--moe-a2a-backend deepep")).capacity_source.find("128 tokens") != std::string::npos);
}

TEST_CASE("a graph size that cannot be is named by its own flag") {
  for (const auto& [flag, other] :
       {std::pair{"--cuda-graph-max-bs 0", "--cuda-graph-bs"}, std::pair{"--cuda-graph-bs 0", "--cuda-graph-max-bs"}}) {
    DeploymentInputs inputs;
    inputs.args.tp_size = inputs.args.dp_size = 4;
    if (std::string_view(flag).starts_with("--cuda-graph-bs"))
      inputs.args.cuda_graph_bs = std::vector<std::int64_t>{0};
    else
      inputs.args.cuda_graph_max_bs = 0;
    const auto refused = resolve_deployment(inputs);
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().message.starts_with(flag));
    CHECK(refused.error().message.find(other) == std::string::npos);
  }
}
