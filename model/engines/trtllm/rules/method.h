// By which lane tokens travel to their experts, and why. Every rank decides it alone, from its own environment and
// GPU; nothing compares the answers.
//
// newest: CommunicationFactory.create_strategy (communication_factory.py); before it select_alltoall_method_type of
// each MoE backend (fused_moe_wide_ep.py, fused_moe_trtllm_gen.py, fused_moe_cutlass.py).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "model/engines/trtllm/rules/raised.h"
#include "model/launch/environment.h"

namespace a2asim::trtllm {

enum class Lane : std::uint8_t {
  none,  // no attention DP: ranks share their tokens
  one_sided,
  two_sided,
  nccl_ep,
  deepep,
  deepep_low_latency,
  all_gather,
  fused,  // inside the expert kernel
};
std::string_view name(Lane lane);  // "NVLinkOneSided", ..
constexpr bool is_alltoall(Lane lane) { return lane != Lane::none && lane != Lane::all_gather && lane != Lane::fused; }
// Takes any number of chunks and tokens; the DeepEP lanes leave for the all-gather where they cannot.
constexpr bool is_nvlink(Lane lane) { return lane == Lane::one_sided || lane == Lane::two_sided; }

inline constexpr std::string_view kForceMethod = "TRTLLM_FORCE_ALLTOALL_METHOD";
inline constexpr std::string_view kForceComm = "TRTLLM_FORCE_COMM_METHOD";
inline constexpr std::string_view kCanUseDeepEp = "TRTLLM_CAN_USE_DEEP_EP";
inline constexpr std::string_view kDisable = "TRTLLM_MOE_DISABLE_ALLTOALLV";
inline constexpr std::string_view kAllToAllBackend = "TRTLLM_MOE_ALLTOALL_BACKEND";

struct MethodInputs {
  std::int64_t world_size = 1, tp_size = 1, moe_ep_size = 1, moe_tp_size = 1;
  bool attention_dp = false;
  std::int64_t num_experts = 0, top_k = 0;  // 0: not known, which counts as divisible and small
  bool is_bf16 = true;
  bool one_nvlink_domain = false;  // it holds all expert-parallel ranks
  bool has_nvlink = false;         // a rank has it at all
  std::int64_t local_ranks = 8;    // on one node
  std::int64_t max_ranks = 128;    // kMaxRanks
  bool deepep_by_default = true;   // TRTLLM_CAN_USE_DEEP_EP, where it is not set
  bool has_graphs = true;          // DeepEP without low latency could not be captured until #7514
  std::int64_t deepep_max_top_k = 16;  // of the low-latency kernels, where it is asked; 0: it is not
  Environment env;
};

struct Method {
  Lane lane = Lane::none;
  std::string why;  // in words
};
using Selector = Outcome<Method> (*)(const MethodInputs&);

Outcome<Method> method_factory(const MethodInputs& in);

// The older ones answer with a name of their enum: "NotEnabled", "MNNVL", "NVLinkOneSided", ..
Outcome<std::string_view> wideep_method(const MethodInputs& in);
Outcome<std::string_view> method_pr8728(const MethodInputs& in);
Outcome<std::string_view> method_pr9388(const MethodInputs& in);
bool trtllmgen_2025_09_enables(const MethodInputs& in);

// The same as lanes. What has no all-to-all gathers.
Outcome<Method> wideep(const MethodInputs& in);
Outcome<Method> wideep_before_7514(const MethodInputs& in);
Outcome<Method> trtllmgen_2025_09(const MethodInputs& in);
Outcome<Method> pr8728(const MethodInputs& in);
Outcome<Method> pr9388(const MethodInputs& in);
Outcome<Method> no_method(const MethodInputs& in);  // a backend that had none yet

bool is_deepep_feasible(std::int64_t ranks, std::int64_t local_ranks);

}  // namespace a2asim::trtllm
