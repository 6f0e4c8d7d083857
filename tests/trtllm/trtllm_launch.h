// A deployment from a command of TensorRT-LLM and the text of its YAML file.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <memory>
#include <string>

#include "model/check/check.h"
#include "model/launch/launch_file.h"
#include "model/step/engine.h"

namespace a2asim::test {

struct TrtllmLaunch {
  std::string version = "newest", command = {}, config = {}, env_name = {}, env_value = {};
  std::optional<std::int64_t> nvlink_domain = 8;
  std::optional<ModelShape> model = ModelShape{256, 8, 7168};
  std::string gpu_name = {};
};

inline std::unique_ptr<Deployment> deploy(const TrtllmLaunch& launch) {
  Result<LaunchCommand> command = parse_launch_command(launch.command);
  REQUIRE_MESSAGE(command.has_value(), (command ? "" : command.error().message));
  while (const auto use = find_config(*command)) REQUIRE(merge_config(*command, *use, launch.config));
  const Engine& engine = find_engine(*command);
  REQUIRE(engine.name == "trtllm");
  DeployOptions options;
  const auto version = engine.find_version(launch.version);
  REQUIRE_MESSAGE(version.has_value(), (version ? "" : version.error().message));
  options.version = *version;
  options.model = launch.model;
  options.nvlink_domain = launch.nvlink_domain;
  options.gpu_name = launch.gpu_name;
  if (!launch.env_name.empty()) options.env.set(launch.env_name, launch.env_value);
  auto deployed = engine.deploy(std::move(*command), options);
  REQUIRE_MESSAGE(deployed.has_value(), (deployed ? "" : deployed.error().message));
  REQUIRE(deployed->deployment);
  return std::move(deployed->deployment);
}

inline bool mentions(const CheckReport& report, std::string_view words) {
  return std::ranges::any_of(
      report.findings, [&](const CheckFinding& finding) { return finding.message.find(words) != std::string::npos; });
}

}  // namespace a2asim::test
