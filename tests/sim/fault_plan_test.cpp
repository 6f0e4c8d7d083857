// Faults name one tensor-parallel rank; what a scenario wants and cannot have is said with its place in the file.
#include "sim/cluster/fault_plan.h"

#include <doctest/doctest.h>

#include <string>

#include "sim/cluster/replay.h"
#include "sim/scenario/scenario_reader.h"

namespace a2asim {
namespace {

using Sizes = std::vector<std::int64_t>;

// Four ranks of one replica, without DP attention; the faults begin at line 7.
std::string plain(const std::string& sglang, const std::string& steps, const std::string& faults) {
  return "name: test\nsglang: " + sglang +
         "\nparallel: {tp_size: 4, moe_a2a_backend: flashinfer, moe_runner_backend: flashinfer_cutlass, "
         "max_num_tokens: 64, cuda_graph_bs: [4, 16]}\nmodel: {num_experts: 16, top_k: 4, hidden_size: 48}\nsteps: [" +
         steps + "]\nfaults:\n" + faults;
}

// Two replicas of four ranks.
std::string replicas(const std::string& faults) {
  return "name: test\nsglang: pr30450\nparallel: {tp_size: 8, dp_size: 2, enable_dp_attention: true, "
         "moe_a2a_backend: flashinfer, moe_runner_backend: flashinfer_cutlass, disable_cuda_graph: true, "
         "max_num_tokens: 64}\nmodel: {num_experts: 16, top_k: 4, hidden_size: 48}\nsteps:\n"
         "  - {mode: decode, tokens: [20, 6]}\n  - {mode: decode, tokens: [10, 6]}\nfaults:\n" +
         faults;
}

std::string gathered(const std::string& flags, const std::string& step, const std::string& faults = "[]") {
  return "name: test\nsglang: pr30450\nlaunch: python3 -m sglang.launch_server --model-path M --tp-size 4 --dp-size 4 "
         "--enable-dp-attention --moe-a2a-backend flashinfer --moe-runner-backend flashinfer_cutlass " +
         flags +
         "\nenv: {SGLANG_FLASHINFER_NUM_MAX_DISPATCH_TOKENS_PER_RANK: \"64\"}\n"
         "model: {num_experts: 8, top_k: 2, hidden_size: 64}\nsteps:\n  - " +
         step + "\nfaults: " + faults + "\n";
}

Result<ReplayReport> try_run(const std::string& text, Fidelity fidelity = Fidelity::numeric) {
  const auto scenario = parse_scenario(text, "test");
  REQUIRE_MESSAGE(scenario.has_value(), scenario.error().message);
  ReplayOptions options;
  options.fidelity = fidelity;
  return replay(*scenario, "test", options);
}

ReplayReport run_text(const std::string& text) {
  const auto report = try_run(text);
  REQUIRE_MESSAGE(report.has_value(), report.error().message);
  return *report;
}

std::string error_of(const std::string& text, Fidelity fidelity = Fidelity::numeric) {
  const auto report = try_run(text, fidelity);
  REQUIRE_FALSE(report.has_value());
  CHECK(report.error().kind == ErrorKind::bad_input);
  return report.error().message;
}

Sizes sizes_of_step(const ReplayReport& report, std::size_t step) {
  Sizes out;
  for (const ReplayedRank& rank : report.steps.at(step).ranks) out.push_back(rank.runtime_max().value_or(-1));
  return out;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("a fault changes its own rank and not the others of the attention replica") {
  SUBCASE("a corrupted count") {
    const ReplayReport report = run_text(replicas("  - {step: 1, corrupt_count: {rank: 2, source: 0, value: 40}}\n"));
    CHECK(sizes_of_step(report, 1) == Sizes{12, 12, 40, 12, 12, 12, 12, 12});
    CHECK(report.verdict == Verdict::disagrees);
    CHECK(report.steps[1].lists[2] == Sizes{40, 40});
    CHECK(report.steps[1].lists[1] == Sizes{12, 12});
  }
  SUBCASE("the list of the step before") {
    const ReplayReport report = run_text(replicas("  - {step: 1, stale_counts: 5}\n"));
    CHECK(sizes_of_step(report, 1) == Sizes{12, 12, 12, 12, 12, 20, 12, 12});
  }
  SUBCASE("the exchange of counts skipped: only that rank raises") {
    const ReplayReport report = run_text(replicas("  - {step: 1, skip_all_gather: 3}\n"));
    CHECK(sizes_of_step(report, 1) == Sizes{12, 12, 12, -1, 12, 12, 12, 12});
    CHECK(report.steps[1].outcome.refused == RankMask(0b1000));
  }
  SUBCASE("another mode: it waits in the all-gatherv, the others in the all-to-all") {
    const ReplayReport report = run_text(plain("pr35758", "{mode: decode, tokens: [9], graph: false}",
                                               "  - {step: 0, wrong_mode: {rank: 1, mode: extend}}\n"));
    CHECK(report.verdict == Verdict::disagrees);
    CHECK(report.steps[0].outcome.gathering == RankMask(0b0010));
    CHECK(report.steps[0].outcome.taking_part == RankMask(0b1101));
    CHECK(report.counts[static_cast<std::size_t>(FindingKind::missing_rank)] == 4);
  }
  SUBCASE("a replayed graph") {
    const ReplayReport report =
        run_text(plain("pr30450", "{mode: decode, tokens: [9]}", "  - {step: 0, replay_rank: 2}\n"));
    CHECK(sizes_of_step(report, 0) == Sizes{3, 3, 4, 3});
    CHECK(report.verdict == Verdict::disagrees);
  }
}

TEST_CASE("two faults in one step: each does what it would do alone, in either order") {
  const auto both = [](const std::string& one, const std::string& other) {
    const auto straight = run_text(replicas("  - {step: 1, " + one + "}\n  - {step: 1, " + other + "}\n"));
    const auto turned = run_text(replicas("  - {step: 1, " + other + "}\n  - {step: 1, " + one + "}\n"));
    CHECK(straight.digest == turned.digest);
    return straight;
  };
  SUBCASE("two counts of one rank are corrupted: the larger one counts") {
    const ReplayReport report =
        both("corrupt_count: {rank: 2, source: 0, value: 40}", "corrupt_count: {rank: 2, source: 1, value: 24}");
    CHECK(report.steps[1].lists[2] == Sizes{40, 40});
    CHECK(sizes_of_step(report, 1) == Sizes{12, 12, 40, 12, 12, 12, 12, 12});
    CHECK(both("corrupt_count: {rank: 2, source: 0, value: 4}", "corrupt_count: {rank: 2, source: 1, value: 24}")
              .steps[1]
              .lists[2] == Sizes{24, 24});
  }
  SUBCASE("a count that all see, and one that a rank sees") {
    const ReplayReport report =
        both("corrupt_count: {source: 1, value: 16}", "corrupt_count: {rank: 5, source: 0, value: 28}");
    CHECK(sizes_of_step(report, 1) == Sizes{16, 16, 16, 16, 16, 28, 16, 16});
  }
  SUBCASE("of two ranks") {
    const ReplayReport report = both("stale_counts: 5", "corrupt_count: {rank: 2, source: 0, value: 40}");
    CHECK(sizes_of_step(report, 1) == Sizes{12, 12, 40, 12, 12, 20, 12, 12});
  }
  SUBCASE("of one rank: the corrupted count stands in the old list") {
    const ReplayReport report = both("stale_counts: 5", "corrupt_count: {rank: 5, source: 1, value: 24}");
    CHECK(report.steps[1].lists[5] == Sizes{24, 24});
  }
  SUBCASE("one rank is away, another skips the exchange") {
    const ReplayReport report = both("skip_rank: 0", "skip_all_gather: 3");
    CHECK(report.steps[1].outcome.refused == RankMask(0b1000));
    CHECK_FALSE(report.steps[1].outcome.taking_part.contains(0));
    CHECK(report.counts[static_cast<std::size_t>(FindingKind::missing_rank)] > 0);
  }
  SUBCASE("two ranks are away") {
    const ReplayReport report = both("skip_rank: 0", "skip_rank: 6");
    CHECK(report.steps[1].outcome.taking_part == RankMask(0b10111110));
  }
}

TEST_CASE("a masked dead rank empties its replica's batch only where its row is the one that is read") {
  const auto real_rows = [](const ReplayReport& report) {
    std::int64_t sum = 0;
    for (const ReplayedRank& rank : report.steps.at(1).ranks) sum += rank.decision.real_rows;
    return sum;
  };
  const ReplayReport second = run_text(replicas("  - {step: 1, dead_rank: 1, masked: true}\n"));
  CHECK(second.verdict == Verdict::agrees);
  CHECK(real_rows(second) == 16);
  CHECK(second.steps[1].lists[4] == Sizes{12, 12});
  const ReplayReport first = run_text(replicas("  - {step: 1, dead_rank: 0, masked: true}\n"));
  CHECK(real_rows(first) == 6);
  CHECK(first.steps[1].lists[4] == Sizes{8, 8});
}

TEST_CASE("a rank that runs idle leaves its tokens behind") {
  const ReplayReport report = run_text(gathered("--disable-cuda-graph", "{mode: decode, tokens: [9, 2, 4, 4]}",
                                                "[{step: 0, wrong_mode: {rank: 1, mode: idle}}]"));
  const RankDecision& idle = report.steps[0].ranks[1].decision;
  CHECK(idle.mode == ForwardMode::idle);
  CHECK(idle.rows == 9);
  CHECK(idle.real_rows == 0);
  CHECK(report.steps[0].ranks[0].decision.real_rows == 9);
}

TEST_CASE("a step that nobody takes part in loses its work, and a note says so") {
  const std::string all = "[{step: 0, skip_rank: 0}, {step: 0, skip_rank: 1}, {step: 0, skip_rank: 2}";
  const std::string step = "{mode: decode, tokens: [9, 2, 4, 4]}";
  const ReplayReport lost = run_text(gathered("--disable-cuda-graph", step, all + ", {step: 0, skip_rank: 3}]"));
  CHECK(lost.verdict == Verdict::agrees);
  REQUIRE(lost.notes.size() == 1);
  CHECK(contains(lost.notes[0], "step 0: every rank"));
  CHECK(run_text(gathered("--disable-cuda-graph", step)).notes.empty());
  CHECK(run_text(gathered("--disable-cuda-graph", step, all + "]")).verdict == Verdict::disagrees);
}

TEST_CASE("a graph that must be replayed and cannot is an error with its place") {
  const std::string buckets = "--cuda-graph-bs 1 2 4 8 16";
  const std::string big = error_of(gathered(buckets, "{mode: decode, tokens: [17, 1, 1, 1], graph: true}"));
  CHECK(contains(big, "test:7:5: graph is true, but rank 0 cannot replay in step 0"));
  CHECK(contains(big, "largest captured bucket, 16"));
  CHECK(contains(error_of(gathered("--disable-cuda-graph", "{mode: decode, tokens: [3, 1, 1, 1], graph: true}")),
                 "CUDA graphs are disabled"));
  CHECK(contains(error_of(gathered(buckets, "{mode: extend, tokens: [3, 1, 1, 1], graph: true}")), "mode EXTEND"));
  // No rank replays beside one that prefills: its vote is a veto.
  const std::string mixed =
      error_of(gathered(buckets, "{mode: [decode, extend, decode, decode], tokens: [3, 1, 1, 1], graph: true}"));
  CHECK(contains(mixed, "rank 1 cannot replay"));
  CHECK(run_text(gathered(buckets, "{mode: decode, tokens: [16, 1, 0, 1], graph: true}")).verdict == Verdict::agrees);
  CHECK(run_text(gathered(buckets, "{mode: decode, tokens: [0, 0, 0, 0], graph: true}")).verdict == Verdict::agrees);
}

TEST_CASE("a rank that is to replay among eager ones needs a graph, too") {
  const std::string fault = "\n  - {step: 0, replay_rank: 1}";
  const std::string off = error_of(gathered("--disable-cuda-graph", "{mode: decode, tokens: [3, 1, 1, 1]}", fault));
  CHECK(contains(off, "test:9:5: replay_rank: rank 1 has no graph to replay in step 0: CUDA graphs are disabled"));
  CHECK(contains(error_of(gathered("--cuda-graph-bs 1 2", "{mode: decode, tokens: [3, 1, 1, 1]}", fault)),
                 "largest captured bucket, 2"));
}

TEST_CASE("a cap beyond the machine: bytes are refused with its place, rows are followed all the same") {
  const std::string step = "{mode: decode, tokens: [4, 5, 3, 6]}";
  const std::string huge =
      gathered("--disable-cuda-graph", step, "\n  - {max_num_tokens: {rank: 1, value: 2147483647}}");
  CHECK(contains(error_of(huge), "test:9:5: the workspaces of 4 ranks take"));
  const auto followed = try_run(huge, Fidelity::provenance);
  REQUIRE(followed.has_value());
  CHECK(followed->verdict == Verdict::disagrees);

  std::string largest = gathered("--disable-cuda-graph", step);
  largest.replace(largest.find("\"64\""), 4, "\"1073741824\"");
  CHECK(contains(error_of(largest), "test:5:8: the workspaces of 4 ranks take"));
  const auto tagged = try_run(largest, Fidelity::provenance);
  REQUIRE(tagged.has_value());
  CHECK(tagged->verdict == Verdict::agrees);
  CHECK(tagged->traffic.rows_sent > 0);
}

TEST_CASE("#35758: ranks that expect other sizes in the all-gatherv disagree, in words, at every fidelity") {
  const auto scenario = load_scenario(A2ASIM_SOURCE_DIR "/sim/scenarios/fault_gather_sizes.yaml");
  REQUIRE(scenario.has_value());
  for (const Fidelity fidelity : {Fidelity::geometry, Fidelity::provenance, Fidelity::numeric}) {
    ReplayOptions options;
    options.fidelity = fidelity;
    const auto report = replay(*scenario, "test", options);
    REQUIRE(report.has_value());
    const ReplayedStep& step = report->steps.at(1);
    CHECK(step.outcome.gathering == RankMask::all(4));
    CHECK(step.outcome.gather_disagreeing_rank == 3);
    CHECK(step.outcome.verdict == Verdict::disagrees);
    CHECK(step.outcome.stopped);
    REQUIRE(step.findings.size() == 1);
    CHECK(step.findings[0].value == 30);
    CHECK(step.findings[0].limit == 5);
    CHECK(contains(step.findings[0].message, "of rank 0 rank 3 expects 30 rows and rank 0 5"));
    CHECK(report->steps_run == 2);
  }
}

TEST_CASE("a rank that raised before its rule answered shows no branch") {
  const ReplayReport report = run_text(gathered("--disable-cuda-graph", "{mode: decode, tokens: [9, 2, 4, 4]}",
                                                "[{step: 0, corrupt_count: {rank: 1, source: 0, value: 1}}]"));
  const auto& ranks = report.steps[0].ranks;
  REQUIRE(ranks[1].decision.raised.has_value() == false);  // R = 4 holds its 2 rows
  const ReplayReport low = run_text(gathered("--disable-cuda-graph", "{mode: decode, tokens: [9, 2, 4, 4]}",
                                             "[{step: 0, corrupt_count: {rank: 0, source: 0, value: 1}}]"));
  REQUIRE(low.steps[0].ranks[0].decision.raised.has_value());
  CHECK_FALSE(low.steps[0].ranks[0].branch().has_value());
  CHECK(low.steps[0].ranks[1].branch() == SizingBranch::max_of_list);
}

}  // namespace a2asim
