// What validate says of a device that fails, or says too little of what is wrong: which check, where, and the words.
#include <doctest/doctest.h>

#include "sim/scenario/scenario_reader.h"
#include "tests/cli/stand_in_device.h"
#include "tools/validate/validate_report.h"

namespace a2asim {
namespace {

// The device that is made first, or the one that is made after the first error, has the flaw.
ScenarioValidation validated_with_flaw(const std::string& name, bool guard, Flaw flaw, bool only_second) {
  const std::string file = std::string(A2ASIM_SOURCE_DIR) + "/sim/scenarios/" + name + ".yaml";
  const auto scenario = load_scenario(file);
  REQUIRE_MESSAGE(scenario.has_value(), file);
  int made = 0;
  const MakeDevice make = [&](const DeviceRequest& request) {
    return stand_in((made++ == 1) == only_second || !only_second ? flaw : Flaw::none)(request);
  };
  auto out = validate_scenario(*scenario, file, {guard, {}}, make);
  REQUIRE(out.has_value());
  return *out;
}

std::string what_failed(const ScenarioValidation& one) {
  std::string text = one.why + "\n";
  for (const Remark& remark : one.remarks) {
    std::string place = std::to_string(remark.step) + "." + std::to_string(remark.layer);
    text += std::string(name(remark.kind)) + " " + std::string(name(remark.result)) + " " + place + ": " + remark.what +
            "\n";
  }
  return text;
}

TEST_CASE("validate: a device that fails is compared no further, and the check that it failed in has its words") {
  const struct {
    Flaw flaw;
    const char* wanted;
  } cases[] = {
      {Flaw::none, "\n"},
      {Flaw::poison_fails, "the device failed\nreceive failed 0.0: something went wrong\n"},
      {Flaw::dispatch_fails, "the device failed\nreceive failed 0.0: something went wrong\n"},
      {Flaw::sanitize_fails, "the device failed\noutput failed 0.0: something went wrong\n"},
      {Flaw::experts_fails, "the device failed\noutput failed 0.0: something went wrong\n"},
      {Flaw::combine_fails, "the device failed\noutput failed 0.0: something went wrong\n"},
      {Flaw::broken,
       "no all-to-all on the device\nreceive failed 0.0: the all-to-all could not be constructed on the device: no "
       "memory\n"},
      {Flaw::too_few_gpus, "no all-to-all on the device\nreceive skipped 0.0: one rank a GPU\n"},
  };
  for (const auto& one : cases) {
    const ScenarioValidation found = validated_with_flaw("idle_rank", false, one.flaw, false);
    CHECK(what_failed(found) == one.wanted);
    CHECK((found.result == CheckResult::failed) == (one.flaw != Flaw::none && one.flaw != Flaw::too_few_gpus));
  }
  // All three steps are gone through: what the experts leave is looked at, and so is what is poisoned.
  const std::string zones =
      "receive failed 0.0: something went wrong\nreceive failed 1.0: something went wrong\n"
      "receive failed 2.0: something went wrong\n";
  CHECK(what_failed(validated_with_flaw("idle_rank", false, Flaw::red_zones, false)) == "\n" + zones);
}

TEST_CASE("validate: the first byte that differs, its place, both values, and how many differ") {
  const std::string slice = what_failed(validated_with_flaw("idle_rank", false, Flaw::byte_in_slice, false));
  CHECK(slice.find("the device differs\nreceive failed 0.0: after dispatch: rank 1, byte ") == 0);
  CHECK(slice.find("(outside this rank's regions): fe, the simulator has ff; 1 bytes differ in all\n") !=
        std::string::npos);
  const std::string output = what_failed(validated_with_flaw("idle_rank", false, Flaw::byte_in_output, false));
  CHECK(output.find("\noutput failed 0.0: rank 0, 0 of ") == 0);
  CHECK(output.find(" bytes equal: first other at token 0, byte 0\n") != std::string::npos);
}

TEST_CASE("validate: of ranks that disagree the guard names two, and afterwards the device is right again") {
  const std::string named =
      "compared up to step 0: there the guard ends it\nguard passed 0.0: dispatch: rank 0 has "
      "runtime_max_tokens_per_rank 4, rank 1 has 2; every rank must use the same value (geometry guard)\n";
  const std::string ends = "compared up to step 0: there the guard ends it\n";
  const std::string not_again =
      "recovery failed 0.0: after the error a round of agreeing ranks is not what it should be\n";
  CHECK(what_failed(validated_with_flaw("collapse", true, Flaw::none, false)) == named);
  CHECK(what_failed(validated_with_flaw("collapse", true, Flaw::no_guard, false)) ==
        ends + "guard failed 0.0: ranks disagree and no error came\n");
  CHECK(what_failed(validated_with_flaw("collapse", true, Flaw::guard_says_little, false)) ==
        ends + "guard failed 0.0: the error names no two ranks that differ: something went wrong\n");
  for (const Flaw flaw : {Flaw::poison_fails, Flaw::dispatch_fails, Flaw::sanitize_fails, Flaw::experts_fails,
                          Flaw::combine_fails, Flaw::dispatch_missing, Flaw::sanitize_missing, Flaw::experts_missing,
                          Flaw::byte_in_slice, Flaw::byte_in_output, Flaw::broken}) {
    CAPTURE(static_cast<int>(flaw));
    CHECK(what_failed(validated_with_flaw("collapse", true, flaw, true)) == named + not_again);
  }
}

TEST_CASE("validate: a refusal names the rank and its numbers, and comes before any byte") {
  const std::string ends = "compared up to step 1: there it ends on both\n";
  const auto found = [](Flaw flaw) { return what_failed(validated_with_flaw("sequence_parallel", true, flaw, false)); };
  const std::string words = "rank 0: runtime_max_tokens_per_rank 32 is above max_num_tokens 16";
  CHECK(found(Flaw::none) == ends + "refusal passed 1.0: " + words + "\n");
  CHECK(what_failed(validated_with_flaw("sequence_parallel", true, Flaw::dispatch_missing, true)) ==
        ends + "refusal failed 1.0: " + words + ", and the device ran it\n");
  CHECK(found(Flaw::refusal_says_little) ==
        ends + "refusal failed 1.0: the error names other ranks or numbers: something went wrong\n");
  CHECK(found(Flaw::refusal_writes) ==
        ends + "refusal failed 1.0: bytes were written before the refusal: " + words + "\n");
}

TEST_CASE("validate: who waits says for whom") {
  const std::string ends = "compared up to step 1: there it ends on both\n";
  const auto found = [](Flaw flaw) {
    return what_failed(validated_with_flaw("fault_missing_rank", true, flaw, false));
  };
  CHECK(found(Flaw::none) ==
        ends +
            "missing passed 1.0: dispatch: rank 0 waits for rank 2 (flag is 0, expected 1); rank 1 waits for rank 2 "
            "(flag is 0, expected 1); rank 3 waits for rank 2 (flag is 0, expected 1)\n");
  CHECK(found(Flaw::no_timeout) ==
        ends + "missing failed 1.0: ranks are missing, and dispatch came back without an error\n");
  CHECK(found(Flaw::wait_says_little) ==
        ends + "missing failed 1.0: the error does not say 'rank 0 waits for rank 2': something went wrong\n");
}

}  // namespace
}  // namespace a2asim
