#include "model/engines/sglang/stages/stages.h"

#include <fmt/format.h>


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

Knowledge knowledge_of(const Started& started, Said& said) {
  const ServerArgs& args = started.args;
  const GatherInputs inputs = gather_inputs(started);
  const GatherRules& rules = started.generation().gather;
  const auto take = [&](std::string_view predicate, const Result<bool>& value) {
    if (value) return *value;
    said.reject(predicate, value.error(),
                args.moe_dense_tp_size ? fmt::format("leave out --moe-dense-tp-size (now {})", *args.moe_dense_tp_size)
                                       : std::string("DP attention needs --dp-size above 1"));
    return false;
  };
  Knowledge out;
  out.gather_row = mlp_tp_gather_row(rules, inputs);
  out.require_mlp_tp_gather = take("require_mlp_tp_gather", require_mlp_tp_gather(rules, inputs));
  out.require_attn_tp_gather = take("require_attn_tp_gather", rules.require_attn_tp_gather(inputs));
  out.require_gathered_buffer = out.require_mlp_tp_gather || out.require_attn_tp_gather;
  out.require_mlp_sync = args.enable_dp_attention || out.require_gathered_buffer;
  out.skip_all_gather = started.env.get_bool("SGLANG_SCHEDULER_SKIP_ALL_GATHER", false);
  return out;
}

}  // namespace

Layout layout_of(const Started& started, Said& said) {
  const Topology topology = topology_of(started, said);
  return {topology, knowledge_of(started, said)};
}

}  // namespace a2asim::stages
