// The interface behind which the simulated cluster (sim/) and the CUDA kernels (gpu/) stand: what every dispatcher has
// (dispatcher.h), and what a fixed layout adds.
//
// Ranks are driven together: the simulator steps all of them, and one process may drive several GPUs. A backend says
// which ranks are local to it; every per-rank argument below is ordered as local_ranks(). The order of calls is
// dispatch, [sanitize], experts, combine; then dispatch again (FlashInfer's MoeAlltoAll enforces the same alternation).
// The semantics, byte by byte, are FlashInfer's csrc/trtllm_moe_alltoall.cu and moeAlltoAllKernels.cu with one
// difference: slots within (source, destination) are given in token order.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "model/alltoall/dispatcher.h"
#include "model/alltoall/payloads.h"
#include "model/alltoall/workspace.h"
#include "model/base/check_invariant.h"
#include "model/base/result.h"

namespace a2asim {

enum class DataType : std::uint8_t { bfloat16, float16, float32, float8_e4m3, opaque };
std::string_view name(DataType type);  // "bfloat16", ..
// Bytes per element; 1 for float8_e4m3 and opaque.
constexpr std::int64_t element_bytes(DataType type) {
  return type == DataType::float32 ? 4 : type == DataType::bfloat16 || type == DataType::float16 ? 2 : 1;
}

// How one rank constructed its MoeAlltoAll object. All ranks should be equal; a fault may make them differ.
struct AllToAllConfig {
  int ep_size = 1;
  int top_k = 1;
  std::int64_t num_experts = 1;
  std::int64_t max_num_tokens = 1;                    // M: the cap, in tokens per rank
  std::vector<std::int64_t> payload_bytes_per_token;  // in payload order; at most kMaxPayloads
  // Index of the int32 expert-id payload: sanitize fills all of its bytes / 4 columns, experts wants exactly top_k.
  int expert_id_payload = 1;
  DataType combine_type = DataType::bfloat16;  // type of the experts' output and of combine's result
  std::int64_t hidden_size = 1;                // elements per row of the combine payload
  int max_top_k = kMaxTopKWorkspace;           // FlashInfer's kMaxTopK: the pitch reserved in the workspace
  std::int64_t payload_alignment = 1;          // see WorkspaceLayout
  bool skips_invalid_ids = false;              // ids of no expert go nowhere, instead of where their division says
  // Bit r: rank r takes part. Tokens to other ranks are dropped, their flags neither written nor awaited. A rank whose
  // own bit is clear (a dead one) takes no part: its input is ignored, its output is empty.
  std::uint64_t active_rank_mask = ~std::uint64_t{0};
  bool operator==(const AllToAllConfig&) const = default;

  std::int64_t dispatch_bytes_per_token() const {
    std::int64_t sum = 0;
    for (const std::int64_t bytes : payload_bytes_per_token) sum += bytes;
    return sum;
  }
  std::int64_t combine_bytes_per_token() const { return hidden_size * element_bytes(combine_type); }
  WorkspaceLayout layout() const {
    WorkspaceLayout at = make_workspace_layout(ep_size, max_num_tokens, max_top_k);
    at.payload_alignment = payload_alignment;
    return at;
  }
  // By this rank's own R.
  RegionView regions(std::int64_t runtime_max_tokens_per_rank) const {
    A2ASIM_INVARIANT(payload_bytes_per_token.size() <= kMostPayloads, "a configuration was validated");
    return {layout(),
            ep_size,
            runtime_max_tokens_per_rank,
            payload_bytes_per_token.data(),
            static_cast<int>(payload_bytes_per_token.size()),
            combine_bytes_per_token()};
  }
  std::int64_t workspace_bytes() const {
    if (payload_alignment > 1) return pad128(regions(max_num_tokens).end());
    return workspace_bytes_per_rank(layout(), ep_size, max_num_tokens, dispatch_bytes_per_token(),
                                    combine_bytes_per_token());
  }
};

// One line each: ranks 1..kMaxRanks, payloads 1..kMaxPayloads, top_k 1..kMaxTopK, num_experts >= ep_size, sizes > 0.
Result<void> validate(const AllToAllConfig& config);

// The stand-in for the expert network, known in closed form and the same bits on every backend: expert e multiplies a
// row by scale(e) = (1 + e % 4) / 4 and a rank leaves, per received row, the sum over the row's own experts of
// weight * scale(e) * x, taken in top-k order in float32 and rounded once to combine_type: model/alltoall/experts.h,
// shared by host and device, has the arithmetic. Only rows below min(receive counter, R) are read and written, all
// others keep their bytes. An id that is neither in [0, num_experts) nor padding contributes nothing; a row without own
// experts gives +0.0. A NaN that is rounded to combine_type has all bits of its exponent and mantissa set and no sign,
// as CUDA's conversions give it: 0x7fff in bfloat16 and float16, 0x7fffffff in float32; so does combine's result, but
// for float32 with top_k 1, whose bits combine does not change. Combine's additions flush subnormal numbers
// (reduction.h).
// Quantised hidden states are first made float32 (quantization.h).

// A captured sequence: what a CUDA graph holds. R and the rows (the bucket) are baked in.
using GraphId = int;
inline constexpr GraphId kEager = -1;  // in replay: this rank runs the same sequence eagerly, with its input's own R

// Where a rank reads: its configuration, and the R of its last dispatch.
struct SliceView {
  const AllToAllConfig* config = nullptr;
  std::int64_t runtime_max = 0;
};

// A backend with FlashInfer's fixed layout: every rank has a slice of the workspace, experts work in place.
class AllToAll : public Dispatcher {
 public:
  using Dispatcher::combine;

  // Rows at or above the receive counter get every expert id := invalid_expert_id.
  virtual Result<void> sanitize(std::int32_t invalid_expert_id) = 0;
  // Closed-form experts over what each rank received; leaves their output in the combine region.
  virtual Result<void> experts(const ExpertPayloads& payloads) = 0;
  // In place of experts(): what others made of the rows that received() gave of this rank.
  virtual Result<void> give_results(int rank, std::span<const std::byte> rows) = 0;
  // outputs[i]: [T, hidden_size] of combine_type for local rank i; an R per rank, normally dispatch's own.
  virtual Result<void> combine(std::span<const std::int64_t> runtime_max_tokens_per_rank,
                               std::vector<std::vector<std::byte>>& outputs) = 0;

  // Records dispatch, sanitize, experts and combine for these shapes without running them; replay runs the record on
  // new contents of the same shape. No decision runs at replay: R is the one of capture.
  virtual Result<GraphId> capture(std::span<const DispatchInput> inputs, std::int32_t invalid_expert_id,
                                  const ExpertPayloads& payloads) = 0;
  // A graph per local rank: ranks may replay different captures (that is the defect of #30242), or run eagerly
  // (kEager). inputs hold contents, with as many rows as were captured (the bucket); their R is not looked at.
  virtual Result<void> replay(std::span<const GraphId> graphs, std::span<const DispatchInput> inputs,
                              std::vector<std::vector<std::byte>>& outputs) = 0;

  // For tests and reports: a copy of a rank's whole slice [workspace_bytes], flags and counters included.
  virtual Result<std::vector<std::byte>> read_slice(int rank) = 0;
  virtual SliceView slice_view(int rank) const = 0;
  // Fills every rank's payload and combine regions with this byte; 0xFF.. is NaN in bf16, fp16 and fp32.
  virtual Result<void> poison(std::byte value) = 0;

  // From the slices.
  Result<Received> received(int rank) override;
  Result<void> combine(std::span<const std::int64_t> runtime_max_tokens_per_rank,
                       std::span<const std::vector<std::byte>> results,
                       std::vector<std::vector<std::byte>>& outputs) override;
  Result<std::vector<std::int32_t>> slots(int rank) override;
};

}  // namespace a2asim
