// A launch command as SGLang resolves it.
//
// resolve_deployment runs the chain of the start: defaults, start-up handlers, topology, gather predicates, limits,
// capture sizes, capacity, capture. What makes SGLang refuse is kept as a Rejection; an Error is returned only for
// input that cannot mean a deployment at all.
//
//   const auto deployment = resolve_deployment({.args = parsed->args});
//   if (deployment) use(sglang_part(**deployment).args);
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "model/check/checked_engine.h"
#include "model/engines/sglang/generation.h"
#include "model/engines/sglang/start/server_args.h"
#include "model/engines/sglang/static_caps.h"
#include "model/launch/environment.h"
#include "model/step/deployment.h"

namespace a2asim {

struct DeploymentInputs {
  const Generation* generation = &newest_generation();
  bool has_flashinfer_dispatcher = true;  // see GenerationMatch
  ServerArgs args;                        // as parsed
  Environment env;
  std::optional<ModelShape> model;                // without it, what depends on bytes and experts stays open
  std::optional<std::string> model_quantization;  // by the model's config.json; else guessed from --model-path
  std::optional<double> gpu_memory_gib;           // settles the defaults that SGLang takes from the device
  SizingRule rule;                                // a rule of the user's own in place of the generation's; may be empty
};

// What dispatch sees as the token list when no list was exchanged in this step (a skipped all-gather).
enum class LeftoverList : std::uint8_t {
  unassigned,  // reading it raises AttributeError (up to pr30450, before any capture or dummy run)
  none,        // None
  captured,    // the list that graph capture left behind: [smallest bucket] * dp_size
};

// The first stage: what the start-up handlers leave.
struct Started {
  DeploymentInputs given;                 // as they came, so that a changed deployment can be tried
  ServerArgs args;                        // after the handlers, with the speculative width settled
  Environment env;                        // the same
  std::int64_t assumed_graph_max_bs = 0;  // where the command leaves it open
  bool chunk_is_explicit = false;
  bool graph_max_bs_is_explicit = false;

  const Generation& generation() const { return *given.generation; }
};

// What a rank knows of the others' counts.
struct Knowledge {
  GatherRow gather_row = GatherRow::no_dp_attention;
  bool require_mlp_tp_gather = false;
  bool require_attn_tp_gather = false;
  bool require_gathered_buffer = false;
  bool require_mlp_sync = false;
  bool skip_all_gather = false;
};

struct SglangPart final : EnginePart, CheckedEngine, Started, Knowledge {
  SglangPart(Started started, Knowledge knowledge) : Started(std::move(started)), Knowledge(knowledge) {}
  LeftoverList leftover = LeftoverList::none;

  // Every rank is left with its own count.
  bool is_collapsed() const { return args.enable_dp_attention && !require_mlp_tp_gather; }

  std::unique_ptr<Decider> make_decider(const Deployment& deployment) const override;

  // --- check/
  std::vector<std::string> knowledge() const override;
  std::vector<Condition> unmet_conditions() const override;
  Advice fix_disagreement(bool any_replay) const override;
  Advice fix_every_forward() const override;
  Advice fix_waste(std::int64_t max_num_tokens) const override;
  std::string fix_unused_rows() const override;
  CapVariable cap(const Deployment& deployment) const override;
  std::int64_t default_cap(const StaticCapRow& row) const;  // where its variable is not set
  std::vector<Knob> knobs(const Deployment& deployment) const override;
  Result<std::unique_ptr<Deployment>> with(std::span<const FixSetting> settings) const override;
  void add_start_findings(const Deployment& deployment, CheckReport& report) const override;
  void add_open_limits(const Deployment& deployment, CheckReport& report) const override;
  bool check_constant_geometry(const Deployment& deployment, CheckReport& report) const override;
  bool check_draft_geometry(const Deployment& deployment, CheckReport& report) const override;
  void add_differences(const Deployment& own, const Deployment& other, CheckReport& report) const override;
  std::optional<NodeShare> node_share() const override;
};

// SGLang's own part of a deployment that resolve_deployment made.
inline const SglangPart& sglang_part(const Deployment& deployment) {
  return static_cast<const SglangPart&>(*deployment.part);
}

// What the gather predicates look at; points into the arguments.
GatherInputs gather_inputs(const Started& started);

// The version's rule, or `rule` of the user's own.
Result<SizingDecision> size(const SglangPart& part, const SizingRule& rule, const RankView& view);

// The view of one rank, but for the fields that change from step to step.
RankView base_view(const SglangPart& part, const Deployment& deployment, int ep_rank);

// Errors: bad_input, e.g. more ranks than anything can have.
Result<std::unique_ptr<Deployment>> resolve_deployment(const DeploymentInputs& inputs);

}  // namespace a2asim
