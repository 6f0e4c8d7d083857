// How the ranks of one all-to-all are grouped: replicas of attention, and within them context and tensor parallel
// ranks.
//
// The ranks of one tensor-parallel world are laid out as (dp, cp, tp), tp fastest:
//   tp_rank = (attn_dp_rank * attn_cp_size + attn_cp_rank) * attn_tp_size + attn_tp_rank.
// Without DP attention dp_size counts independent replicas and does not enter the layout.
#pragma once

#include <cstdint>
#include <optional>

namespace a2asim {

// Sizes of one pipeline stage. An engine makes it and has checked what the helpers below divide by.
struct Topology {
  std::int64_t tp_size = 1;  // the whole attention and MoE world
  std::int64_t flag_tp_size = 0;  // what the engine calls tensor parallelism, where that is less; 0: tp_size
  std::int64_t dp_size = 1;  // as given on the command line
  std::int64_t ep_size = 1;
  std::int64_t moe_dp_size = 1;
  std::int64_t attn_tp_size = 1;
  std::int64_t attn_cp_size = 1;
  std::int64_t attn_dp_size = 1;                                 // dp_size with DP attention, else 1
  std::optional<std::int64_t> moe_dense_tp_size = std::nullopt;  // unset: dense layers are split over all of tp_size
  bool enable_dp_attention = false;
  bool operator==(const Topology&) const = default;

  std::int64_t named_tp_size() const { return flag_tp_size > 0 ? flag_tp_size : tp_size; }

  std::int64_t attn_tp_rank(std::int64_t tp_rank) const { return tp_rank % attn_tp_size; }
  std::int64_t attn_cp_rank(std::int64_t tp_rank) const { return tp_rank / attn_tp_size % attn_cp_size; }
  std::int64_t attn_dp_rank(std::int64_t tp_rank) const { return tp_rank / (attn_tp_size * attn_cp_size); }
  std::int64_t tp_rank(std::int64_t attn_dp_rank, std::int64_t attn_cp_rank = 0, std::int64_t attn_tp_rank = 0) const {
    return (attn_dp_rank * attn_cp_size + attn_cp_rank) * attn_tp_size + attn_tp_rank;
  }

  // MoE: tp = moe_dp x ep x moe_tp, moe_tp fastest. All-to-all backends set ep = tp, so that ep_rank == tp_rank.
  std::int64_t moe_tp_size() const { return tp_size / ep_size / moe_dp_size; }
  std::int64_t ep_rank(std::int64_t tp_rank) const { return tp_rank / moe_tp_size() % ep_size; }
};

}  // namespace a2asim
