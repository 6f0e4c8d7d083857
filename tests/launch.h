// Shorthand for tests that begin with a launch command.
#pragma once

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <string_view>

#include "model/step/engine.h"

namespace a2asim::test {

inline constexpr std::string_view kCollapsed =
    "python3 -m sglang.launch_server --model-path M --tp 4 --dp 4 --enable-dp-attention --enable-dp-lm-head "
    "--moe-dense-tp-size 1 --moe-a2a-backend flashinfer --moe-runner-backend flashinfer_cutlass ";
inline constexpr std::string_view kGathered =
    "python3 -m sglang.launch_server --model-path M --tp 4 --dp 4 --enable-dp-attention --moe-a2a-backend flashinfer "
    "--moe-runner-backend flashinfer_cutlass ";

// The deployment of a command; fails the test when the command cannot be used.
inline std::unique_ptr<Deployment> deploy(std::string_view generation, std::string_view command,
                                          std::optional<ModelShape> model = ModelShape{256, 8, 7168}) {
  const auto match = engines().front()->find_version(generation);
  REQUIRE(match.has_value());
  DeployOptions options;
  options.version = *match;
  options.model = model;
  auto deployed = deploy_command(command, options);
  REQUIRE(deployed.has_value());
  REQUIRE(deployed->deployment);
  return std::move(deployed->deployment);
}

}  // namespace a2asim::test
