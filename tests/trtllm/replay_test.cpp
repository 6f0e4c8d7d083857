// Steps of TensorRT-LLM on the simulated cluster, and what exploring finds by itself.
#include "sim/cluster/replay.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>

#include "sim/explore/explore.h"
#include "sim/scenario/scenario_reader.h"

namespace a2asim {
namespace {

constexpr std::string_view kServer =
    "trtllm-serve M --tp_size 8 --ep_size 8 --max_num_tokens 64 --enable_attention_dp "
    "--cuda_graph_config.enable_padding=true";

ReplayReport run(std::string_view version, std::string_view before, std::string_view behind,
                 Fidelity fidelity = Fidelity::numeric) {
  const auto scenario = parse_scenario(
      fmt::format("name: t\ntrtllm: {}\nlaunch: \"{}{}{}\"\nmodel: {{num_experts: 16, top_k: 2, hidden_size: 72}}\n"
                  "steps:\n  - {{mode: extend, tokens: [64, 1, 20, 20, 20, 20, 20, 20]}}\n"
                  "  - {{mode: decode, tokens: [5, 0, 2, 1, 7, 3, 3, 3]}}\n"
                  "  - {{mode: extend, tokens: [1, 1, 1, 1, 1, 1, 1, 9]}}\n",
                  version, before, kServer, behind),
      "test");
  REQUIRE_MESSAGE(scenario.has_value(), (scenario ? "" : scenario.error().message));
  ReplayOptions options;
  options.fidelity = fidelity;
  const auto report = replay(*scenario, "test", options);
  REQUIRE_MESSAGE(report.has_value(), (report ? "" : report.error().message));
  return *report;
}

bool says(const ReplayReport& report, std::string_view words) {
  return std::ranges::any_of(report.steps, [&](const ReplayedStep& step) {
    return std::ranges::any_of(step.findings,
                               [&](const Finding& found) { return describe(found).find(words) != std::string::npos; });
  });
}

}  // namespace

TEST_CASE("trtllm: one-sided steps of aligned payloads come through byte by byte") {
  for (const Fidelity fidelity : {Fidelity::geometry, Fidelity::provenance, Fidelity::numeric}) {
    const ReplayReport report = run("newest", "", "", fidelity);
    CHECK(report.verdict == Verdict::agrees);
    CHECK(report.steps.size() == 3);
  }
}

TEST_CASE("trtllm: a rank that knows its own count alone gathers with other sizes than the rest") {
  const auto first_finding = [](std::string_view tokens) {
    const auto scenario =
        parse_scenario(fmt::format("name: t\ntrtllm: t10\nlaunch: \"A2ASIM_NVLINK_DOMAIN=4 {} "
                                   "--moe_config.max_num_tokens=40 --moe_config.backend=WIDEEP\"\n"
                                   "model: {{num_experts: 16, top_k: 2, hidden_size: 72}}\n"
                                   "steps: [{{mode: extend, tokens: {}}}]\nfaults: [{{step: 0, skip_all_gather: 0}}]\n",
                                   kServer, tokens),
                       "test");
    REQUIRE_MESSAGE(scenario.has_value(), (scenario ? "" : scenario.error().message));
    const auto report = replay(*scenario, "test", {});
    REQUIRE(report.has_value());
    CHECK(report->verdict == Verdict::disagrees);
    REQUIRE_FALSE(report->steps[0].findings.empty());
    return report->steps[0].findings[0];
  };
  // Two chunks for all, in which rank 0 has 32 rows; rank 0 itself knows of nobody else.
  const Finding length = first_finding("[64, 1, 1, 1, 1, 1, 1, 1]");
  CHECK(length.message.find("rank 1 has counts of 8 ranks and rank 0 of 1;") != std::string::npos);
  CHECK(length.value == 8);
  CHECK(length.limit == 1);
  const Finding rows = first_finding("[64, 5, 1, 1, 1, 1, 1, 1]");
  CHECK(rows.message.find("of rank 1 rank 1 expects 2 rows and rank 0 0;") != std::string::npos);
  CHECK(rows.value == 2);
  CHECK(rows.limit == 0);
}

TEST_CASE("trtllm: an all-gather with different sizes is a deadlock, and it says who waits for whom") {
  constexpr std::string_view kApart = "A2ASIM_NVLINK_DOMAIN=4 ";
  constexpr std::string_view kChunks = " --moe_config.max_num_tokens=64";
  const ReplayReport old = run("t9", kApart, kChunks);
  CHECK(old.verdict == Verdict::disagrees);
  CHECK(says(old, "of rank 1 rank 1 expects 1 rows and rank 0 0"));
  CHECK(says(old, "rank 1 waits for ranks 0, 2..7 forever: they expect no rows of rank 1"));
  CHECK(run("t10", kApart, kChunks).verdict == Verdict::agrees);
  CHECK(run("t9", "", kChunks).verdict == Verdict::agrees);  // the NVLink lane
}

TEST_CASE("trtllm: exploring finds #16745 and #6173 by itself, and nothing in the newest version") {
  const auto first_error = [](std::string_view name) -> std::string {
    const Engine& engine = *find_engine("trtllm").value();
    const GenerationExploration found = explore(*engine.find_version(name)->version, {});
    const ExploreWitness* witness = found.first_error();
    return witness == nullptr ? "" : witness->finding.message;
  };
  CHECK(first_error("before16745").starts_with("ranks call one all-gather with different sizes"));
  CHECK(first_error("16745").empty());
  CHECK(first_error("before6173").find("gather, the others send by the all-to-all") != std::string::npos);
  CHECK(first_error("6173").empty());
  CHECK(first_error("newest").empty());
}

}  // namespace a2asim
