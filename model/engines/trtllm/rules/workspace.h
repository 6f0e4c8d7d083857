// The one-sided lane's symmetric workspace (nvlink_one_sided.py, moeAlltoAllOp.cpp): how large it is made, what a
// dispatch needs of it, and the largest R that fits.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "model/alltoall/payloads.h"
#include "model/alltoall/workspace.h"
#include "model/engines/trtllm/rules/raised.h"

namespace a2asim::trtllm {

inline constexpr std::string_view kWorkspaceMb = "TRTLLM_MOE_A2A_WORKSPACE_MB";
inline constexpr std::int64_t kDefaultWorkspaceBytes = std::int64_t{2048} << 20;

// What is compiled in.
struct KernelLimits {
  int max_top_k = 22;         // kMaxTopK
  int max_payloads = 4;       // kMaxPayloads
  std::int64_t max_ranks = 128;  // kMaxRanks
  bool aligns_payloads = true;   // each receive buffer begins at a multiple of 128 bytes
};

struct WorkspaceShape {
  std::int64_t ep_size = 1, top_k = 1, max_num_tokens = 1, hidden_size = 1;
  std::int64_t eplb_experts = 0;
  std::int64_t element_bytes = 2;
};
// Errors: what does not fit int64.
Result<std::int64_t> automatic_bytes(const KernelLimits& kernel, const WorkspaceShape& shape);

// The variable's, where it is set; else the automatic size; else 2048 MiB. Errors: what int() refuses.
Outcome<std::int64_t> chosen_bytes(std::optional<std::string_view> workspace_mb, std::optional<std::int64_t> automatic);

// Bytes of a token in each payload: hidden state, [scale], ids, weights.
enum class PayloadKind : std::uint8_t { bf16, fp8, nvfp4 };
std::vector<std::int64_t> payload_bytes(PayloadKind kind, std::int64_t hidden_size, std::int64_t top_k,
                                        std::int64_t weight_bytes = 4);

struct DispatchRequest {
  WorkspaceShape shape;
  std::int64_t num_experts = 1;
  std::int64_t runtime_max_tokens = 1;  // R
  std::vector<std::int64_t> payloads;
  std::int64_t combine_bytes = 0;       // of a token
  std::int64_t workspace_bytes = 0;
};
struct DispatchPlace {
  std::vector<std::int64_t> payloads;  // where each begins
  std::int64_t combine = 0;
  std::optional<Raised> combine_error;
};
Outcome<DispatchPlace> place_dispatch(const KernelLimits& kernel, const DispatchRequest& request);

// The largest R that dispatch and combine both take.
std::int64_t largest_r(const KernelLimits& kernel, DispatchRequest request);

}  // namespace a2asim::trtllm
