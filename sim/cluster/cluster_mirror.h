// Somebody who is told of every call that a cluster makes to the all-to-all, while the bytes are there: so that another
// backend can do the same beside it and be compared. Only at provenance and numeric fidelity.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "sim/cluster/cluster.h"

namespace a2asim {

// One layer of a step, or a step that stopped before its first. Spans are one entry an expert-parallel rank and valid
// during the call.
struct MirroredLayer {
  const StepOutcome& outcome;  // of the step; bad tokens and traffic are not counted yet
  int layer = 0;
  RankMask masked;                          // ranks that everybody leaves out
  std::span<const AllToAllConfig> configs;  // with every rank active
  std::span<const RankDecision> decisions;
  std::span<const DispatchInput> inputs;          // no payloads at provenance fidelity
  const ExpertPayloads& payloads;                 // how experts read a row
  std::optional<std::int32_t> invalid_expert_id;  // nothing: this version does not sanitize
};

class ClusterMirror {
 public:
  virtual ~ClusterMirror() = default;
  ClusterMirror(const ClusterMirror&) = delete;
  ClusterMirror& operator=(const ClusterMirror&) = delete;

  // Before dispatch; slots may be set in `alltoall`.
  virtual void dispatching(const MirroredLayer&, SimAllToAll&) {}
  // After dispatch, before sanitize; raced bytes may be settled in `alltoall`.
  virtual void dispatched(const MirroredLayer& layer, SimAllToAll& alltoall) = 0;
  // After combine. outputs: of every rank, [rows, hidden_size]; empty without bytes.
  virtual void combined(const MirroredLayer& layer, SimAllToAll& alltoall,
                        std::span<const std::vector<std::byte>> outputs) = 0;
  // After combined(), for each rank with real rows: the oracle for these, which come first in its output.
  virtual void judged(const MirroredLayer& layer, int rank, const ReferenceResult& reference, Tolerance tolerance) = 0;
  // In place of all these: somebody refuses or waits forever. Inputs are those of the ranks that call dispatch,
  // refused or not; nothing was written.
  virtual void stopped(const MirroredLayer& layer) = 0;

 protected:
  ClusterMirror() = default;
};

}  // namespace a2asim
