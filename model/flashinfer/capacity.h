// The static side of the all-to-all: the cap of tokens per rank, the bytes of one token, the workspace that follows
// from them, and what FlashInfer itself checks before and while it dispatches.
//
// SGLang: FlashinferDispatcher.__init__ (token_dispatcher/flashinfer.py). FlashInfer: the MoeAlltoAll class
// (flashinfer/comm/trtllm_moe_alltoall.py), moeA2ADispatchOp (csrc/trtllm_moe_alltoall.cu) and the launchers
// (moeAlltoAllKernels.cu).
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "model/alltoall/payloads.h"
#include "model/alltoall/workspace.h"
#include "model/base/result.h"

namespace a2asim {

// --- FlashInfer versions -------------------------------------------------------------------------------------------

// The versions that engines pin, oldest first.
enum class FlashInferVersion : std::uint8_t {
  v0_6_1,
  v0_6_3,
  v0_6_6,
  v0_6_7,
  v0_6_8_post1,
  v0_6_11_post1,
  v0_6_11_post2,
  v0_6_12,
  v0_6_13,
  v0_6_14,
  v0_6_15_post1,
  v0_6_16_post3,
  v0_6_17,
  v0_6_18,
};

struct FlashInferLimits {
  FlashInferVersion version;
  std::string_view tag;        // "v0.6.12"
  int max_top_k;               // kMaxTopK: the range check, and the pitch reserved in the workspace
  int max_payloads;            // kMaxPayloads
  int max_ranks;               // kMaxRanks
  int num_metainfo_fields;     // NUM_METAINFO_FIELDS: 10 with the EPLB region (from v0.6.16)
  bool divisible_experts;      // num_experts % ep_size == 0 is required
  bool dispatch_checks_ranks;  // without it an ep_size above max_ranks writes past fixed arrays before the launcher
                               // sees it
  std::span<const int> supported_top_k;  // what the launchers are compiled for, ascending

  std::int64_t payload_alignment = 1;  // see WorkspaceLayout
  bool skips_invalid_ids = false;      // ids of no expert go nowhere

  bool has_eplb_region() const { return num_metainfo_fields == 10; }
};

std::span<const FlashInferLimits> flashinfer_versions();  // oldest first
const FlashInferLimits& limits(FlashInferVersion version);
const FlashInferLimits* find_flashinfer(std::string_view tag);  // nullptr: not a version known here

WorkspaceLayout make_workspace_layout(const FlashInferLimits& flashinfer, int ep_size, std::int64_t max_num_tokens,
                                      std::int64_t eplb_stats_num_experts = 0);

// --- max_num_tokens: the cap ---------------------------------------------------------------------------------------

// get_int_env_var and EnvInt: what Python's int() makes of the text; nothing and what it refuses give the default.
// Values outside int64 are clamped to it.
std::int64_t int_env_or(std::optional<std::string_view> text, std::int64_t default_value);

// env: SGLANG_FLASHINFER_NUM_MAX_DISPATCH_TOKENS_PER_RANK as written, or nothing. chunked_prefill_size: resolved, that
// is already divided by dp_size under DP attention. The value is taken as it is, 0 and -1 included; products are
// clamped to int64.
using MaxNumTokensRule = std::int64_t (*)(std::optional<std::string_view> env,
                                          std::optional<std::int64_t> chunked_prefill_size, int ep_size);
std::int64_t max_num_tokens_pr14668(std::optional<std::string_view> env,
                                    std::optional<std::int64_t> chunked_prefill_size,
                                    int ep_size);  // 1024, times ep_size
std::int64_t max_num_tokens_pr25907(std::optional<std::string_view> env,
                                    std::optional<std::int64_t> chunked_prefill_size,
                                    int ep_size);  // 4096
std::int64_t max_num_tokens_pr26643(std::optional<std::string_view> env,
                                    std::optional<std::int64_t> chunked_prefill_size,
                                    int ep_size);  // max(chunked_prefill_size, 4096)

// --- bytes of one token --------------------------------------------------------------------------------------------

Result<DispatchType> parse_dispatch_type(std::string_view text);  // --flashinfer-a2a-dispatch-type, without "auto"

// Bytes that one token travels with: hidden state, scales, int32 ids and float32 weights.
std::int64_t dispatch_bytes_per_token(DispatchType type, std::int64_t hidden_size, std::int64_t top_k);
// Of each payload; they add up to dispatch_bytes_per_token.
inline std::vector<std::int64_t> payload_bytes_per_token(DispatchType type, std::int64_t hidden_size,
                                                         std::int64_t top_k) {
  return token_payloads(type, hidden_size, top_k).bytes;
}
inline std::int64_t combine_bytes_per_token(std::int64_t hidden_size) { return 2 * hidden_size; }  // always bf16

// EAGLE, EAGLE3 and NEXTN (its alias), either case: their draft layer is not quantised, so all dispatch in bf16.
bool is_eagle_like(std::optional<std::string_view> speculative_algorithm);

// --- the workspace -------------------------------------------------------------------------------------------------

struct CapacityInputs {
  std::optional<std::string_view> env;  // see MaxNumTokensRule
  std::optional<std::int64_t> chunked_prefill_size;
  int ep_size = 1;
  std::int64_t hidden_size = 1;
  std::int64_t top_k = 1;
  std::optional<std::string_view> speculative_algorithm;
  bool moe_nvfp4_dispatch = false;                  // SGLANG_MOE_NVFP4_DISPATCH as resolved; read before pr35758
  DispatchType dispatch_type = DispatchType::bf16;  // --flashinfer-a2a-dispatch-type as resolved; read from pr35758
  bool speculative_context = false;                 // the dispatcher of a draft model; read from pr35758
};

// How a generation sizes the workspace.
struct CapacityRules {
  FlashInferVersion flashinfer = FlashInferVersion::v0_6_17;
  MaxNumTokensRule max_num_tokens = max_num_tokens_pr26643;
  // #35758: sized for the larger of bf16 and the chosen type, and 128 bytes more for a draft model (only so that
  // FlashInfer's workspace cache has a second key). Before: the type in use.
  bool sized_for_larger_type = false;
};

struct Capacity {
  std::int64_t max_num_tokens = 0;
  std::int64_t dispatch_bytes_per_token = 0;  // total_dispatch_payload_size_per_token
  std::int64_t combine_bytes_per_token = 0;   // combine_payload_size_per_token
  std::int64_t formula_bytes = 0;             // moe_a2a_get_workspace_size_per_rank
  std::int64_t workspace_bytes_per_rank = 0;  // what reaches MoeAlltoAll
  bool operator==(const Capacity&) const = default;
};

// bad_input when hidden_size or top_k are not positive, or the workspace does not fit int64.
Result<Capacity> capacity(const CapacityRules& rules, const CapacityInputs& inputs);

// --- FlashInfer's own checks ---------------------------------------------------------------------------------------

struct Payload {
  std::int64_t elements_per_token = 0;
  std::int64_t element_bytes = 1;
};

// One call of dispatch as FlashInfer sees it on one rank.
struct DispatchCall {
  int ep_size = 1;
  int ep_rank = 0;
  std::int64_t runtime_max_tokens_per_rank = 0;
  std::int64_t max_num_tokens = 0;
  std::int64_t workspace_bytes_per_rank = 0;  // size and stride of one rank's slice
  int top_k = 1;
  std::int64_t num_experts = 1;
  std::span<const Payload> payloads;
};

struct DispatchRegions {
  std::vector<std::int64_t> recv_offsets;     // from the start of the whole [ep_size, ..] workspace
  std::vector<std::int64_t> recv_byte_sizes;  // [ep_size, R, bytes per token] of each payload
  std::int64_t combine_payload_offset = 0;    // from the start of the rank's slice
};

// In the order in which they run; none allocates unless it fails. Local rows above R are checked nowhere.
// Python, MoeAlltoAll.dispatch: AssertionError when R > max_num_tokens.
Result<void> check_runtime_max_tokens(std::int64_t runtime_max_tokens_per_rank, std::int64_t max_num_tokens);
// C++, moeA2ADispatchOp: RuntimeError "Check failed: (..) is false: ..".
Result<void> check_dispatch_op(const FlashInferLimits& flashinfer, const DispatchCall& call);
// The launcher: RuntimeError for what the kernels are not compiled for ("Unsupported top_k").
Result<void> check_dispatch_launch(const FlashInferLimits& flashinfer, int top_k, int ep_size);
// All three.
Result<void> check_flashinfer_dispatch(const FlashInferLimits& flashinfer, const DispatchCall& call);

// What moeA2ADispatchOp returns for a call that passes check_dispatch_op.
DispatchRegions dispatch_regions(const FlashInferLimits& flashinfer, const DispatchCall& call);

}  // namespace a2asim
