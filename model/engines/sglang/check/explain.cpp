// Why ranks know what they know under SGLang, and what to change about it.
#include <fmt/format.h>

#include "model/engines/sglang/cap_variable.h"
#include "model/engines/sglang/deployment.h"

namespace a2asim {

std::vector<std::string> SglangPart::knowledge() const {
  std::vector<std::string> chain;
  chain.push_back(fmt::format("require_mlp_tp_gather is {}: {}", require_mlp_tp_gather,
                              explain(generation().gather, gather_inputs(*this))));
  if (skip_all_gather)
    chain.push_back("SGLANG_SCHEDULER_SKIP_ALL_GATHER is set: the scheduler exchanges nothing");
  else if (is_collapsed())
    chain.push_back("so the scheduler leaves every rank a one-entry list with its own count (the collapse)");
  else if (args.enable_dp_attention)
    chain.push_back("so every rank knows the counts of all ranks");
  return chain;
}

std::string SglangPart::fix_disagreement(bool any_replay) const {
  if (skip_all_gather) return "unset SGLANG_SCHEDULER_SKIP_ALL_GATHER (now set) so that the counts are exchanged";
  if (!is_collapsed()) return "use one version and one set of flags on all ranks";
  const Generation& cured = first_with(&Generation::always_gathers);
  std::string fix = fmt::format(
      "leave out --enable-dp-lm-head, or --moe-dense-tp-size (now {}): then all counts are known; or use SGLang with "
      "#{} ({}) or newer",
      args.moe_dense_tp_size.value_or(0), cured.pr, cured.date);
  if (any_replay && generation().only_graphs_disagree) fix += "; or --disable-cuda-graph";
  return fix;
}

std::string SglangPart::fix_every_forward() const {
  return skip_all_gather
             ? "unset SGLANG_SCHEDULER_SKIP_ALL_GATHER (now set): this backend needs the counts of all ranks"
             : "see the assertion's own text";
}

std::string SglangPart::fix_waste(std::int64_t max_num_tokens) const {
  return fmt::format("SGLang with #{} or newer sizes by the batch; or lower {} towards the largest batch (now {})",
                     first_with(&Generation::always_gathers).pr, kCapVariable, max_num_tokens);
}

}  // namespace a2asim
