// Findings that need no bytes: who disagrees with whom, refuses, overflows, waits, wastes; every field and every word.
#include <doctest/doctest.h>
#include <fmt/format.h>

#include "sim/cluster/replay.h"
#include "sim/scenario/scenario_reader.h"

namespace a2asim {
namespace {

ReplayReport at_geometry(const Result<Scenario>& scenario) {
  REQUIRE_MESSAGE(scenario.has_value(), (scenario ? "" : scenario.error().message));
  ReplayOptions options;
  options.fidelity = Fidelity::geometry;
  auto report = replay(*scenario, "test", options);
  REQUIRE_MESSAGE(report.has_value(), (report ? "" : report.error().message));
  return *report;
}

// Four ranks with a cap of 64, decoding [4, 5, 3, 6] before the steps and faults of a case.
ReplayReport four_ranks(const std::string& version, const std::string& steps, const std::string& faults) {
  return at_geometry(parse_scenario(
      "name: four\nsglang: " + version +
          "\nlaunch: python3 -m sglang.launch_server --model-path M --tp-size 4 --dp-size 4 --enable-dp-attention "
          "--moe-a2a-backend flashinfer --moe-runner-backend flashinfer_cutlass --disable-cuda-graph\n"
          "env: {SGLANG_FLASHINFER_NUM_MAX_DISPATCH_TOKENS_PER_RANK: \"64\"}\n"
          "model: {num_experts: 8, top_k: 2, hidden_size: 64}\nsteps: [{mode: decode, tokens: [4, 5, 3, 6]}, " +
          steps + "]\nfaults: [" + faults + "]\n",
      "test"));
}

// "step operation rank>peer value/limit subject (root): message; fix", a line each.
std::string lines_of(const ReplayReport& report) {
  std::string lines;
  for (const ReplayedStep& step : report.steps) {
    for (const Finding& found : step.findings) {
      lines += fmt::format("{} {} {}>{} {}/{}", found.step, name(found.operation), found.rank, found.peer, found.value,
                           found.limit);
      if (!found.subject.empty()) lines += " " + found.subject;
      if (found.root) lines += fmt::format(" ({})", name(*found.root));
      lines += fmt::format(": {}{}{}\n", found.message, found.fix.empty() ? "" : "; ", found.fix);
    }
  }
  return lines;
}

TEST_CASE("step findings: who disagrees, with whom, by which values, and what cures it") {
  const char* const name_of[] = {"fault_max_num_tokens", "fault_payload_bytes"};
  const std::string wanted[] = {
      " decide 1>0 96/64 max_num_tokens: ; construct every rank with the same max_num_tokens\n",
      " decide 2>0 176/144 payload bytes per token: ; construct every rank with the same payload bytes per token\n"};
  for (std::size_t i = 0; i < 2; ++i) {
    const auto report =
        at_geometry(load_scenario(std::string(A2ASIM_SOURCE_DIR "/sim/scenarios/") + name_of[i] + ".yaml"));
    CHECK(lines_of(report) == "0" + wanted[i] + "1" + wanted[i] + "2" + wanted[i]);
  }
  const auto collapse = at_geometry(load_scenario(A2ASIM_SOURCE_DIR "/sim/scenarios/collapse.yaml"));
  const std::string cure =
      "; remove --enable-dp-lm-head, or remove --moe-dense-tp-size 1, or upgrade to v0.5.16 (#30450, 2026-07-08)\n";
  const std::string differ = "geometry_disagreement: ranks use different buffer sizes R = ";
  CHECK(lines_of(collapse) == "0 decide 1>0 2/4: " + differ + "[4, 2, 1, 6] for requests [3, 1, 0, 5]" + cure +
                                  "1 decide 1>0 64/128: " + differ + "[128, 64, 1, 8] for tokens [128, 64, 0, 7]" +
                                  cure + "2 decide 2>0 2/6: " + differ + "[6, 6, 2, 2] for requests [5, 5, 2, 1]" +
                                  cure);
  const Finding& first = collapse.steps[0].findings[0];
  REQUIRE(first.witness.has_value());
  CHECK(first.witness->tokens_per_dp_rank == std::vector<std::int64_t>{3, 1, 0, 5});
  CHECK(first.witness->runtime_max_tokens_per_rank == std::vector<std::int64_t>{4, 2, 1, 6});
  CHECK(first.severity == Severity::error);
  CHECK(first.phase == Phase::eager_decode);
}

TEST_CASE("step findings: who waits for whom, and why nobody comes") {
  const std::string step = "{mode: decode, tokens: [4, 5, 3, 6]}";
  const auto said = [&](const std::string& faults) { return lines_of(four_ranks("pr30450", step, faults)); };
  const auto skip = [](int rank) { return fmt::format("{{step: 1, skip_rank: {}}}", rank); };
  const auto line = [](int rank, int peer, const std::string& who) {
    return fmt::format("1 dispatch {}>{} -1/-1: missing_rank: {} for rank {} forever: it takes no part\n", rank, peer,
                       who, peer);
  };
  CHECK(said(skip(2)) == line(0, 2, "ranks 0..1, 3 wait"));
  CHECK(said(skip(0)) == line(1, 0, "ranks 1..3 wait"));
  CHECK(said(skip(1) + ", " + skip(2)) == line(0, 1, "ranks 0, 3 wait") + line(0, 2, "ranks 0, 3 wait"));
  CHECK(said(skip(0) + ", " + skip(1) + ", " + skip(3)) ==
        line(2, 0, "rank 2 waits") + line(2, 1, "rank 2 waits") + line(2, 3, "rank 2 waits"));
  CHECK(said("{step: 1, skip_all_gather: 0}") ==
        "1 dispatch 1>0 -1/-1: missing_rank: ranks 1..3 wait for rank 0 forever: it raised AssertionError: FlashInfer "
        "A2A: DP attention reached the x.shape[0] fallback with ep_size=4 > 1 (dp_global=[4]); "
        "runtime_max_tokens_per_rank would not be rank-invariant.\n");
  CHECK(lines_of(four_ranks("pr35758", step, "{step: 1, wrong_mode: {rank: 1, mode: extend}}")) ==
        "1 dispatch 0>1 -1/-1: missing_rank: ranks 0, 2..3 wait for rank 1 forever: it is in the all-gatherv\n"
        "1 dispatch 1>0 -1/-1: missing_rank: rank 1 waits for rank 0 forever: it is in the all-to-all\n"
        "1 dispatch 1>2 -1/-1: missing_rank: rank 1 waits for rank 2 forever: it is in the all-to-all\n"
        "1 dispatch 1>3 -1/-1: missing_rank: rank 1 waits for rank 3 forever: it is in the all-to-all\n");
}

TEST_CASE("step findings: R above the cap, of one rank and of all") {
  const std::string step = "{mode: decode, tokens: [4, 5, 3, 6]}";
  const std::string exceeds = "AssertionError: runtime_max_tokens_per_rank 65 exceeds max_num_tokens 64\n";
  const auto said = [&](const std::string& corrupt) {
    return lines_of(four_ranks("pr30450", step, "{step: 1, corrupt_count: {" + corrupt + "}}"));
  };
  CHECK(said("source: 0, value: 65") == "1 decide 0>-1 65/64: over_capacity: ranks 0..3: " + exceeds);
  CHECK(said("rank: 1, source: 0, value: 65") ==
        "1 decide 1>0 65/6: \n1 decide 1>-1 65/64: over_capacity: rank 1: " + exceeds +
            "1 dispatch 0>1 -1/-1 (over_capacity): missing_rank: ranks 0, 2..3 wait for rank 1 forever: it raised: R "
            "is above max_num_tokens\n");
  // The cap itself fits: rank 0 pads its rows to the count that it believes to be its own, and none is wasted.
  const ReplayReport fits = four_ranks("pr30450", step, "{step: 1, corrupt_count: {source: 0, value: 64}}");
  CHECK(lines_of(fits).empty());
  std::vector<std::int64_t> rows;
  for (const ReplayedRank& rank : fits.steps.at(1).ranks) rows.push_back(rank.decision.rows);
  CHECK(rows == std::vector<std::int64_t>{64, 5, 3, 6});
}

TEST_CASE("step findings: sizes of the all-gatherv, and who never comes to one of its parts") {
  const std::string step = "{mode: extend, tokens: [5, 3, 0, 7]}";
  const auto said = [&](const std::string& corrupt) {
    return lines_of(four_ranks("pr35758", step, "{step: 1, corrupt_count: {" + corrupt + "}}"));
  };
  const auto differ = [](int rank, int source, int own, int other) {
    return fmt::format(
        "1 decide {}>0 {}/{} source sizes of the all-gatherv: geometry_disagreement: ranks compute different sizes of "
        "the all-gatherv: of rank {} rank {} expects {} rows and rank 0 {}; a rank that expects more than is sent "
        "waits forever, the others misplace rows\n",
        rank, own, other, source, rank, own, other);
  };
  CHECK(said("rank: 3, source: 0, value: 30") == differ(3, 0, 30, 5));
  CHECK(said("rank: 3, source: 0, value: 0") ==
        differ(3, 0, 0, 5) +
            "1 decide 0>3 -1/-1 (geometry_disagreement): missing_rank: ranks 0..2 wait for rank 3 forever: they expect "
            "no rows of rank 0\n");
  CHECK(said("rank: 1, source: 2, value: 4") ==
        differ(1, 2, 4, 0) +
            "1 decide 1>0 -1/-1 (geometry_disagreement): missing_rank: rank 1 waits for ranks 0, 2..3 forever: they "
            "expect no rows of rank 2\n");
}

TEST_CASE("step findings: rows beyond R, and slots beyond need") {
  const auto over = at_geometry(load_scenario(A2ASIM_SOURCE_DIR "/sim/scenarios/verify_over_cap.yaml"));
  CHECK(lines_of(over) ==
        "1 dispatch 0>-1 64/32: receive_overflow: ranks 0..3: 64 rows with runtime_max_tokens_per_rank 32; nothing "
        "checks it, the rows run into the neighbour's slots; set "
        "SGLANG_FLASHINFER_NUM_MAX_DISPATCH_TOKENS_PER_RANK=64 or more (the cap is 32 now)\n");
  const auto capture = at_geometry(load_scenario(A2ASIM_SOURCE_DIR "/sim/scenarios/capture.yaml"));
  REQUIRE_FALSE(capture.steps.empty());
  const Finding& wasted = capture.steps[0].findings.at(0);
  CHECK(wasted.severity == Severity::note);
  CHECK(wasted.message ==
        "wasted: 224 of 256 row slots per rank are beyond need: R = 64, the largest batch has 8 rows");
}

TEST_CASE("step findings: a capture that fails is one of the start, with its bucket, sizes and fix") {
  const auto scenario = load_scenario(A2ASIM_SOURCE_DIR "/sim/scenarios/verify_over_cap.yaml");
  REQUIRE(scenario.has_value());
  ReplayOptions options;
  options.version = {"sglang", "pr30450"};
  const auto report = replay(*scenario, "test", options);
  REQUIRE(report.has_value());
  const std::string why =
      "graph capture fails: AssertionError: bucket 16 needs runtime_max_tokens_per_rank 64, max_num_tokens is 32 "
      "(SGLANG_FLASHINFER_NUM_MAX_DISPATCH_TOKENS_PER_RANK=32)";
  CHECK(report->verdict == Verdict::over_capacity);
  CHECK(report->why == why);
  CHECK(report->fix ==
        "set SGLANG_FLASHINFER_NUM_MAX_DISPATCH_TOKENS_PER_RANK to 64 or more, or capture smaller graphs");
  CHECK(report->steps.empty());
  CHECK(report->counts[static_cast<std::size_t>(FindingKind::over_capacity)] == 1);
  REQUIRE(report->start_findings.size() == 1);
  CHECK(report->start_findings[0].kind == FindingKind::over_capacity);
  CHECK(report->start_findings[0].phase == Phase::start);
  CHECK(report->start_findings[0].message == "over_capacity: " + why);
  CHECK(report->start_findings[0].fix == report->fix);
}

TEST_CASE("step findings: a report without a cluster has no sizes") {
  const ReplayReport report;
  for (const std::int64_t size : {report.dispatch_bytes_per_token, report.combine_bytes_per_token,
                                  report.workspace_bytes_per_rank, report.steps_run, report.bad_tokens})
    CHECK(size == 0);
  CHECK(report.traffic.wasted_rows() == 0);
}

TEST_CASE("step findings: steps that every rank with work skips are lost, and said once") {
  const std::string step = "{mode: decode, tokens: [4, 5, 3, 6]}";
  std::string faults;
  for (int at = 1; at <= 3; ++at)
    for (int rank = 0; rank < 4; ++rank)
      faults += fmt::format("{}{{step: {}, skip_rank: {}}}", faults.empty() ? "" : ", ", at, rank);
  const auto notes = [&](const std::string& steps, const std::string& with) {
    std::string all;
    for (const std::string& note : four_ranks("pr30450", steps, with).notes)
      if (note.find("lost") != std::string::npos) all += note + "\n";
    return all;
  };
  const std::string one = faults.substr(0, faults.find("{step: 2") - 2);
  CHECK(notes(step, one) == "step 1: every rank with work skips it; what it had to do is lost\n");
  CHECK(notes(step + ", " + step + ", " + step, faults) ==
        "step 1 and 2 later: every rank skips them; what they had to do is lost\n");
  CHECK(notes(step, "{step: 1, skip_rank: 0}").empty());
}

}  // namespace
}  // namespace a2asim
