// The driver of `a2asim validate` with a second simulator in the device's place: what it compares, and that it notices.
#include "tools/validate/validate.h"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "model/alltoall/error.h"
#include "model/alltoall/routing.h"
#include "sim/alltoall/sim_alltoall.h"
#include "sim/scenario/scenario_reader.h"
#include "tests/cli/run.h"
#include "tests/cli/stand_in_device.h"
#include "tools/backends/backends.h"
#include "tools/validate/validate_report.h"
#include "tools/validate/validate_writes.h"

namespace a2asim {
namespace {

ScenarioValidation validated(const std::string& name, bool guard, Flaw flaw = Flaw::none,
                             const std::string& sglang = "") {
  const std::string file = std::string(A2ASIM_SOURCE_DIR) + "/sim/scenarios/" + name + ".yaml";
  const auto scenario = load_scenario(file);
  REQUIRE_MESSAGE(scenario.has_value(), file);
  auto out = validate_scenario(*scenario, file, {guard, {sglang.empty() ? "" : "sglang", sglang}}, stand_in(flaw));
  REQUIRE(out.has_value());
  return *out;
}

std::int64_t count(const ScenarioValidation& one, CheckKind kind, CheckResult result = CheckResult::passed) {
  return one.counts[static_cast<std::size_t>(kind)][static_cast<std::size_t>(result)];
}

TEST_CASE("validate: every shipped scenario passes against an equal device, or is skipped with its reason") {
  int passed = 0;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(A2ASIM_SOURCE_DIR) + "/sim/scenarios")) {
    if (entry.path().extension() != ".yaml") continue;
    for (const bool guard : {false, true}) {
      const ScenarioValidation one = validated(entry.path().stem().string(), guard);
      INFO(validations_as_text(std::span(&one, 1), false));
      CHECK(one.result != CheckResult::failed);
      if (one.result == CheckResult::skipped) CHECK(!one.why.empty());
      passed += one.result == CheckResult::passed ? 1 : 0;
    }
  }
  CHECK(passed > 20);
}

TEST_CASE("validate: disagreeing ranks, guard off: the same wrong tokens: guard on: the error") {
  const ScenarioValidation off = validated("collapse", false);
  CHECK(off.result == CheckResult::passed);
  CHECK(off.nan_tokens > 0);
  CHECK(count(off, CheckKind::receive) == 12);  // 3 steps, 2 layers, after dispatch and after combine
  CHECK(count(off, CheckKind::output) == 6);
  CHECK(count(off, CheckKind::tokens) > 0);
  const ScenarioValidation on = validated("collapse", true);
  CHECK(on.result == CheckResult::passed);
  CHECK(count(on, CheckKind::guard) == 1);
  CHECK(count(on, CheckKind::recovery) == 1);
  CHECK(count(on, CheckKind::verdict) == 1);
}

TEST_CASE("validate: graph steps go through capture and replay") {
  CHECK(validated("capture", true).graph_layers == 3);
  const ScenarioValidation eager = validated("graph_buckets", false, Flaw::full_gpu);
  CHECK(eager.result == CheckResult::passed);
  CHECK(eager.graph_layers == 0);
  CHECK(count(eager, CheckKind::receive, CheckResult::skipped) == 8);
  CHECK(count(eager, CheckKind::output) == 8);
  const ScenarioValidation off = validated("graph_buckets", false);
  CHECK(off.graph_layers == 8);
  CHECK(off.nan_tokens + off.wrong_tokens > 0);
}

TEST_CASE("validate: a device that cannot be asked for so many ranks is skipped, one that breaks fails") {
  const ScenarioValidation few = validated("collapse", false, Flaw::too_few_gpus);
  CHECK(few.result == CheckResult::skipped);
  REQUIRE(few.remarks.size() == 1);
  CHECK(few.remarks[0].what == "one rank a GPU");
  CHECK(validated("collapse", false, Flaw::broken).result == CheckResult::failed);
}

TEST_CASE("validate: missing ranks and refusals") {
  CHECK(count(validated("fault_missing_rank", true), CheckKind::missing) == 1);
  CHECK(count(validated("fault_dead_rank", false), CheckKind::missing) == 1);
  CHECK(count(validated("verify_over_cap", true), CheckKind::refusal) == 1);
  CHECK(count(validated("double_count", true, Flaw::none, "pr25907"), CheckKind::refusal) == 1);
  CHECK(count(validated("fault_max_num_tokens", true), CheckKind::guard) == 1);
  CHECK(count(validated("fault_payload_bytes", true), CheckKind::guard) == 1);
  CHECK(validated("fault_payload_bytes", false).result == CheckResult::skipped);
  const ScenarioValidation rejected = validated("skip_all_gather", true, Flaw::none, "pr30450");
  CHECK(rejected.result == CheckResult::skipped);
  CHECK(rejected.why.find("refuses before any all-to-all: AttributeError") != std::string::npos);
}

TEST_CASE("validate: a device that departs from the simulator fails, and the check says which") {
  const struct {
    const char* scenario;
    bool guard;
    Flaw flaw;
    CheckKind kind;
  } rows[] = {{"idle_rank", true, Flaw::byte_in_slice, CheckKind::receive},
              {"idle_rank", true, Flaw::byte_in_output, CheckKind::output},
              {"collapse", false, Flaw::byte_in_slice, CheckKind::receive},
              {"collapse", true, Flaw::no_guard, CheckKind::guard},
              {"verify_over_cap", true, Flaw::no_refusal, CheckKind::refusal},
              {"fault_missing_rank", true, Flaw::no_timeout, CheckKind::missing}};
  for (const auto& row : rows) {
    const ScenarioValidation one = validated(row.scenario, row.guard, row.flaw);
    INFO(validations_as_text(std::span(&one, 1), false));
    CHECK(one.result == CheckResult::failed);
    CHECK(count(one, row.kind, CheckResult::failed) >= 1);
  }
}

// Rank 0 sends three rows with R = 4 to rows 0, 1, 2 of its own slice; rank 1 one row with R = 1 to row 1.
TEST_CASE("validate: only bytes that two ranks wrote in one round may differ, and only to what one of them wrote") {
  AllToAllConfig config;
  config.ep_size = 2;
  config.num_experts = 2;
  config.max_num_tokens = 4;
  config.payload_bytes_per_token = {16};
  config.hidden_size = 8;
  const std::vector<AllToAllConfig> configs(2, config);
  const std::vector<std::int32_t> to_rank_0(3, 0);
  const std::vector<std::byte> first(48, std::byte{1}), second(16, std::byte{2});
  const std::vector<DispatchInput> inputs = {{4, 3, to_rank_0, {first}},
                                             {1, 1, std::span(to_rank_0).first(1), {second}}};
  const std::vector<RankDecision> decisions(2);
  StepOutcome outcome;
  outcome.taking_part = RankMask(0b11);
  const ExpertPayloads payloads;
  const MirroredLayer layer{outcome, 0, {}, configs, decisions, inputs, payloads, -1};
  const DispatchWrites writes(layer, {});
  const std::int64_t row = config.layout().payload_data;
  for (const std::int64_t at : {row + 16, row + 31}) {
    CHECK(writes.may_be(0, at, std::byte{1}));
    CHECK(writes.may_be(0, at, std::byte{2}));
    CHECK_FALSE(writes.may_be(0, at, std::byte{3}));
  }
  for (const std::int64_t at : {row + 15, row + 32, row + 48, row - 1}) {
    CHECK_FALSE(writes.may_be(0, at, std::byte{1}));
    CHECK_FALSE(writes.may_be(0, at, std::byte{2}));
  }
  CHECK_FALSE(writes.may_be(1, row + 16, std::byte{2}));
  CHECK_FALSE(writes.hits_tables(layer));
}

TEST_CASE("validate: JSON") {
  const std::vector<ScenarioValidation> all = {validated("idle_rank", true), validated("fault_payload_bytes", false)};
  const auto json = validations_as_json(all, "cuda");
  CHECK(json["summary"]["passed"] == 1);
  CHECK(json["summary"]["skipped"] == 1);
  CHECK(json["scenarios"][0]["checks"]["receive"]["passed"] == 6);
  CHECK(json["scenarios"][1]["remarks"][0]["result"] == "skipped");
}

TEST_CASE("validate: the command line, and a program or machine without CUDA") {
  const std::string file = std::string(A2ASIM_SOURCE_DIR) + "/sim/scenarios/idle_rank.yaml";
  const auto refused = [](const Outcome& outcome, const char* part) {
    INFO(outcome.err);
    CHECK(outcome.exit_code == kUnusableInput);
    CHECK(outcome.out.empty());
    CHECK(std::ranges::count(outcome.err, '\n') == 1);
    CHECK(outcome.err.find(part) != std::string::npos);
  };
  refused(run({"validate"}), "name one or more files");
  refused(run({"validate", file, "--backend", "tpu"}), "--backend");
  refused(run({"validate", file, "--guard", "maybe"}), "--guard");
  refused(run({"validate", file, "--ranks-per-gpu", "0"}), "--ranks-per-gpu");
  refused(run({"validate", file, "--gpus", "many"}), "--gpus");
  refused(run({"validate", file, "--peer-memory", "pigeon"}), "--peer-memory");
  refused(run({"conformance", "--peer-memory", "pigeon"}), "--peer-memory");
  refused(run({"conformance", "--peer-memory", "nccl"}), "--backend cuda");
  refused(run({"conformance", "--gpus", "2"}), "--backend cuda");
  refused(run({"validate", file, "--join-timeout-s", "0"}), "--join-timeout-s");
  refused(run({"validate", "/nowhere.yaml"}), "nowhere");
  if (const auto devices = cuda_devices({}); !devices) {
    refused(run({"validate", file}), "CUDA");
  } else {
    CHECK(run({"validate", file}).exit_code == kNothingWrong);
  }
}

}  // namespace
}  // namespace a2asim
