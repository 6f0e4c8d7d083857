#include "property_tests/workbench.h"

#include <fmt/format.h>

#include <algorithm>
#include <tuple>

namespace a2asim::props {
namespace {

// In all that a deployment depends on.
bool is_same_deployment(const Scenario& a, const Scenario& b) {
  return std::tie(a.engine, a.version, a.launch, a.parallel, a.env, a.model) ==
         std::tie(b.engine, b.version, b.launch, b.parallel, b.env, b.model);
}

struct KeptDeployment {
  Scenario world;
  Result<ScenarioDeployment> deployed;
};

}  // namespace

Result<ReplayReport> replay_kept(const Scenario& world, const ReplayOptions& options) {
  static thread_local std::optional<KeptDeployment> kept;
  if (options.rule || options.version.is_given()) return a2asim::replay(world, "world", options);
  // Without a cap of its own an all-to-all has memory for the steps of its scenario, and ranks are compared with them.
  const bool is_kept = kept && kept->deployed && kept->deployed->verdict == Verdict::agrees &&
                       kept->deployed->deployment->uses_flashinfer && is_same_deployment(world, kept->world) &&
                       check_ranks(world, "world", kept->deployed->deployment->topology.attn_dp_size,
                                   kept->deployed->deployment->topology.tp_size);
  if (!is_kept) kept = KeptDeployment{world, a2asim::deploy(world, "world", {})};
  if (!kept->deployed) return tl::unexpected(kept->deployed.error());
  return a2asim::replay(world, "world", options, *kept->deployed);
}

StepBatches step_batches(const Scenario& world, std::size_t step) {
  const Step& from = world.steps[step];
  StepBatches out;
  for (std::size_t rank = 0; rank < from.tokens.size(); ++rank)
    out.batches.push_back({from.mode_of(rank), from.tokens[rank]});
  if (from.graph) out.graph = *from.graph ? GraphChoice::replay : GraphChoice::eager;
  return out;
}

bool cannot_replay(GraphChoice graph, std::span<const RankDecision> decisions) {
  return graph == GraphChoice::replay && std::ranges::any_of(decisions, [](const RankDecision& decision) {
           return decision.participates && !decision.raised && !decision.replay;
         });
}

const Deployment* Workbench::deployment(const Scenario& world) {
  if (!deployed_for_ || !is_same_deployment(world, *deployed_for_)) {
    clusters_ = {};  // they point into the deployment
    deployed_for_ = world;
    Result<ScenarioDeployment> deployed = product_.deploy(world, rule_);
    deployed_ = ScenarioDeployment{};
    checked_.reset();
    if (deployed) {
      deployed_ = std::move(*deployed);
    } else {
      deployed_.verdict = Verdict::rejected;
      deployed_.why = deployed.error().message;
    }
  }
  return deployed_.verdict == Verdict::agrees ? deployed_.deployment.get() : nullptr;
}

const CheckReport& Workbench::check_report() {
  if (!checked_) checked_ = product_.check(*deployed_.deployment);
  return *checked_;
}

Cluster* Workbench::cluster(const Scenario& world, Fidelity fidelity) {
  const Deployment* own = deployment(world);
  if (own == nullptr) return nullptr;
  Kept& kept = clusters_[static_cast<std::size_t>(fidelity)];
  std::string key = fmt::format("{} {} {}", world.seed, static_cast<int>(world.routing.kind), world.routing.rank);
  if (kept.cluster && kept.key == key) {
    kept.cluster->reset();
    return kept.cluster.get();
  }
  ClusterOptions options;
  options.fidelity = fidelity;
  options.seed = world.seed;
  options.dtype = world.model.dtype;
  options.layers = world.model.layers;
  options.routing = world.routing;
  options.experts = world.experts;
  Result<std::unique_ptr<Cluster>> made = product_.cluster(*own, options);
  kept = {std::move(key), made ? std::move(*made) : nullptr};
  return kept.cluster.get();
}

}  // namespace a2asim::props
