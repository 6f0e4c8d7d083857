#include <fmt/format.h>

#include "model/engines/sglang/questions/asked.h"
#include "model/engines/sglang/stages/stages.h"

namespace a2asim::stages {
namespace {

Topology topology_of(const Started& started, Said& said) {
  const ServerArgs& args = started.args;
  const auto world = started.generation().world_info(DpAttentionInputs{.enable_dp_attention = args.enable_dp_attention,
                                                                       .tp_rank = 0,
                                                                       .tp_size = args.tp_size,
                                                                       .dp_size = args.dp_size,
                                                                       .attn_cp_size = args.attn_cp_size,
                                                                       .moe_dense_tp_size = args.moe_dense_tp_size});
  const auto topology = make_topology(TopologyInputs{.tp_size = args.tp_size,
                                                     .dp_size = args.dp_size,
                                                     .ep_size = args.ep_size,
                                                     .moe_dp_size = args.moe_dp_size,
                                                     .attn_cp_size = args.attn_cp_size,
                                                     .moe_dense_tp_size = args.moe_dense_tp_size,
                                                     .enable_dp_attention = args.enable_dp_attention});
  if (world && topology) return *topology;
  said.reject("compute_dp_attention_world_info", world ? topology.error() : world.error(),
              fmt::format("make --tp-size {} a multiple of dp_size x attn_cp_size and of the expert groups",
                          args.tp_size));
  // Keeps a report possible: one replica over all ranks.
  return Topology{.tp_size = args.tp_size, .dp_size = args.dp_size, .ep_size = args.ep_size,
                  .attn_tp_size = args.tp_size};
}

Result<asked::Predicates> predicates_of(const Started& started, const GatherInputs& inputs) {
  if (ExternalEngine* const outside = engine_of(started.given.rule); answers(outside, QuestionKind::gather))
    return asked::gather(*outside, inputs);
  const GatherRules& rules = started.generation().gather;
  return asked::Predicates{require_mlp_tp_gather(rules, inputs), rules.require_attn_tp_gather(inputs)};
}

Result<Knowledge> knowledge_of(const Started& started, Said& said) {
  const ServerArgs& args = started.args;
  const GatherInputs inputs = gather_inputs(started);
  const Result<asked::Predicates> predicates = predicates_of(started, inputs);
  if (!predicates) return tl::unexpected(predicates.error());
  const auto take = [&](std::string_view predicate, const Result<bool>& value) {
    if (value) return *value;
    said.reject(predicate, value.error(),
                args.moe_dense_tp_size ? fmt::format("leave out --moe-dense-tp-size (now {})", *args.moe_dense_tp_size)
                                       : std::string("DP attention needs --dp-size above 1"));
    return false;
  };
  Knowledge out;
  out.gather_row = mlp_tp_gather_row(started.generation().gather, inputs);
  out.require_mlp_tp_gather = take("require_mlp_tp_gather", predicates->require_mlp_tp_gather);
  out.require_attn_tp_gather = take("require_attn_tp_gather", predicates->require_attn_tp_gather);
  out.require_gathered_buffer = out.require_mlp_tp_gather || out.require_attn_tp_gather;
  out.require_mlp_sync = args.enable_dp_attention || out.require_gathered_buffer;
  out.skip_all_gather = started.env.get_bool("SGLANG_SCHEDULER_SKIP_ALL_GATHER", false);
  return out;
}

}  // namespace

Result<Layout> layout_of(const Started& started, Said& said) {
  const Topology topology = topology_of(started, said);
  return knowledge_of(started, said).map([&](const Knowledge& knowledge) { return Layout{topology, knowledge}; });
}

}  // namespace a2asim::stages
