// What an engine's launch is told, one line each, so that tests can compare all of it word for word.
#pragma once

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <string_view>

#include "model/check/check.h"
#include "model/check/nodes.h"
#include "model/step/engine.h"

namespace a2asim::test {

using Env = std::map<std::string, std::string>;

struct SaidLaunch {
  std::string_view version, options, expected;
  Env env = {};
};

struct TwoNodes {
  std::string_view version, options;  // "first|second"
  std::string expected;
  Env env = {}, other_env = {};
};

inline Result<DeployedCommand> deploy_named(std::string_view engine, std::string_view version, std::string_view command,
                                            const Env& env) {
  const auto found = find_engine(engine);
  REQUIRE(found.has_value());
  const auto match = (*found)->find_version(version);
  REQUIRE(match.has_value());
  DeployOptions options;
  options.version = *match;
  options.model = ModelShape{256, 8, 7168};
  for (const auto& [name, value] : env) options.env.set(name, value);
  return deploy_command(command, options);
}

// What stops the command, and what to change.
inline std::string refusals(std::string_view engine, std::string_view version, const std::string& command,
                            const Env& env) {
  const auto deployed = deploy_named(engine, version, command, env);
  if (!deployed) return deployed.error().message + "\n";
  const Engine& of = **find_engine(engine);
  if (deployed->refused)
    return fmt::format("{} -> {}\n", deployed->refused->message,
                       of.fix_for_refused(*of.find_version(version)->version, deployed->launch.argv));
  std::string out;
  for (const Rejection& one : deployed->deployment->rejections)
    out += fmt::format("{}, {}: {}: {} -> {}\n", one.where, one.handler, name(one.error.kind), one.error.message,
                       one.fix.words);
  return out;
}

// What is said besides; ! before a warning.
inline std::string notes(std::string_view engine, std::string_view version, const std::string& command,
                         const Env& env) {
  const auto deployed = deploy_named(engine, version, command, env);
  REQUIRE(deployed.has_value());
  REQUIRE(deployed->deployment);
  std::string out;
  for (const std::vector<Note>* some :
       {&std::as_const(deployed->argument_notes), &std::as_const(deployed->deployment->notes)})
    for (const Note& note : *some) out += fmt::format("{}{}\n", note.is_warning ? "! " : "", note.message);
  return out;
}

using Said = std::string (*)(std::string_view engine, std::string_view version, const std::string& command, const Env&);

inline void check_said(Said said, std::string_view engine, const std::string& command,
                       const std::vector<SaidLaunch>& launches) {
  for (const SaidLaunch& launch : launches) {
    CAPTURE(launch.version);
    CAPTURE(launch.options);
    CHECK(said(engine, launch.version, command + std::string(launch.options), launch.env) == launch.expected);
  }
}

// What is added to the second node's report: "severity kind: message; consequence; fix".
inline std::string differences(const Deployment& own, const Deployment& other) {
  CheckReport report = check_deployment(own), other_report = check_deployment(other);
  const std::vector<CheckFinding> before = other_report.findings;
  check_nodes(std::vector<NodeCommand>{{&own, &report}, {&other, &other_report}});
  std::string out;
  for (const CheckFinding& finding : other_report.findings)
    if (std::ranges::find(before, finding.message, &CheckFinding::message) == before.end())
      out += fmt::format("{} {}: {}; {}; {}\n", name(finding.severity), name(finding.kind), finding.message,
                         finding.consequence, finding.fix);
  return out;
}

inline void check_differences(std::string_view engine, const std::string& first, const std::string& second,
                              const std::vector<TwoNodes>& launches) {
  for (const TwoNodes& launch : launches) {
    CAPTURE(launch.version);
    CAPTURE(launch.options);
    const std::size_t bar = launch.options.find('|');
    const auto own =
        deploy_named(engine, launch.version, first + std::string(launch.options.substr(0, bar)), launch.env);
    const auto other =
        deploy_named(engine, launch.version, second + std::string(launch.options.substr(bar + 1)), launch.other_env);
    REQUIRE(own.has_value());
    REQUIRE(other.has_value());
    REQUIRE(own->deployment);
    REQUIRE(other->deployment);
    CHECK(differences(*own->deployment, *other->deployment) == launch.expected);
  }
}

}  // namespace a2asim::test
