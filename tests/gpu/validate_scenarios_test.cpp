// a2asim validate on a device: every shipped scenario, guard on and off.
#include <filesystem>
#include <vector>

#include "gpu_world.h"
#include "tests/cli/run.h"

namespace a2asim::test {
namespace {

void validate_all(std::vector<std::string> options) {
  std::vector<std::string> args = {"validate"};
  for (const auto& entry : std::filesystem::directory_iterator(A2ASIM_SOURCE_DIR "/sim/scenarios"))
    if (entry.path().extension() == ".yaml") args.push_back(entry.path().string());
  REQUIRE(args.size() > 10);
  args.insert(args.end(), options.begin(), options.end());
  const Outcome outcome = run(args);
  INFO(outcome.out);
  INFO(outcome.err);
  CHECK(outcome.exit_code == kNothingWrong);
  CHECK(outcome.out.find(" 0 failed, ") != std::string::npos);
}

TEST_CASE("scenarios: the device does what the simulator says") {
  if (skip_without_device()) return;
  validate_all({});
}

TEST_CASE("scenarios: the same with every rank in a launch of its own") {
  if (skip_without_device()) return;
  if (launches_are_serial()) {
    skip("launches run one at a time here");
    return;
  }
  validate_all({"--ranks-per-gpu", "1"});
}

}  // namespace
}  // namespace a2asim::test
