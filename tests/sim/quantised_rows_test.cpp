// Hidden states that travel as NVFP4 and MXFP8 rows with their scales: what experts make of them, whose row is intact,
// and what a scenario says about it.
#include <fmt/format.h>

#include <set>

#include "sim/cluster/replay.h"
#include "sim/scenario/scenario_reader.h"
#include "tests/sim/sim_world.h"

namespace a2asim {
namespace {

constexpr DispatchType kQuantised[] = {DispatchType::nvfp4, DispatchType::mxfp8};

test::World world_of(DispatchType type, int top_k = 2, DataType combine_type = DataType::bfloat16,
                     SimOptions options = {}) {
  AllToAllConfig config = test::config_of(2, 8, 64, top_k);
  const TokenPayloads payloads = token_payloads(type, 64, top_k);
  config.payload_bytes_per_token = payloads.bytes;
  config.expert_id_payload = payloads.id_payload;
  config.combine_type = combine_type;
  config.num_experts = 16;
  test::World world({config, config}, options);
  world.payloads = payloads.experts;
  return world;
}

// A round in which the bytes of this payload that rank 1 reads for the first token of rank 0 become `change` of them;
// gives that token, and what outputs are found wrong.
std::pair<std::int64_t, std::vector<Finding>> judge_changed(DispatchType type, int payload,
                                                            std::byte (*change)(std::byte)) {
  test::World world = world_of(type);
  world.draw({6, 6});
  REQUIRE(world.sim->dispatch(world.inputs({6, 6})).has_value());
  const RowView row = world.sim->received(1, 0, payload, 0);
  REQUIRE(row.token >= 0);
  const auto slice = world.sim->read_slice(1);
  REQUIRE(slice.has_value());
  const std::int64_t pitch = world.configs[1].payload_bytes_per_token[static_cast<std::size_t>(payload)];
  std::vector<std::byte> bytes(slice->begin() + row.at, slice->begin() + row.at + pitch);
  std::ranges::transform(bytes, bytes.begin(), change);
  world.sim->settle_race(1, row.at, bytes);
  REQUIRE(world.sim->experts(world.payloads).has_value());
  const std::vector<std::int64_t> sizes = {6, 6};
  REQUIRE(world.sim->combine(sizes, world.outputs).has_value());
  const FindingLog log = world.judge();
  return {row.token, {log.findings().begin(), log.findings().end()}};
}

Scenario scenario_of(const std::string& launch, const std::string& model, const std::string& more = "") {
  const auto scenario = parse_scenario(
      fmt::format("name: x\nsglang: pr30450\nlaunch: python3 -m sglang.launch_server --tp-size 4 --dp-size 4 "
                  "--enable-dp-attention --moe-a2a-backend flashinfer --moe-runner-backend flashinfer_cutlass "
                  "--disable-cuda-graph --model-path M {}\nmodel: {{num_experts: 16, {}}}\n"
                  "steps: [{{mode: decode, tokens: [4, 3, 0, 9]}}, {{mode: extend, tokens: [40, 7, 3, 1]}}]\n{}",
                  launch, model, more),
      "f");
  REQUIRE_MESSAGE(scenario.has_value(), scenario.error().message);
  return *scenario;
}

}  // namespace

TEST_CASE("quantised rows: agreeing ranks give the oracle's numbers, in every type of output") {
  for (const DispatchType type : kQuantised) {
    for (const DataType combine_type : {DataType::bfloat16, DataType::float16, DataType::float32}) {
      for (const int top_k : {1, 2, 8}) {
        CAPTURE(name(type));
        CAPTURE(top_k);
        test::World world = world_of(type, top_k, combine_type);
        for (int round = 0; round < 3; ++round) {
          world.draw({8, 5});
          REQUIRE(world.round({8, 8}).has_value());
          CHECK(world.judge().findings().empty());
          CHECK(world.sim->findings().empty());
        }
      }
    }
  }
}

TEST_CASE("quantised rows: one token is wrong with another scale, NaN with one that nobody wrote") {
  const auto doubled = [](std::byte scale) { return scale ^ std::byte{8}; };  // bit 3: of e4m3's exponent, of ue8m0's
  const auto unwritten = [](std::byte) { return std::byte{0xFF}; };
  for (const DispatchType type : kQuantised) {
    CAPTURE(name(type));
    for (const auto& [payload, change, kind] :
         {std::tuple{1, +doubled, FindingKind::wrong_output}, std::tuple{1, +unwritten, FindingKind::nan_output},
          // e2m1 has no NaN: codes that nobody wrote are -6.
          std::tuple{0, +unwritten,
                     type == DispatchType::nvfp4 ? FindingKind::wrong_output : FindingKind::nan_output}}) {
      CAPTURE(payload);
      const auto [token, wrong] = judge_changed(type, payload, change);
      REQUIRE(wrong.size() == 1);
      CHECK(wrong[0].kind == kind);
      CHECK(wrong[0].rank == 0);
      CHECK(wrong[0].token == token);
    }
  }
}

// Rank 0 has R = 2 and rank 1 has R = 1: the first row of rank 0 lies in the same bytes by both, its scales do not.
TEST_CASE("quantised rows: a token whose codes are right and whose scales are not is tainted") {
  for (const Fidelity fidelity : {Fidelity::provenance, Fidelity::numeric}) {
    test::World world = world_of(DispatchType::nvfp4, 2, DataType::bfloat16,
                                 {.fidelity = fidelity, .dispatch_type = DispatchType::nvfp4});
    world.draw({1, 0});
    std::ranges::fill(world.batches[0].expert_ids(), 8);  // the first of rank 1
    REQUIRE(world.round({2, 1}).has_value());
    CHECK_FALSE(world.sim->received(1, 0, 0, 0).wrong);
    CHECK(world.sim->received(1, 0, 1, 0).wrong);
    CHECK(world.sim->tainted(0)[0] == 1);
    CHECK(test::find_row(world, FindingKind::unwritten, 0) == nullptr);
    const Finding* scales = test::find_row(world, FindingKind::unwritten, 1);
    REQUIRE(scales != nullptr);
    CHECK(describe(*scales).find("reads the scales of token 0 of rank 0") != std::string::npos);
  }
}

TEST_CASE("quantised rows: scenarios with experts of both kinds and dummy tokens equal the oracle") {
  for (const std::string quantization : {"modelopt_fp4", "modelopt_fp8"}) {
    for (const std::string more : {"", "experts: ffn\n", "version: pr26643\n"}) {
      for (const std::string model : {"top_k: 8, hidden_size: 64, dtype: float32", "top_k: 2, hidden_size: 128"}) {
        CAPTURE(more);
        Scenario scenario = scenario_of("--quantization " + quantization, model, more.starts_with("v") ? "" : more);
        if (more.starts_with("v")) scenario.version = "pr26643";
        const auto report = replay(scenario, "f", {});
        REQUIRE_MESSAGE(report.has_value(), report.error().message);
        CHECK(report->dispatch_type == (quantization == "modelopt_fp4" ? DispatchType::nvfp4 : DispatchType::bf16));
        CHECK(report->payload_bytes_per_token.size() == (report->dispatch_type == DispatchType::bf16 ? 3 : 4));
        CHECK(report->verdict == Verdict::agrees);
        CHECK(report->bad_tokens == 0);
        CHECK(report->traffic.dispatch_bytes == report->traffic.rows_sent * report->dispatch_bytes_per_token);
      }
    }
  }
}

// Sent as it is sized for: nothing to note. #35758 sizes for bf16 whatever is sent.
TEST_CASE("quantised rows: a workspace of another size is noted, rows in their own format are not") {
  const auto notes = [](const std::string& version) {
    Scenario scenario = scenario_of("--quantization modelopt_fp4", "top_k: 2, hidden_size: 64");
    scenario.version = version;
    const auto report = replay(scenario, "f", {});
    REQUIRE(report.has_value());
    std::string all;
    for (const std::string& note : report->notes) all += note + "\n";
    return all;
  };
  CHECK(notes("pr30450").find("travel") == std::string::npos);
  CHECK(notes("pr35758").find("hidden states travel as NVFP4, 52 bytes per token with scales, ids and weights; the "
                              "server sizes its workspace for 144 bytes") != std::string::npos);
}

TEST_CASE("quantised rows: wrong outputs are among the tokens in doubt, and some are finite") {
  const auto scenario = load_scenario(A2ASIM_SOURCE_DIR "/sim/scenarios/nvfp4_collapse.yaml");
  REQUIRE(scenario.has_value());
  const auto report = replay(*scenario, "f", {});
  REQUIRE(report.has_value());
  std::int64_t finite = 0, nan = 0;
  std::set<int> payloads;
  for (const ReplayedStep& step : report->steps) {
    for (const Finding& found : step.findings) {
      if (found.row) payloads.insert(found.row->payload);
      if (found.kind != FindingKind::nan_output && found.kind != FindingKind::wrong_output) continue;
      (found.kind == FindingKind::nan_output ? nan : finite) += 1;
      CHECK(std::ranges::binary_search(step.outcome.in_doubt[static_cast<std::size_t>(found.rank)], found.token));
    }
  }
  CHECK(finite > 0);
  CHECK(nan > 0);
  CHECK(payloads.contains(1));
  CHECK(payloads.contains(3));
}

TEST_CASE("quantised rows: what cannot be sent is refused with the names of what can") {
  const auto error = [](const Scenario& scenario) {
    const auto report = replay(scenario, "f", {});
    REQUIRE_FALSE(report.has_value());
    return report.error().message;
  };
  CHECK(error(scenario_of("--quantization modelopt_fp4", "top_k: 2, hidden_size: 24")) ==
        "f:4:8: hidden_size is 24: pr30450 sends hidden states (NVFP4), which have a scale for 16 elements: give a "
        "multiple of 16");
  const std::string fault = "faults: [{payload_bytes: {rank: 1, payload: 3, value: 4}}]\n";
  CHECK(error(scenario_of("", "top_k: 2, hidden_size: 24", fault))
            .find("there is no payload 3; name one of 0 (hidden states), 1 (expert ids), 2 (weights)") !=
        std::string::npos);
  const auto report = replay(scenario_of("--quantization modelopt_fp4", "top_k: 2, hidden_size: 32", fault), "f", {});
  REQUIRE(report.has_value());
  CHECK(report->fidelity == Fidelity::provenance);
  CHECK(report->verdict == Verdict::disagrees);
}

}  // namespace a2asim
