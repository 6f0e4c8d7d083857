#include "model/engines/trtllm/rules/mapping.h"

#include <fmt/format.h>

namespace a2asim::trtllm {

Outcome<Mapping> make_mapping(const MappingInputs& in) {
  const bool helix = in.cp_type == "HELIX";
  const std::int64_t cluster = in.moe_cluster_size == kNotGiven ? 1 : in.moe_cluster_size;
  const std::int64_t moe_world = helix ? in.tp_size * in.cp_size : in.tp_size;
  Mapping out;
  out.moe_tp_size = in.moe_tp_size;
  out.moe_ep_size = in.moe_ep_size;
  const bool no_tp = in.moe_tp_size == kNotGiven;
  if (no_tp && in.moe_ep_size == kNotGiven) out.moe_ep_size = 1;
  const auto share = [&](std::int64_t of) { return of * cluster == 0 ? 0 : moe_world / (of * cluster); };
  if (no_tp)
    out.moe_tp_size = share(out.moe_ep_size);
  else if (in.moe_ep_size == kNotGiven)
    out.moe_ep_size = share(in.moe_tp_size);
  out.attn_tp_size = helix ? in.tp_size : in.tp_size * in.cp_size;
  out.attn_cp_size = helix ? in.cp_size : 1;
  out.world_size = in.tp_size * in.pp_size * in.cp_size;
  out.dp_size = in.attention_dp ? in.tp_size : 1;
  const std::int64_t product = out.moe_tp_size * out.moe_ep_size * cluster;
  if (product != moe_world)
    return raise("ValueError", fmt::format("moe_tp_size * moe_ep_size * moe_cluster_size must equal to moe_world_size, "
                                           "but got {} != {}",
                                           product, moe_world));
  if (out.moe_ep_size != 1 && in.cp_size > 1 && !helix)
    return raise("NotImplementedError", "CP CpType.ULYSSES doesn't support MoE tp/ep yet");
  if (cluster > 1 && out.moe_ep_size != 1) return raise("AssertionError", "");
  if (in.lm_head_tp_in_adp && !in.attention_dp)
    return raise("AssertionError", "enable_lm_head_tp_in_adp requires enable_attention_dp");
  return out;
}

}  // namespace a2asim::trtllm
