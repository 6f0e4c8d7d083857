// A launch command as the engine resolves it: everything that is fixed before the first batch arrives.
//
// resolve_deployment runs the chain of the start: defaults, start-up handlers, topology, gather predicates, capture
// sizes, capacity, capture. What makes the engine refuse is kept as a Rejection, so that a report can still show the
// rest; an Error is returned only for input that cannot mean a deployment at all.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/launch/environment.h"
#include "model/engines/sglang/generation.h"
#include "model/step/decider.h"
#include "model/step/model_shapes.h"
#include "model/base/note.h"
#include "model/engines/sglang/start/server_args.h"

namespace a2asim {

struct DeploymentInputs {
  const Generation* generation = &newest_generation();
  bool has_flashinfer_dispatcher = true;   // see GenerationMatch
  ServerArgs args;                         // as parsed
  Environment env;
  std::optional<ModelShape> model;         // without it, what depends on bytes and experts stays open
  std::optional<std::string> model_quantization;  // by the model's config.json; else guessed from --model-path
  std::optional<double> gpu_memory_gib;    // settles the defaults that SGLang takes from the device
  SizingRule rule;                         // a rule of the user's own in place of the generation's; may be empty
};

// Why the engine refuses. where: "start" (argument handlers, capture) or "first_forward".
struct Rejection {
  std::string where;
  std::string handler;  // "_handle_a2a_moe", "graph capture", ..
  Error error;
  std::string fix;
};

// A number that a command may leave to the machine: then `value` is what is assumed, and findings that need it are notes.
struct Limit {
  std::int64_t value = 0;
  bool is_explicit = false;
};

// What dispatch sees as the token list when no list was exchanged in this step (a skipped all-gather).
enum class LeftoverList : std::uint8_t {
  unassigned,  // reading it raises AttributeError (up to pr30450, before any capture or dummy run)
  none,        // None
  captured,    // the list that graph capture left behind: [smallest bucket] * dp_size
};

struct Deployment {
  DeploymentInputs given;  // as they came, so that a changed deployment can be tried
  const Generation* generation = nullptr;
  ServerArgs args;  // after the start-up handlers
  Environment env;  // likewise
  std::optional<ModelShape> model;
  SizingRule rule;  // empty: the generation's
  Topology topology;
  GatherInputs gather_inputs;  // points into args; see explain() in gather_rules.h
  GatherRow gather_row = GatherRow::no_dp_attention;
  bool require_mlp_tp_gather = false;
  bool require_attn_tp_gather = false;
  bool require_gathered_buffer = false;
  bool require_mlp_sync = false;
  bool skip_all_gather = false;

  bool uses_flashinfer = false;  // the fixed-geometry all-to-all whose R every rank derives
  bool has_static_cap = false;   // one of static_caps.h
  bool decode_reachable = true;
  bool prefill_reachable = true;

  std::int64_t num_tokens_per_bs = 1;  // tokens per request of a target forward: 1, or the draft tokens to verify
  SpeculativeWidth speculative;
  bool speculates = false;

  Limit requests_per_dp_rank;  // the most running requests of one replica
  Limit prefill_tokens;        // the most tokens of one replica's extend batch
  Limit graph_max_bs;          // the limit that the capture sizes come from
  Limit prefill_graph_tokens;  // the largest prefill graph that goes through the all-to-all; 0: none

  // The model that drafts, under speculation.
  std::string draft_backend = "none";  // its all-to-all: the target's, unless --speculative-moe-a2a-backend says else
  bool drafts = false;                 // it is known to have experts
  bool draft_is_explicit = false;      // and the command settles its steps
  std::int64_t draft_tokens_per_request = 0;  // of a draft step: eagle_topk; 0: no forward between two verify steps

  std::int64_t max_num_tokens = 0;      // the cap (FlashInfer)
  std::string max_num_tokens_source;    // in words
  std::optional<Capacity> capacity;     // with the model's shape

  std::vector<std::int64_t> capture_bs;                    // requests, ascending; empty: no decode graphs
  std::vector<std::vector<SizingDecision>> baked;          // [bucket]: one entry for all ranks, or one an EP rank
  LeftoverList leftover = LeftoverList::none;
  std::optional<Rejection> launch_error;                   // FlashInfer refuses every dispatch (top_k, experts, ranks)

  std::vector<Rejection> rejections;  // at the start: the first one, where the engine stops
  std::vector<Note> notes;

  Deployment() = default;
  Deployment(const Deployment&) = delete;  // gather_inputs points into args
  Deployment& operator=(const Deployment&) = delete;

  Result<SizingDecision> size(const RankView& view) const {
    return rule ? size_by_own_rule(rule, generation->sizing, view) : generation->sizing(view);
  }
  // What capture baked for this bucket (index into capture_bs) on this rank.
  const SizingDecision& baked_at(std::size_t bucket, std::size_t ep_rank) const {
    return baked[bucket].size() == 1 ? baked[bucket].front() : baked[bucket][ep_rank];
  }
  // Its decisions; the deployment outlives it.
  std::unique_ptr<Decider> make_decider() const;
  // The view of one rank, but for the fields that change from step to step.
  RankView base_view(int ep_rank) const;
};

// Errors: bad_input, e.g. more ranks than anything can have.
Result<std::unique_ptr<Deployment>> resolve_deployment(const DeploymentInputs& inputs);

}  // namespace a2asim
