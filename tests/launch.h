// Shorthand for tests that begin with a launch command.
#pragma once

#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <string_view>

#include "model/engines/sglang/deployment.h"
#include "model/launch/launch_command.h"

namespace a2asim::test {

inline constexpr std::string_view kCollapsed =
    "python3 -m sglang.launch_server --model-path M --tp 4 --dp 4 --enable-dp-attention --enable-dp-lm-head "
    "--moe-dense-tp-size 1 --moe-a2a-backend flashinfer --moe-runner-backend flashinfer_cutlass ";
inline constexpr std::string_view kGathered =
    "python3 -m sglang.launch_server --model-path M --tp 4 --dp 4 --enable-dp-attention --moe-a2a-backend flashinfer "
    "--moe-runner-backend flashinfer_cutlass ";

// The deployment of a command; fails the test when the command cannot be used.
inline std::unique_ptr<Deployment> deploy(std::string_view generation, std::string command,
                                          std::optional<ModelShape> model = ModelShape{256, 8, 7168}) {
  const auto match = find_generation(generation);
  REQUIRE(match.has_value());
  auto launch = parse_launch_command(command);
  REQUIRE(launch.has_value());
  auto parsed = parse_server_args(match->generation->start->flags, launch->argv, ParseMode::lenient);
  REQUIRE(parsed.has_value());
  DeploymentInputs inputs;
  inputs.generation = match->generation;
  inputs.has_flashinfer_dispatcher = match->has_flashinfer_dispatcher;
  inputs.args = parsed->args;
  inputs.env = launch->env;
  inputs.model = model;
  auto deployment = resolve_deployment(inputs);
  REQUIRE(deployment.has_value());
  return std::move(*deployment);
}

}  // namespace a2asim::test
