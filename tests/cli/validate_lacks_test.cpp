// What is compared with a device that cannot do everything: each lack is named, and all else is still compared.
#include <doctest/doctest.h>

#include "sim/scenario/scenario_reader.h"
#include "tests/cli/run.h"
#include "tools/backends/builtin_table.h"
#include "tools/validate/validate_report.h"

namespace a2asim {
namespace {

using enum Capability;

std::string shipped_file(const std::string& name) {
  return std::string(A2ASIM_SOURCE_DIR) + "/sim/scenarios/" + name + ".yaml";
}

Capabilities without(std::initializer_list<Capability> lacking) {
  Capabilities can = simulator_capabilities();
  for (const Capability one : lacking) can = can.without(one);
  return can;
}

ScenarioValidation validated_as(const std::string& file, Capabilities can, bool guard = false,
                                const VersionChoice& version = {}, const MakeDevice& make = make_simulator) {
  const auto scenario = load_scenario(file);
  REQUIRE_MESSAGE(scenario.has_value(), (scenario ? "" : scenario.error().message));
  auto out = validate_scenario(*scenario, file, {guard, version, can}, make);
  REQUIRE_MESSAGE(out.has_value(), (out ? "" : out.error().message));
  return *out;
}

// All but the summary.
std::string text_of(const ScenarioValidation& one) {
  const std::string text = validations_as_text(std::span(&one, 1), false);
  return text.substr(0, text.rfind("validate: "));
}

TEST_CASE("validate: each capability that a device lacks is named, and what needs none is compared") {
  const std::string eagerly = "run eagerly, with the sizes of the graph: needs 'captured graphs'\n";
  const struct {
    const char* scenario;
    std::initializer_list<Capability> lacking;
    std::string wanted;
  } cases[] = {
      {"idle_rank",
       {readable_workspace},
       "passed  idle_rank, guard off: agrees; receive 3, output 3, tokens 6; 49.2 KiB of slices, 97 tokens\n"},
      {"idle_rank",
       {readable_workspace, slot_order, told_slots},
       "passed  idle_rank, guard off: agrees; receive 3, output 3, tokens 6; 49.2 KiB of slices, 97 tokens\n"},
      {"idle_rank",
       {sanitize},  // nothing is looked at once ids differ
       "passed  idle_rank, guard off: agrees; receive 3, output 3, tokens 6; 952.5 KiB of slices, 97 tokens\n"},
      {"collapse",
       {readable_workspace},
       "skipped  collapse, guard off: disagrees\n        nothing to compare from step 0 on\n"
       "        receive skipped, step 0: needs 'readable workspace'\n"},
      {"collapse",
       {unequal_r, readable_workspace},
       "skipped  collapse, guard off: disagrees\n        nothing to compare from step 0 on\n"
       "        receive skipped, step 0: needs 'unequal R'\n"},
      {"collapse",
       {slot_order, told_slots},
       "skipped  collapse, guard off: disagrees\n        nothing to compare from step 0 on\n"
       "        receive skipped, step 0: needs 'told slots'\n"},
      {"collapse",
       {slot_order},
       "passed  collapse, guard off: disagrees; receive 12, output 6, tokens 20; 14.8 MiB of slices, 460 tokens (399 "
       "NaN, 32 wrong, on both)\n"},
      {"collapse",
       {told_slots},
       "passed  collapse, guard off: disagrees; receive 12, output 6, tokens 20; 14.8 MiB of slices, 460 tokens (399 "
       "NaN, 32 wrong, on both)\n"},
      {"collapse",
       {sum_order},  // of six layers four are said
       "passed  collapse, guard off: disagrees; receive 12, tokens 20; 14.8 MiB of slices, 0 tokens (399 NaN, 32 "
       "wrong, on both)\n"
       "        output skipped, step 0: needs 'sum order'\n        output skipped, step 0, layer 1: needs 'sum order'\n"
       "        output skipped, step 1: needs 'sum order'\n        output skipped, step 1, layer 1: needs 'sum "
       "order'\n"},
      {"idle_rank",
       {sum_order},
       "passed  idle_rank, guard off: agrees; receive 6, output 3, tokens 6; 1.9 MiB of slices, 97 tokens\n"},
      {"fault_dead_rank_masked",
       {rank_mask},
       "passed  fault_dead_rank_masked, guard off: corrupt; receive 2, output 1, tokens 4; 635.0 KiB of slices, 24 "
       "tokens\n        nothing to compare from step 1 on\n        receive skipped, step 1: needs 'rank mask'\n"},
      {"verify_over_cap",
       {graphs},
       "passed  verify_over_cap, guard off: over_capacity; receive 4, output 2, tokens 8; 638.0 KiB of slices, 352 "
       "tokens (0 NaN, 5 wrong, on both)\n        receive skipped, step 0: " +
           eagerly + "        receive skipped, step 1: " + eagerly},
      {"fault_missing_rank",
       {},
       "passed  fault_missing_rank, guard off: disagrees; receive 2, output 1, tokens 4; 635.0 KiB of slices, 24 "
       "tokens\n        compared up to step 1: there it ends on both\n"
       "        missing skipped, step 1: needs 'bounded waits'\n"},
      {"sequence_parallel",
       {},
       "passed  sequence_parallel, guard off: over_capacity; receive 2, output 1, tokens 4; 161.0 KiB of slices, 12 "
       "tokens\n        compared up to step 1: there it ends on both\n"
       "        refusal skipped, step 1: needs 'refusals'\n"},
  };
  for (const auto& one : cases)
    CHECK(text_of(validated_as(shipped_file(one.scenario), without(one.lacking))) == one.wanted);
}

TEST_CASE("validate: steps are counted where the device had an all-to-all, once however many layers") {
  CHECK(validated_as(shipped_file("collapse"), without({})).steps == 3);
  CHECK(validated_as(shipped_file("fault_missing_rank"), without({})).steps == 2);
  CHECK(validated_as(shipped_file("idle_rank"), without({})).steps == 3);
}

TEST_CASE("validate: what cannot be asked at all is skipped before any all-to-all, with its reason") {
  const auto why = [](const std::string& file, Capabilities can, bool guard, const VersionChoice& version = {}) {
    const ScenarioValidation one = validated_as(file, can, guard, version);
    CHECK(one.result == CheckResult::skipped);
    CHECK(one.steps == 0);
    return one.why;
  };
  CHECK(why(shipped_file("idle_rank"), without({}), true) == "needs 'guard'");
  CHECK(why(shipped_file("vllm_rounds"), without({}), false) ==
        "all-to-all deepep_low_latency: not the one of these kernels");
  CHECK(why(shipped_file("verify_over_cap"), without({}), false, {"sglang", "pr30450"}) ==
        "over_capacity before any all-to-all: graph capture fails: AssertionError: bucket 16 needs "
        "runtime_max_tokens_per_rank 64, max_num_tokens is 32 "
        "(SGLANG_FLASHINFER_NUM_MAX_DISPATCH_TOKENS_PER_RANK=32)");
  const std::string deployment =
      "name: own\nsglang: pr30450\nlaunch: python3 -m sglang.launch_server --model-path M --tp-size 2 --dp-size 2 "
      "--enable-dp-attention --moe-a2a-backend flashinfer --moe-runner-backend flashinfer_cutlass "
      "--disable-cuda-graph\nmodel: {num_experts: 4, top_k: 2, hidden_size: 64}\n";
  const TemporaryFile network("ffn.yaml", deployment + "experts: ffn\nsteps: [{mode: decode, tokens: [1, 1]}]\n");
  CHECK(why(network.path, without({}), false) == "experts: ffn; the device has the closed-form experts only");
  const TemporaryFile idle("idle.yaml", deployment + "steps: [{mode: decode, tokens: [0, 0]}]\n");
  CHECK(why(idle.path, without({}), false) == "no step of it has an all-to-all");
}

// Two ranks with one row each: the ids, rows of 8 bytes, follow two rows of 130 bytes.
TEST_CASE("validate: a device without refusals is not given payloads that begin beside their vectors") {
  const TemporaryFile file(
      "odd.yaml",
      "name: odd\nsglang: pr30450\nlaunch: python3 -m sglang.launch_server --model-path M --tp-size 2 --dp-size 2 "
      "--enable-dp-attention --moe-a2a-backend flashinfer --moe-runner-backend flashinfer_cutlass "
      "--disable-cuda-graph\nmodel: {num_experts: 4, top_k: 2, hidden_size: 65}\n"
      "steps: [{mode: decode, tokens: [2, 1]}, {mode: decode, tokens: [1, 1]}]\n");
  CHECK(text_of(validated_as(file.path, without({}))) ==
        "passed  odd, guard off: agrees; receive 2, output 1, tokens 2; 11.4 MiB of slices, 4 tokens\n"
        "        compared up to step 1: there a rank gives what only a refusal can answer\n"
        "        refusal skipped, step 1: needs 'refusals'\n");
}

}  // namespace
}  // namespace a2asim
