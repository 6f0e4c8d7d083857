// The simulated cluster: one step of the scheduler on all ranks, from their batches to what the all-to-all does to
// them.
//
// Decisions are the Decider's, at every fidelity, and the judgement of sizes is judge()'s: who takes part, who refuses,
// who waits for whom. Geometry fidelity stops there; the others then run every layer's dispatch, sanitize,
// experts and combine over the same memory as the steps before, so that what was left there is really there.
//
// R of a replayed graph is what capture baked (Deployment::baked): no rule runs at replay. Sanitizing and dummy tokens
// are the generation's. Not modelled: a draft model's own workspace (#35758; the target's is used), hidden states that
// pass from layer to layer (each layer has contents of its own). Payloads are those that the deployment's layers send.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "model/alltoall/reference.h"
#include "model/base/digest.h"
#include "model/step/decider.h"
#include "model/step/deployment.h"
#include "model/step/finding.h"
#include "model/step/judgement.h"
#include "sim/alltoall/fidelity.h"
#include "sim/alltoall/sim_alltoall.h"
#include "sim/cluster/cluster_contents.h"
#include "sim/cluster/memory_share.h"
#include "sim/scenario/scenario.h"

namespace a2asim {

struct MirroredLayer;
class ClusterMirror;  // cluster_mirror.h

struct ClusterOptions {
  Fidelity fidelity = Fidelity::geometry;
  std::uint64_t seed = 0;
  DataType dtype = DataType::bfloat16;  // of expert outputs, and of hidden states that are not quantised
  std::int64_t layers = 1;
  Routing routing;
  ExpertsKind experts = ExpertsKind::exact;
  std::vector<Fault> construction_faults;  // of the kinds that is_construction_fault() names; others are ignored
  std::int64_t findings_per_kind = 16;     // kept of each step; all are counted
  ClusterMirror* mirror = nullptr;         // told of all calls; outlives the cluster
  // Called within a step that moves rows, as its parts get done; may be empty.
  std::function<void(std::int64_t part, std::int64_t parts)> progress;
};

// One iteration of the scheduler.
struct StepInput {
  std::span<const RankBatch> batches = {};  // one a data-parallel rank
  GraphChoice graph = GraphChoice::engine;
  std::span<const RankFault> faults = {};  // none, or one an expert-parallel rank
  // Expert-parallel ranks: `absent` make no call, and their peers wait for them unless they know (`masked`).
  RankMask absent = {};
  RankMask masked = {};
};

// What a step came to.
struct StepOutcome : Judgement {
  std::int64_t step = 0;
  std::int64_t bad_tokens = 0;  // numeric fidelity: outputs that differ from the oracle, over all layers
  // By rank, from provenance fidelity on: tokens whose output can be wrong in some layer under some order of the slots.
  // It holds those that are wrong here, where slots come in token order. Empty: none of any rank.
  std::vector<std::vector<std::int64_t>> in_doubt = {};
  Traffic traffic = {};  // all layers; counted from provenance fidelity on, but for rows_reserved
};

class Cluster {
 public:
  // Without the model's shape, or with a backend that is not FlashInfer's, there is nothing to step: bad_input. So is a
  // deployment of more than kMaxRanks ranks, and a workspace too large for the fidelity. `deployment` outlives the
  // cluster.
  static Result<std::unique_ptr<Cluster>> create(const Deployment& deployment, ClusterOptions options);
  // Whether create() would take it, without allocating what it allocates.
  static Result<void> check(const Deployment& deployment, ClusterOptions options);

  // Allocates nothing at geometry fidelity unless a rank raises. At the others, after a step that stopped call reset().
  // Errors: bad_input for a step too large to carry.
  Result<StepOutcome> step(const StepInput& input);
  // As after create().
  void reset();

  // --- of the last step
  std::span<const RankDecision> decisions() const { return decisions_; }  // one an expert-parallel rank
  std::optional<std::span<const std::int64_t>> dp_global(std::size_t ep_rank) const {
    return decider_->dp_global(ep_rank);
  }
  // Of a rank in the all-gatherv: the rows that it expects of every rank.
  std::vector<std::int64_t> gather_sizes(int rank) const {
    return decider_->gather_sizes(static_cast<std::size_t>(rank));
  }
  // What the bytes showed: rows and outputs. Sizes, refusals and missing ranks are in the outcome, see step_findings().
  const FindingLog& log() const { return log_; }
  // Tokens of this rank in the last layer whose rows were not all read back as sent; see SimAllToAll::tainted().
  std::span<const std::uint8_t> tainted(int rank) const;

  const Deployment& deployment() const { return deployment_; }
  int ep_size() const { return ep_size_; }
  Fidelity fidelity() const { return options_.fidelity; }  // numeric becomes provenance with unequal payload bytes
  const ExpertPayloads& payloads() const { return payloads_.experts; }
  const std::vector<std::int64_t>& sent_bytes() const { return payloads_.bytes; }  // a token's, without faults
  const AllToAllConfig& config(int rank) const { return configs_[static_cast<std::size_t>(rank)]; }
  const SimAllToAll* alltoall() const { return alltoall_.get(); }  // nullptr at geometry fidelity
  // Decisions and judgement of the last step, and all bytes moved so far.
  void add_to(Digest& digest, const StepOutcome& outcome) const;

 private:
  Cluster(const Deployment& deployment, ClusterOptions options);

  static Result<std::unique_ptr<Cluster>> plan(const Deployment& deployment, ClusterOptions options);
  Result<void> make_configs();
  Result<void> make_geometry();
  bool can_dispatch() const;
  // Rows that the rank dispatches in this step, the dummy token included.
  std::int64_t rows_of(std::size_t rank) const { return geometry_[rank].local_num_tokens; }
  Result<void> build();
  void count_gather(StepOutcome& outcome) const;
  Result<void> run_layers(const StepInput& input, StepOutcome& outcome);
  Result<void> prepare(RankMask senders);
  void fill_inputs(RankMask senders);
  MirroredLayer mirrored(int layer, RankMask masked, const StepOutcome& outcome) const;
  Result<void> show_stopped(const StepInput& input, const StepOutcome& outcome);
  Result<void> run_layer(int layer, RankMask dead, StepOutcome& outcome);
  Result<void> judge_outputs(int layer, RankMask dead, StepOutcome& outcome);
  void keep_row_findings();
  void note_doubts(StepOutcome& outcome) const;
  void report_progress(int layer, int ranks_judged) const;

  const Deployment& deployment_;
  ClusterOptions options_;
  std::unique_ptr<Decider> decider_;
  int ep_size_ = 0;
  std::int64_t max_top_k_ = kMaxTopKWorkspace;
  std::optional<std::int64_t> invalid_expert_id_;  // nothing: this version does not sanitize
  TokenPayloads payloads_;  // without faults
  std::vector<AllToAllConfig> configs_;
  std::vector<RankGeometry> geometry_;  // R and rows: of the last step
  std::span<const RankDecision> decisions_;

  std::int64_t memory_bytes_ = 0;      // of all slices
  std::optional<MemoryShare> memory_;  // longer than what takes it
  std::unique_ptr<SimAllToAll> alltoall_;
  std::unique_ptr<ExpertNetwork> network_;
  std::optional<ClusterContents> contents_;
  std::vector<DispatchInput> inputs_;
  std::vector<std::int64_t> runtime_max_;
  std::vector<std::vector<std::byte>> outputs_;
  FindingLog log_;
  Digest bytes_;
  std::int64_t step_ = 0;
  std::int64_t round_ = 0;  // of contents
};

// What the sizes of a step say, as findings: causes first. In words, with what to change.
std::vector<Finding> step_findings(const Cluster& cluster, const StepInput& input, const StepOutcome& outcome);

}  // namespace a2asim
