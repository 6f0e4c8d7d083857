// tp_rank -> attention dp / cp / tp ranks and ep rank; group sizes.
//
// SGLang: layers/dp_attention.py (compute_dp_attention_world_info, compute_dp_attention_local_info) and
// distributed/parallel_state.py. The ranks of one tensor-parallel world are laid out as (dp, cp, tp), tp fastest:
//   tp_rank = (attn_dp_rank * attn_cp_size + attn_cp_rank) * attn_tp_size + attn_tp_rank.
// Without DP attention dp_size counts independent replicas and does not enter the layout.
#pragma once

#include <cstdint>
#include <optional>

#include "model/base/result.h"
#include "model/step/topology.h"

namespace a2asim {

struct DpAttentionInputs {
  bool enable_dp_attention = false;
  std::int64_t tp_rank = 0;
  std::int64_t tp_size = 1;
  std::int64_t dp_size = 1;
  std::int64_t attn_cp_size = 1;                                 // read from pr27945 on
  std::optional<std::int64_t> moe_dense_tp_size = std::nullopt;  // read by local_info only; unset or 0 means tp_size
};

struct DpAttentionInfo {
  std::int64_t attn_tp_rank = 0;
  std::int64_t attn_tp_size = 1;
  std::int64_t attn_dp_rank = 0;
  std::int64_t attn_dp_size = 1;  // pr14668 does not report it
  bool operator==(const DpAttentionInfo&) const = default;
};

// Errors: zero_division_error where Python raises ZeroDivisionError (more dp * cp ranks than tp ranks), with its text.
using DpAttentionWorldInfo = Result<DpAttentionInfo> (*)(const DpAttentionInputs&);

// pr14668: no context parallelism; raises only with DP attention on.
Result<DpAttentionInfo> compute_dp_attention_world_info_pr14668(const DpAttentionInputs& in);
// pr24850 and later. attn_tp_size = tp / dp / cp, so that cp > tp raises without DP attention too.
Result<DpAttentionInfo> compute_dp_attention_world_info_pr27945(const DpAttentionInputs& in);

// The group of the dense MLP layers, up to pr30450; main20260823 has no such function. attn_dp_size is not part of it.
Result<DpAttentionInfo> compute_dp_attention_local_info(const DpAttentionInputs& in);

struct TopologyInputs {
  std::int64_t tp_size = 1;
  std::int64_t dp_size = 1;
  std::int64_t ep_size = 1;
  std::int64_t moe_dp_size = 1;
  std::int64_t attn_cp_size = 1;
  std::optional<std::int64_t> moe_dense_tp_size = std::nullopt;
  bool enable_dp_attention = false;
};

// Errors: bad_input when a size is below 1 or the groups do not divide tp_size.
Result<Topology> make_topology(const TopologyInputs& in);

}  // namespace a2asim
