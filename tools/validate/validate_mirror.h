// The device beside the simulated cluster: makes the same calls and compares what comes of them. See validate.h.
#pragma once

#include <map>
#include <optional>

#include "sim/cluster/cluster_mirror.h"
#include "tools/validate/validate.h"
#include "tools/validate/validate_writes.h"

namespace a2asim {

class ValidationMirror final : public ClusterMirror {
 public:
  ValidationMirror(const ValidateOptions& options, const MakeDevice& make_device, ScenarioValidation& out)
      : guard_(options.guard), can_(options.device), make_device_(make_device), out_(out) {}

  void dispatching(const MirroredLayer& layer, SimAllToAll& alltoall) override;
  void dispatched(const MirroredLayer& layer, SimAllToAll& alltoall) override;
  void combined(const MirroredLayer& layer, SimAllToAll& alltoall,
                std::span<const std::vector<std::byte>> outputs) override;
  void judged(const MirroredLayer& layer, int rank, const ReferenceResult& reference, Tolerance tolerance) override;
  void stopped(const MirroredLayer& layer) override;

 private:
  using Outputs = std::vector<std::vector<std::byte>>;

  void add(CheckKind kind, CheckResult result, const MirroredLayer& layer, std::string what = {});
  void add(CheckKind kind, bool passed, const MirroredLayer& layer, std::string what = {});
  void stop(std::string why);
  // Counts a skip that names the capability; false if the device has it.
  bool lacks(Capability capability, CheckKind kind, const MirroredLayer& layer);
  bool refuses(const MirroredLayer& layer);
  bool is_ready(const MirroredLayer& layer);
  bool can_compare(const MirroredLayer& layer, const SimAllToAll& alltoall);
  // Where slots come in another order than the tokens', the simulator takes the device's.
  Result<void> pass_on_slots(const MirroredLayer& layer, SimAllToAll& alltoall);
  std::unique_ptr<Device> make(const MirroredLayer& layer, CheckKind kind, RankMask local_ranks, bool waits);
  Result<void> run_graph(const MirroredLayer& layer, std::span<const DispatchInput> inputs);
  Result<void> finish_layer(const MirroredLayer& layer);
  // Empty: equal, but for races, which are settled in `alltoall`; otherwise what differs.
  std::string compare_slices(const MirroredLayer& layer, AllToAll& device, SimAllToAll& alltoall,
                             const DispatchWrites* writes, bool only_races);
  // The same where the workspace cannot be read: counters, and rows as sets per source and destination.
  std::string compare_received(const MirroredLayer& layer, AllToAll& device, SimAllToAll& alltoall);
  void compare_outputs(const MirroredLayer& layer, std::span<const std::vector<std::byte>> outputs);
  void check_guard(const MirroredLayer& layer);
  void check_refusal(const MirroredLayer& layer, RankMask ranks);
  void check_missing(const MirroredLayer& layer);
  void check_recovery(const MirroredLayer& layer);
  void check_verdict(const MirroredLayer& layer, Verdict seen);

  const bool guard_;
  const Capabilities can_;
  const MakeDevice& make_device_;
  ScenarioValidation& out_;
  std::unique_ptr<Device> device_;
  bool done_ = false;                             // nothing more to compare in this scenario
  bool in_layer_ = false;                         // the device has done this layer's dispatch
  bool is_graph_ = false;                         // and, by a graph, all the rest of it
  std::optional<DispatchWrites> writes_;          // of this layer, where ranks may write the same bytes
  std::vector<std::vector<std::int32_t>> slots_;  // by rank, the device's; empty: token order
  RankMask masked_;
  std::map<std::vector<std::int64_t>, GraphId> graphs_;  // by rows and R of every rank
  std::map<int, std::vector<std::uint8_t>> in_doubt_;  // by rank, of the layer: SimAllToAll::in_doubt()
  Outputs outputs_;                                      // the device's
  std::span<const std::vector<std::byte>> simulated_;    // the simulator's, of the same layer
};

}  // namespace a2asim
