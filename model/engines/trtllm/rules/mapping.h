// Which ranks do what: tensor, pipeline, context and expert parallel (tensorrt_llm/mapping.py, MappingBase).
//   const auto mapping = make_mapping({.tp_size = 8, .moe_ep_size = 8, .attention_dp = true});
#pragma once

#include <cstdint>
#include <string>

#include "model/engines/trtllm/rules/raised.h"

namespace a2asim::trtllm {

inline constexpr std::int64_t kNotGiven = -1;

struct MappingInputs {
  std::int64_t tp_size = 1, pp_size = 1, cp_size = 1;
  std::string cp_type;  // "HELIX"; empty: ULYSSES
  std::int64_t moe_tp_size = kNotGiven, moe_ep_size = kNotGiven, moe_cluster_size = kNotGiven;
  bool attention_dp = false;
  bool lm_head_tp_in_adp = false;
};

struct Mapping {
  std::int64_t moe_tp_size = 1, moe_ep_size = 1;
  std::int64_t attn_tp_size = 1, attn_cp_size = 1;
  std::int64_t world_size = 1;
  std::int64_t dp_size = 1;  // tp_size with attention DP: all of it or nothing
};

Outcome<Mapping> make_mapping(const MappingInputs& in);

}  // namespace a2asim::trtllm
