// Why ranks know what they know under SGLang, and what to change about it.
#include <fmt/format.h>

#include "model/engines/sglang/cap_variable.h"
#include "model/engines/sglang/deployment.h"

namespace a2asim {
namespace {

// A test that did not hold.
Condition unmet(GatherRow test, const GatherInputs& in) {
  const std::string backend(in.moe_a2a_backend);
  switch (test) {
    case GatherRow::elastic_expanded_world:
      return {"elastic expert-parallel world", "expanded", "not expanded"};
    case GatherRow::dense_not_set:
      return {"--moe-dense-tp-size", "not set", std::to_string(*in.moe_dense_tp_size)};
    case GatherRow::no_dp_lm_head:
      return {"--enable-dp-lm-head", "not set", "set"};
    case GatherRow::backend_none:
      return {"--moe-a2a-backend", "none", backend};
    case GatherRow::backend_flashinfer:
      return {"--moe-a2a-backend", "flashinfer", backend};
    case GatherRow::backend_mori_recv_bound:
      return {"--moe-a2a-backend", "mori, with SGLANG_MORI_RECV_BOUND", backend};
    default:
      return {"--moe-dense-tp-size", fmt::format("above tp_size / dp_size = {}", in.tp_size / in.dp_size),
              std::to_string(*in.moe_dense_tp_size)};
  }
}

}  // namespace

std::vector<std::string> SglangPart::knowledge() const {
  std::vector<std::string> chain;
  chain.push_back(fmt::format("require_mlp_tp_gather is {}: {}", require_mlp_tp_gather,
                              explain(generation().gather, gather_inputs(*this))));
  if (skip_all_gather)
    chain.push_back("SGLANG_SCHEDULER_SKIP_ALL_GATHER is set: the scheduler exchanges nothing");
  else if (is_collapsed())
    chain.push_back("so each rank sees only its own token count (the \"collapse\")");
  else if (args.enable_dp_attention)
    chain.push_back("so each rank sees the token counts of all ranks");
  return chain;
}

std::vector<Condition> SglangPart::unmet_conditions() const {
  const GatherInputs in = gather_inputs(*this);
  const GatherRules& rules = generation().gather;
  std::vector<Condition> out;
  if (mlp_tp_gather_row(rules, in) != GatherRow::dense_above_attention_tp || require_mlp_tp_gather) return out;
  for (const GatherRow test : rules.mlp_tp_gather_tests) out.push_back(unmet(test, in));
  return out;
}

Advice SglangPart::fix_disagreement(bool any_replay) const {
  const std::string skip = "SGLANG_SCHEDULER_SKIP_ALL_GATHER";
  if (skip_all_gather) return std::vector{unset_variable(skip, "now set, so that no counts are exchanged")};
  if (!is_collapsed()) return "use one version and one set of flags on all ranks";
  const Generation& cured = first_with(&Generation::always_gathers);
  std::vector<Fix> fixes;
  if (args.enable_dp_lm_head) fixes.push_back(remove_flag("--enable-dp-lm-head"));
  if (args.moe_dense_tp_size)
    fixes.push_back(remove_flag("--moe-dense-tp-size", std::to_string(*args.moe_dense_tp_size)));
  fixes.push_back(upgrade_to(std::string(first_release_with(&Generation::always_gathers)),
                             fmt::format("#{}, {}", cured.pr, cured.date)));
  if (any_replay && generation().only_graphs_disagree) fixes.push_back(set_flag("--disable-cuda-graph"));
  return fixes;
}

Advice SglangPart::fix_every_forward() const {
  if (!skip_all_gather) return "see the assertion's own text";
  return std::vector{
      unset_variable("SGLANG_SCHEDULER_SKIP_ALL_GATHER", "now set; this backend needs the counts of all ranks")};
}

Advice SglangPart::fix_waste(std::int64_t max_num_tokens) const {
  return fmt::format("SGLang with #{} or newer sizes by the batch; or lower {} towards the largest batch (now {})",
                     first_with(&Generation::always_gathers).pr, kCapVariable, max_num_tokens);
}

std::string SglangPart::fix_unused_rows() const {
  return "Install SGLang v0.5.12 (#24850) or newer: it writes an invalid expert id into every unused row.";
}

}  // namespace a2asim
