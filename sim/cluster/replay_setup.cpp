#include "sim/cluster/replay_setup.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/check/checked_engine.h"
#include "model/step/judgement.h"

namespace a2asim {
namespace {

std::string words(const Rejection& rejection) {
  return fmt::format("{}: {}{}{}", rejection.handler, name(rejection.error.kind),
                     rejection.error.message.empty() ? "" : ": ", rejection.error.message);
}

bool is_argument_handler(const Rejection& rejection) { return rejection.handler.starts_with("_handle_"); }

// The first thing that stops the engine before it serves.
void settle_start(const Scenario& scenario, ScenarioDeployment& out) {
  const Deployment& deployment = *out.deployment;
  for (const Rejection& rejection : deployment.rejections) {
    if (scenario.parallel && is_argument_handler(rejection)) {
      out.notes.push_back(fmt::format("{} {} refuses this layout at its start ({}); `parallel:` runs it all the same",
                                      engine_of(*out.generation).title, out.generation->name, words(rejection)));
      continue;
    }
    out.verdict = Verdict::rejected;
    out.why = "the engine refuses to start: " + words(rejection);
    out.fix = rejection.fix.words;
    return;
  }
  const auto failed = failed_capture(deployment);
  if (!failed) return;
  std::string why =
      fmt::format("bucket {} needs runtime_max_tokens_per_rank {}, max_num_tokens is {} ({})", failed->bucket,
                  failed->runtime_max_tokens_per_rank, deployment.max_num_tokens, deployment.max_num_tokens_source);
  if (!failed->is_settled) {
    out.notes.push_back("the capture sizes are left open; of those assumed " + why);
    return;
  }
  out.verdict = Verdict::over_capacity;
  out.why = "graph capture fails: AssertionError: " + why;
  out.fix = fmt::format("set {} to {} or more, or capture smaller graphs", engine_of(*out.generation).cap_variable,
                        failed->runtime_max_tokens_per_rank);
}

// The engine of the command, and whether the scenario says the same.
Result<const Engine*> engine_of_launch(const Scenario& scenario, std::string_view file, const LaunchCommand& command) {
  const Engine& engine = find_engine(command);
  if (scenario.engine && *scenario.engine != engine.name)
    return scenario_error(
        file, scenario.at.version,
        fmt::format("engine: {} is given, but the command starts a server of {}", *scenario.engine, engine.name));
  return &engine;
}

// An all-to-all of exact sizes has no cap; the cluster's memory is made for the largest step of the scenario.
void bound_memory(const Scenario& scenario, Deployment& deployment) {
  if (deployment.uses_flashinfer || deployment.max_num_tokens < kMaxScenarioCap_tokens) return;
  std::int64_t most = deployment.capture_bs.empty() ? 1 : deployment.capture_bs.back();
  for (const Step& step : scenario.steps)
    for (const std::int64_t tokens : step.tokens) most = std::max(most, tokens);
  deployment.max_num_tokens = std::min(most * deployment.num_tokens_per_bs, kMaxScenarioCap_tokens);
}

}  // namespace

Result<ScenarioDeployment> deploy(const Scenario& scenario, std::string_view file, const VersionChoice& version,
                                  SizingRule rule) {
  ScenarioDeployment out;
  const auto launch_error = [&](const Error& error) {
    return scenario_error(file, scenario.at.deployment, (scenario.launch ? "launch: " : "") + error.message);
  };
  Result<LaunchCommand> command = parse_launch_command(launch_text(scenario, version.text));
  if (!command) return launch_error(command.error());
  const Result<const Engine*> engine = engine_of_launch(scenario, file, *command);
  if (!engine) return tl::unexpected(engine.error());
  const Result<VersionMatch> match = !version.is_given() ? (*engine)->find_version(scenario.version.value_or("newest"))
                                                         : find_version(**engine, version);
  if (!match && !version.is_given())
    return scenario_error(file, scenario.at.version,
                          fmt::format("{}: {}", scenario.at.version_key, match.error().message));
  if (!match) return tl::unexpected(match.error());
  out.generation = match->version;
  if (!match->note.empty()) out.notes.push_back(match->note);
  DeployOptions options;
  options.version = *match;
  for (const auto& [name, value] : launch_env(scenario)) options.env.set(name, value);
  options.model = ModelShape{scenario.model.num_experts, scenario.model.top_k, scenario.model.hidden_size};
  options.rule = std::move(rule);
  Result<DeployedCommand> deployed = (*engine)->deploy(std::move(*command), options);
  if (!deployed) return launch_error(deployed.error());
  for (const Note& note : deployed->launch.notes) out.notes.push_back(note.message);
  for (const Note& note : deployed->argument_notes) out.notes.push_back(note.message);
  if (deployed->refused) {
    out.verdict = Verdict::rejected;
    out.why = "the server's argument parser refuses: " + deployed->refused->message;
    return out;
  }
  out.deployment = std::move(deployed->deployment);
  for (const Note& note : out.deployment->notes) out.notes.push_back(note.message);
  bound_memory(scenario, *out.deployment);
  settle_start(scenario, out);
  if (out.verdict == Verdict::agrees && out.deployment->launch_error)
    out.notes.push_back("every dispatch is refused: " + words(*out.deployment->launch_error));
  if (out.verdict == Verdict::rejected) return out;
  const Topology& topology = out.deployment->topology;
  if (auto ok = check_ranks(scenario, file, topology.attn_dp_size, topology.tp_size); !ok)
    return tl::unexpected(ok.error());
  if (!out.deployment->uses_flashinfer && !out.deployment->derives_sizes &&
      !checked_engine(*out.deployment).decides_each_step()) {
    out.verdict = Verdict::out_of_scope;
    out.why = fmt::format("all-to-all {}: every rank computes no size of its own", out.deployment->backend);
  } else if (topology.ep_size != topology.tp_size) {
    out.verdict = Verdict::rejected;
    out.why = fmt::format("the all-to-all spans all tensor-parallel ranks: ep_size {} must be tp_size {}",
                          topology.ep_size, topology.tp_size);
    out.fix = fmt::format("give ep_size {}", topology.tp_size);
  }
  return out;
}

}  // namespace a2asim
