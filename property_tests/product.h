// What laws ask of the product, function by function: the product's own, unless a test puts a fault into one of them to
// show which law notices (harms.h).
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "model/check/check.h"
#include "sim/alltoall/judge.h"
#include "sim/cluster/replay.h"
#include "sim/scenario/scenario_writer.h"

namespace a2asim::props {

// replay(), with the deployment kept while the next worlds have the same: reading a command takes longer than its
// steps.
Result<ReplayReport> replay_kept(const Scenario& world, const ReplayOptions& options);

struct Product {
  std::function<Result<ScenarioDeployment>(const Scenario&, const SizingRule&)> deploy =
      [](const Scenario& world, const SizingRule& rule) { return a2asim::deploy(world, "world", {}, rule); };
  std::function<std::unique_ptr<Decider>(const Deployment&)> decider = &Deployment::make_decider;
  std::function<CheckReport(const Deployment&)> check = judge_deployment;
  std::function<Result<std::unique_ptr<Cluster>>(const Deployment&, ClusterOptions)> cluster = Cluster::create;
  std::function<Result<StepOutcome>(Cluster&, const StepInput&)> step = &Cluster::step;
  std::function<Result<ReplayReport>(const Scenario&, const ReplayOptions&)> replay = replay_kept;
  // Of ranks built alike.
  std::function<std::unique_ptr<SimAllToAll>(const AllToAllConfig&)> simulator = [](const AllToAllConfig& config) {
    auto made = SimAllToAll::create(std::vector(static_cast<std::size_t>(config.ep_size), config), {});
    A2ASIM_INVARIANT(made.has_value(), "a drawn configuration is valid");
    return std::move(*made);
  };
  // The same, for laws that any backend must keep.
  std::function<std::unique_ptr<AllToAll>(const AllToAllConfig&)> alltoall = simulator;
  decltype(&a2asim::judge_output) judge_output = &a2asim::judge_output;
  std::function<std::string(const Scenario&)> to_yaml = a2asim::to_yaml;
};

}  // namespace a2asim::props
