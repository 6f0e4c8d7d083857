// flashinfer_nvlink_one_sided (#36022): the workspace that FlashInferNVLinkOneSidedManager asks for, layer by layer,
// and what a rank hands to FlashInfer's dispatch.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "model/base/result.h"
#include "model/flashinfer/capacity.h"

namespace a2asim::vllm {

enum class OneSidedTypes : std::uint8_t {
  any_as_nvfp4,      // every layer is sized as if it sent nvfp4
  nvfp4,             // #39717: others raise ValueError
  nvfp4_bf16_mxfp8,  // #40960: others raise NotImplementedError
};

struct OneSided {
  OneSidedTypes types = OneSidedTypes::nvfp4_bf16_mxfp8;
  bool spans_ep_group = true;     // #40893; before: the data-parallel group
  bool grows = true;              // #42976: to the union over layers; before: the first layer's
  bool marks_unused_rows = true;  // #40960: invalid_token_expert_id = -1
};

struct OneSidedLayer {
  std::optional<std::string> quant_dtype;  // nothing: bf16
  std::int64_t hidden_size = 0;
  std::int64_t top_k = 0;
  std::int64_t num_experts = 0;
  std::int64_t mx_alignment = 0;
};

struct OneSidedWorkspace {
  std::int64_t bytes_per_rank = 0;
  std::int64_t dispatch_bytes_per_token = 0;  // of the layer that it was last built for
  std::int64_t combine_bytes_per_token = 0;
  int builds = 0;
  std::int64_t leading_dim = 0;  // of the tensor over ranks, which FlashInfer wants to be ep_size
};

// Errors: as the manager or the layer raises them (runtime_error for a NotImplementedError); bad_input where the bytes
// do not fit int64.
Result<OneSidedWorkspace> one_sided_workspace(const OneSided& rules, const FlashInferLimits& flashinfer,
                                              std::span<const OneSidedLayer> layers, std::int64_t ep_size,
                                              std::int64_t dp_size, std::int64_t max_num_tokens);

// "quant_dtype='fp8'" is refused by these rules; nothing: it is not.
std::optional<Error> refuse_type(const OneSided& rules, const std::optional<std::string>& quant_dtype);

}  // namespace a2asim::vllm
