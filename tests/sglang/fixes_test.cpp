// What is offered where ranks disagree; what the cap is said to come from; and which dates name a version.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "model/check/check.h"
#include "tests/launch.h"
#include "tests/said.h"

using namespace a2asim;

namespace {

// Of the first disagreement: its fix.
std::string offered(std::string_view version, const std::string& options, const test::Env& env = {}) {
  const auto deployed = test::deploy_named("sglang", version, std::string(test::kCollapsed) + options, env);
  REQUIRE(deployed.has_value());
  REQUIRE(deployed->deployment);
  for (const CheckFinding& finding : check_deployment(*deployed->deployment).findings)
    if (finding.kind == FindingKind::geometry_disagreement) return finding.fix;
  return "none";
}

}  // namespace

TEST_CASE("sglang: what cures a disagreement follows what caused it") {
  const std::vector<test::SaidLaunch> launches = {
      {"pr26643", "",
       "remove --enable-dp-lm-head, or remove --moe-dense-tp-size 1, or upgrade to v0.5.16 (#30450, 2026-07-08)"},
      {"pr26643", "--disable-cuda-graph",
       "remove --enable-dp-lm-head, or remove --moe-dense-tp-size 1, or upgrade to v0.5.16 (#30450, 2026-07-08)"},
      {"pr27945", "", "none"},
      {"pr29461", "",
       "remove --enable-dp-lm-head, or remove --moe-dense-tp-size 1, or upgrade to v0.5.16 (#30450, 2026-07-08), or "
       "add --disable-cuda-graph"},
      {"pr29461", "--disable-cuda-graph", "none"},
      {"pr30450", "", "none"},
      {"pr26643",
       "",
       "unset SGLANG_SCHEDULER_SKIP_ALL_GATHER (now set, so that no counts are exchanged)",
       {{"SGLANG_SCHEDULER_SKIP_ALL_GATHER", "1"}}},
      {"pr30450", "", "none", {{"SGLANG_SCHEDULER_SKIP_ALL_GATHER", "1"}}},
  };
  for (const test::SaidLaunch& launch : launches) {
    CAPTURE(launch.version);
    CAPTURE(launch.options);
    CHECK(offered(launch.version, std::string(launch.options), launch.env) == launch.expected);
  }
}

TEST_CASE("sglang: a disagreement is explained rank by rank, those alike in one line") {
  const auto ranks_of = [](int size) {
    const std::string n = std::to_string(size);
    const auto deployed = test::deploy_named(
        "sglang", "pr26643",
        "python3 -m sglang.launch_server --model-path M --tp " + n + " --dp " + n +
            " --enable-dp-attention --enable-dp-lm-head --moe-dense-tp-size 1 --moe-a2a-backend flashinfer "
            "--moe-runner-backend flashinfer_cutlass",
        {});
    REQUIRE(deployed.has_value());
    const CheckReport report = check_deployment(*deployed->deployment);
    REQUIRE(!report.findings.empty());
    return fmt::format("{}", fmt::join(report.findings.front().chain, "\n"));
  };
  const std::string why =
      "require_mlp_tp_gather is false: none of its conditions holds\n"
      "so each rank sees only its own token count (the \"collapse\")\n";
  const std::string two = "2 requests -> replays bucket 2 (baked at capture: this rank's own rows) -> R = 2";
  const std::string none = "0 requests -> replays bucket 1 (baked at capture: this rank's own rows) -> R = 1";
  CHECK(ranks_of(2) == why + "DP rank 0: " + none + "\nDP rank 1: " + two);
  CHECK(ranks_of(4) == why + "DP rank 0: " + two + "\nDP rank 1: " + none + " (same on ranks 2 and 3)");
  CHECK(ranks_of(8) == why + "DP rank 0: " + two + "\nDP rank 1: " + none + " (same on ranks 2 to 7)");
}

TEST_CASE("sglang: the cap says where it comes from") {
  const auto source = [](std::string_view version, const std::string& options, const test::Env& env = {}) {
    const auto deployed = test::deploy_named("sglang", version, std::string(test::kCollapsed) + options, env);
    REQUIRE(deployed.has_value());
    return fmt::format("{} {}", deployed->deployment->max_num_tokens, deployed->deployment->max_num_tokens_source);
  };
  const std::string cap = "SGLANG_FLASHINFER_NUM_MAX_DISPATCH_TOKENS_PER_RANK";
  CHECK(source("pr14668", "") == "4096 default: 1024 x ep_size");
  CHECK(source("pr14668", "", {{cap, "100"}}) == "400 " + cap + "=100 x ep_size");
  CHECK(source("pr25907", "") == "4096 default: 4096");
  CHECK(source("pr26643", " --chunked-prefill-size 65536") ==
        "16384 default: max(chunked_prefill_size per DP rank, 4096)");
  CHECK(source("pr26643", " --chunked-prefill-size 65536", {{cap, "8"}}) == "8 " + cap + "=8");
  CHECK(source("pr26643", " --chunked-prefill-size 65536", {{cap, "x"}}) ==
        "16384 default: max(chunked_prefill_size per DP rank, 4096)");
}

TEST_CASE("a date names a version only if the calendar has it") {
  for (const std::string_view engine : {"sglang", "vllm", "trtllm"}) {
    CAPTURE(engine);
    const auto is_taken = [&](std::string_view date) { return (*find_engine(engine))->find_version(date).has_value(); };
    for (const std::string_view date : {"2026-01-31", "2026-04-30", "2026-02-28", "2028-02-29", "2026-12-31"}) {
      CAPTURE(date);
      CHECK(is_taken(date));
    }
    for (const std::string_view date :
         {"2026-01-32", "2026-04-31", "2026-02-29", "2100-02-29", "2026-00-10", "2026-13-01", "2026-01-00", "2026-1-01",
          "2026-01-1", "2026/01/01", "2026-01-01x", "202a-01-01"}) {
      CAPTURE(date);
      CHECK(!is_taken(date));
    }
  }
}
