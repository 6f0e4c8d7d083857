// Worlds understood: the deployment of a scenario and clusters of it, kept while the next worlds share them (an
// exhaustive walk changes batches fastest), and what a step gives them to do.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/engines/sglang/deployment.h"
#include "property_tests/product.h"

namespace a2asim::props {

// One step's input with the storage behind its spans; faults are replay's.
struct StepBatches {
  std::vector<RankBatch> batches;
  GraphChoice graph = GraphChoice::engine;
  StepInput input() const { return {batches, graph, {}, {}, {}}; }
};
StepBatches step_batches(const Scenario& world, std::size_t step);
// `graph: true` where some rank has nothing to replay: no step that an engine could take.
bool cannot_replay(GraphChoice graph, std::span<const RankDecision> decisions);

class Workbench {
 public:
  // rule: in place of the version's own; empty: that one.
  explicit Workbench(SizingRule rule = {}, Product product = {})
      : rule_(std::move(rule)), product_(std::move(product)) {}
  const Product& product() const { return product_; }
  // nullptr: the engine does not start; why() says it.
  const Deployment* deployment(const Scenario& world);
  // As after create(); nullptr where it cannot be had. Valid until the next call that needs another one of this
  // fidelity.
  Cluster* cluster(const Scenario& world, Fidelity fidelity);
  const std::string& why() const { return deployed_.why; }
  // What check says of the last deployment, without trying what would fix it.
  const CheckReport& check_report();

 private:
  SizingRule rule_;
  Product product_;
  std::optional<Scenario> deployed_for_;
  ScenarioDeployment deployed_;
  std::optional<CheckReport> checked_;
  struct Kept {
    std::string key;
    std::unique_ptr<Cluster> cluster;
  };
  std::array<Kept, 3> clusters_;
};

}  // namespace a2asim::props
