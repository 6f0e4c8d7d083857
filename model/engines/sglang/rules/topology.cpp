#include "model/engines/sglang/rules/topology.h"

#include <fmt/format.h>

#include <algorithm>

namespace a2asim {
namespace {

// CPython 3.11 words the two operators differently.
auto divided_by_zero() { return fail(ErrorKind::zero_division_error, "integer division or modulo by zero"); }
auto modulo_by_zero() { return fail(ErrorKind::zero_division_error, "integer modulo by zero"); }

}  // namespace

Result<DpAttentionInfo> compute_dp_attention_world_info_pr14668(const DpAttentionInputs& in) {
  if (!in.enable_dp_attention) return DpAttentionInfo{in.tp_rank, in.tp_size, 0, 1};
  if (in.dp_size == 0) return divided_by_zero();
  const std::int64_t attn_tp_size = in.tp_size / in.dp_size;
  if (attn_tp_size == 0) return divided_by_zero();
  return DpAttentionInfo{in.tp_rank % attn_tp_size, attn_tp_size, in.tp_rank / attn_tp_size, in.dp_size};
}

Result<DpAttentionInfo> compute_dp_attention_world_info_pr27945(const DpAttentionInputs& in) {
  const std::int64_t attn_dp_size = in.enable_dp_attention ? in.dp_size : 1;
  if (attn_dp_size == 0 || in.attn_cp_size == 0) return divided_by_zero();
  const std::int64_t attn_tp_size = in.tp_size / attn_dp_size / in.attn_cp_size;
  if (attn_tp_size == 0) return modulo_by_zero();
  const std::int64_t attn_dp_rank = in.enable_dp_attention ? in.tp_rank / (attn_tp_size * in.attn_cp_size) : 0;
  return DpAttentionInfo{in.tp_rank % attn_tp_size, attn_tp_size, attn_dp_rank, attn_dp_size};
}

Result<DpAttentionInfo> compute_dp_attention_local_info(const DpAttentionInputs& in) {
  if (!in.enable_dp_attention) return DpAttentionInfo{in.tp_rank, in.tp_size, 0, 1};
  const std::int64_t given = in.moe_dense_tp_size.value_or(0);
  const std::int64_t tp_size = given != 0 ? given : in.tp_size;
  if (tp_size == 0) return modulo_by_zero();
  const std::int64_t tp_rank = in.tp_rank % tp_size;
  const std::int64_t groups = in.tp_size / tp_size;
  if (groups == 0) return divided_by_zero();
  const std::int64_t dp_size = std::max<std::int64_t>(1, in.dp_size / groups);
  const std::int64_t attn_tp_size = tp_size / dp_size;
  if (attn_tp_size == 0) return divided_by_zero();
  return DpAttentionInfo{tp_rank % attn_tp_size, attn_tp_size, tp_rank / attn_tp_size, dp_size};
}

Result<Topology> make_topology(const TopologyInputs& in) {
  const auto bad = [](std::string message) { return fail(ErrorKind::bad_input, std::move(message)); };
  if (std::min({in.tp_size, in.dp_size, in.ep_size, in.moe_dp_size, in.attn_cp_size}) < 1)
    return bad(fmt::format(
        "parallel sizes must be at least 1: tp_size {}, dp_size {}, ep_size {}, moe_dp_size {}, attn_cp_size {}",
        in.tp_size, in.dp_size, in.ep_size, in.moe_dp_size, in.attn_cp_size));
  const std::int64_t attn_dp_size = in.enable_dp_attention ? in.dp_size : 1;
  // Divide step by step: a product of two sizes from a command line could overflow.
  if (in.tp_size % attn_dp_size != 0 || in.tp_size / attn_dp_size % in.attn_cp_size != 0)
    return bad(fmt::format("tp_size {} must be a multiple of dp_size {} times attn_cp_size {}", in.tp_size,
                           attn_dp_size, in.attn_cp_size));
  if (in.tp_size % in.ep_size != 0 || in.tp_size / in.ep_size % in.moe_dp_size != 0)
    return bad(fmt::format("tp_size {} must be a multiple of ep_size {} times moe_dp_size {}", in.tp_size, in.ep_size,
                           in.moe_dp_size));
  return Topology{.tp_size = in.tp_size,
                  .dp_size = in.dp_size,
                  .ep_size = in.ep_size,
                  .moe_dp_size = in.moe_dp_size,
                  .attn_tp_size = in.tp_size / attn_dp_size / in.attn_cp_size,
                  .attn_cp_size = in.attn_cp_size,
                  .attn_dp_size = attn_dp_size,
                  .moe_dense_tp_size = in.moe_dense_tp_size,
                  .enable_dp_attention = in.enable_dp_attention};
}

}  // namespace a2asim
