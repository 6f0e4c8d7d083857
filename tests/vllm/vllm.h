// Shorthand for tests that begin with a command of vLLM.
#pragma once

#include <doctest/doctest.h>

#include <map>
#include <set>
#include <string>
#include <string_view>

#include "model/check/check.h"
#include "model/step/engine.h"

namespace a2asim::test {

inline const Engine& vllm_engine() {
  const auto engine = find_engine("vllm");
  REQUIRE(engine.has_value());
  return **engine;
}

inline Result<DeployedCommand> deploy_vllm(std::string_view version, std::string_view command,
                                           const std::map<std::string, std::string>& env = {},
                                           std::optional<ModelShape> model = ModelShape{256, 8, 7168}) {
  const auto match = vllm_engine().find_version(version);
  REQUIRE(match.has_value());
  DeployOptions options;
  options.version = *match;
  options.model = model;
  for (const auto& [name, value] : env) options.env.set(name, value);
  return deploy_command(command, options);
}

// Of a command that the parser takes.
inline CheckReport check_vllm(std::string_view version, std::string_view command,
                              const std::map<std::string, std::string>& env = {},
                              std::optional<ModelShape> model = ModelShape{256, 8, 7168}) {
  const auto deployed = deploy_vllm(version, command, env, model);
  REQUIRE(deployed.has_value());
  REQUIRE(deployed->deployment);
  return check_deployment(*deployed->deployment);
}

inline bool says(const CheckReport& report, std::string_view words) {
  for (const CheckFinding& finding : report.findings)
    for (const std::string& text : {finding.message, finding.fix, finding.consequence})
      if (text.find(words) != std::string::npos) return true;
  return false;
}

}  // namespace a2asim::test
