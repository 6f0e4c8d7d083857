// What is fixed before the first batch arrives, in terms that every engine shares.
//
// An engine makes it of a launch command, in stages that are the structs below; what only the engine itself understands
// (its arguments, its predicates) is behind `part`. What makes the engine refuse is kept as a Rejection, so that a
// report can still show the rest. A value: copies share `part`, which never changes.
//
//   Deployment wider = deployment;
//   wider.max_num_tokens *= 2;
//   const auto decider = wider.make_decider();
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/base/note.h"
#include "model/base/result.h"
#include "model/flashinfer/capacity.h"
#include "model/step/batch.h"
#include "model/step/decider.h"
#include "model/step/fix.h"
#include "model/step/model_shapes.h"
#include "model/step/sizing_rule.h"
#include "model/step/topology.h"

namespace a2asim {

struct Deployment;
struct Version;

// What an engine keeps of a deployment for itself.
class EnginePart {
 public:
  virtual ~EnginePart() = default;
  // `deployment` holds this part and outlives the decider.
  virtual std::unique_ptr<Decider> make_decider(const Deployment& deployment) const = 0;
};

// Why the engine refuses. where: "start" (argument handlers, capture) or "first_forward".
struct Rejection {
  std::string where;
  std::string handler;  // "_handle_a2a_moe", "graph capture", ..
  Error error;
  Advice fix;
};

// A number that a command may leave to the machine: then `value` is what is assumed, and findings that need it are
// notes.
struct Limit {
  std::int64_t value = 0;
  bool is_explicit = false;
};

struct Speculation {
  bool speculates = false;
  std::string speculative_algorithm;  // as given; empty: none
  bool width_is_given = false;        // else the width is assumed
  SpeculativeWidth speculative;
  std::int64_t num_tokens_per_bs = 1;  // tokens per request of a target forward: 1, or the draft tokens to verify
  // The model that drafts.
  std::string draft_backend = "none";         // its all-to-all: the target's, unless the command says else
  bool drafts = false;                        // it is known to have experts
  bool draft_is_explicit = false;             // and the command settles its steps
  std::int64_t draft_tokens_per_request = 0;  // of a draft step: eagle_topk; 0: no forward between two verify steps
};

// What batches there can be.
struct StepLimits {
  bool decode_reachable = true;
  bool prefill_reachable = true;
  bool mixes_prefill_and_decode = false;  // a chunk may hold running requests too
  Limit requests_per_dp_rank;             // the most running requests of one replica
  Limit prefill_tokens;                   // the most tokens of one replica's extend batch
  Limit prefill_graph_tokens;             // the largest prefill graph that goes through the all-to-all; 0: none
};

struct DecodeGraphs {
  bool graphs_are_disabled = false;                // by the command
  Limit graph_max_bs;                              // the limit that the capture sizes come from
  std::vector<std::int64_t> capture_bs;            // requests, ascending; empty: no decode graphs
  std::vector<std::vector<SizingDecision>> baked;  // [bucket]: one entry for all ranks, or one an EP rank
  // What capture baked for this bucket (index into capture_bs) on this rank.
  const SizingDecision& baked_at(std::size_t bucket, std::size_t ep_rank) const {
    return baked[bucket].size() == 1 ? baked[bucket].front() : baked[bucket][ep_rank];
  }
};

// The all-to-all itself. Caps and rows are of the fixed geometry only.
struct AllToAllSetup {
  std::string backend = "none";       // "flashinfer", "deepep", ..
  bool uses_flashinfer = false;       // the fixed-geometry all-to-all whose R every rank computes
  bool derives_sizes = false;         // every rank computes sizes from the batch, of whatever all-to-all it is
  bool has_static_cap = false;        // a geometry that is a constant
  std::int64_t max_num_tokens = 0;    // the cap
  std::string max_num_tokens_source;  // in words
  std::optional<Capacity> capacity;   // with the model's shape
  DispatchType dispatch_type = DispatchType::bf16;  // of what the model's layers send; not of a draft model's
  const FlashInferLimits* flashinfer = nullptr;  // the library's row
  std::int64_t num_experts = 0;                  // redundant ones included; 0: the shape is not known
  // Written into rows that nobody filled; nothing: they are left as they are. Without the model's shape only whether
  // there is one counts.
  std::optional<std::int64_t> invalid_expert_id;
  std::optional<Rejection> launch_error;  // FlashInfer refuses every dispatch (top_k, experts, ranks)
};

struct Deployment : Speculation, StepLimits, DecodeGraphs, AllToAllSetup {
  const Version* generation = nullptr;
  Topology topology;
  std::optional<ModelShape> model;
  SizingRule rule;                    // a rule of the user's own; empty: the version's
  std::vector<Rejection> rejections;  // at the start: the first one, where the engine stops
  std::vector<Note> notes;
  std::shared_ptr<const EnginePart> part;

  // Its decisions; the deployment outlives it.
  std::unique_ptr<Decider> make_decider() const { return part->make_decider(*this); }
};

}  // namespace a2asim
