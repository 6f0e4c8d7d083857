#include "property_tests/outside.h"

#include <fmt/format.h>

#include <cstdlib>

#include "tests/main/arguments.h"

namespace a2asim::props {
namespace {

[[noreturn]] void stop_with(const std::string& why) {
  fmt::print(stderr, "property_tests: {}\n", why);
  std::exit(2);
}

std::unique_ptr<EngineProcess> start() {
  const auto command = test::argument("--engine-cmd");
  if (!command) return nullptr;
  Result<std::unique_ptr<EngineProcess>> started = EngineProcess::start_engine(*command);
  if (!started) stop_with(started.error().message);
  return std::move(*started);
}

}  // namespace

EngineProcess* outside() {
  static const std::unique_ptr<EngineProcess> process = start();
  return process.get();
}

SizingRule outside_rule() { return outside() == nullptr ? SizingRule{} : outside()->rule(); }

std::vector<const Version*> judged_versions() {
  if (outside() == nullptr) return every_version();
  const auto match = find_generation(test::argument("--engine-version").value_or("newest"));
  if (!match) stop_with("--engine-version: " + match.error().message);
  return {match->generation};
}

bool must_break(const Law& law, std::string_view generation) {
  return outside() == nullptr && is_known_to_fail(law, generation);
}

}  // namespace a2asim::props
