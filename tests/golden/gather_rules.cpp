#include "model/engines/sglang/rules/gather_rules.h"

#include <algorithm>

#include "tests/golden/table.h"
#include "tests/golden/variant.h"

namespace a2asim::golden {
namespace {

json value_or_error(const Result<bool>& result) {
  if (result) return *result;
  std::string text(name(result.error().kind));
  // The other assertion of SGLang has no text.
  if (result.error().message != kDenseTpSizeAssertion) text += ": " + result.error().message;
  return {{"error", text}};
}

}  // namespace

json answer_gather_rules(Fields& in, const json&) {
  const auto rules = by_variant<GatherRules>(in.get<std::string>("variant"), {{"jan2026", kGatherRulesPr14668},
                                                                              {"pre30450", kGatherRulesPr27945},
                                                                              {"pr30450", kGatherRulesPr30450},
                                                                              {"main2026", kGatherRulesMain20260823}});
  const auto backend = in.get<std::string>("moe_a2a_backend");
  const GatherInputs inputs{
      .enable_dp_attention = in.get<bool>("enable_dp_attention"),
      .dp_size = in.get<std::int64_t>("dp_size"),
      .tp_size = in.get<std::int64_t>("tp_size"),
      .moe_dense_tp_size = in.get_or_null<std::int64_t>("moe_dense_tp_size"),
      .enable_dp_lm_head = in.get<bool>("enable_dp_lm_head"),
      .moe_a2a_backend = backend,
      .disable_attn_tp_gather = in.get_or_null<bool>("disable_attn_tp_gather").value_or(false),
      .elastic_expanded_world = in.get_or_null<std::string>("elastic_ep_backend").has_value() &&
                                in.get_or_null<bool>("elastic_expanded_world_enabled").value_or(false),
      .mori_recv_bound = in.get_or_null<bool>("SGLANG_MORI_RECV_BOUND").value_or(false),
  };
  in.ignore({"elastic_expanded_world_enabled"});
  const json out = {{"require_mlp_tp_gather", value_or_error(require_mlp_tp_gather(rules, inputs))},
                    {"require_attn_tp_gather", value_or_error(rules.require_attn_tp_gather(inputs))},
                    {"require_gathered_buffer", value_or_error(require_gathered_buffer(rules, inputs))},
                    {"require_mlp_sync", value_or_error(require_mlp_sync(rules, inputs))}};
  const bool all_raised = std::all_of(out.begin(), out.end(), [](const json& value) { return value.is_object(); });
  if (all_raised) return {{"error", out.begin()->at("error")}};
  return {{"out", out}};
}

}  // namespace a2asim::golden
