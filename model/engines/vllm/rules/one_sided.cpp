#include "model/engines/vllm/rules/one_sided.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

namespace a2asim::vllm {
namespace {

std::int64_t hidden_and_scale_bytes(const OneSided& rules, const OneSidedLayer& layer) {
  const std::int64_t hidden = layer.hidden_size;
  if (rules.types != OneSidedTypes::nvfp4_bf16_mxfp8 || layer.quant_dtype == "nvfp4") return hidden / 2 + hidden / 16;
  if (!layer.quant_dtype) return 2 * hidden;
  const std::int64_t align = std::max<std::int64_t>(layer.mx_alignment, 1);
  return hidden + (hidden + align - 1) / align * align / 32;
}

bool fits(const FlashInferLimits& flashinfer, std::int64_t ep_size, std::int64_t max_num_tokens,
          std::int64_t bytes_per_token) {
  const __int128 bytes = static_cast<__int128>(ep_size) * max_num_tokens * bytes_per_token +
                         static_cast<__int128>(max_num_tokens) * flashinfer.max_top_k * 8;
  return bytes < std::numeric_limits<std::int64_t>::max() / 2;
}

Error mixed(std::string_view what, std::int64_t now, std::int64_t built) {
  return {ErrorKind::assertion_error,
          fmt::format("FlashInfer one-sided MoeAlltoAll does not support heterogeneous {} across MoE layers (got {}, "
                      "was built with {})",
                      what, now, built)};
}

}  // namespace

std::optional<Error> refuse_type(const OneSided& rules, const std::optional<std::string>& quant_dtype) {
  const std::string shown = quant_dtype ? fmt::format("'{}'", *quant_dtype) : "None";
  const bool nvfp4 = quant_dtype == "nvfp4";
  switch (rules.types) {
    case OneSidedTypes::any_as_nvfp4:
      return std::nullopt;
    case OneSidedTypes::nvfp4:
      if (nvfp4) return std::nullopt;
      return Error{ErrorKind::value_error,
                   fmt::format("The 'flashinfer_nvlink_one_sided' all2all backend only supports nvfp4 activation "
                               "quantization, but got quant_dtype={}. Use a different all2all backend",
                               shown)};
    case OneSidedTypes::nvfp4_bf16_mxfp8:
      if (nvfp4 || !quant_dtype || quant_dtype == "mxfp8") return std::nullopt;
      return Error{ErrorKind::runtime_error,
                   fmt::format("flashinfer_nvlink_one_sided dispatch supports nvfp4, mxfp8, and bf16 "
                               "(quant_dtype=None) today; got quant_dtype={}",
                               shown)};
  }
  return std::nullopt;
}

Result<OneSidedWorkspace> one_sided_workspace(const OneSided& rules, const FlashInferLimits& flashinfer,
                                              std::span<const OneSidedLayer> layers, std::int64_t ep_size,
                                              std::int64_t dp_size, std::int64_t max_num_tokens) {
  OneSidedWorkspace out;
  out.leading_dim = rules.spans_ep_group ? ep_size : dp_size;
  for (const OneSidedLayer& layer : layers) {
    if (auto error = refuse_type(rules, layer.quant_dtype)) return tl::unexpected<Error>(std::move(*error));
    const OneSidedLayer& first = layers.front();
    const bool built = out.builds > 0;
    if (built && !rules.grows) continue;
    if (built && layer.top_k != first.top_k) return tl::unexpected(mixed("top_k", layer.top_k, first.top_k));
    if (built && layer.num_experts != first.num_experts)
      return tl::unexpected(mixed("num_experts", layer.num_experts, first.num_experts));
    const std::int64_t dispatch = hidden_and_scale_bytes(rules, layer) + 8 * layer.top_k;
    const std::int64_t combine = combine_bytes_per_token(layer.hidden_size);
    if (!fits(flashinfer, ep_size, max_num_tokens, dispatch + combine))
      return fail(ErrorKind::bad_input,
                  fmt::format("the workspace of {} ranks with {} tokens each exceeds 2^62 bytes: lower "
                              "--max-num-batched-tokens",
                              ep_size, max_num_tokens));
    const auto ranks = static_cast<int>(ep_size);
    const std::int64_t bytes = workspace_bytes_per_rank(make_workspace_layout(flashinfer, ranks, max_num_tokens), ranks,
                                                        max_num_tokens, dispatch, combine);
    if (built && bytes <= out.bytes_per_rank) continue;
    out.bytes_per_rank = std::max(out.bytes_per_rank, bytes);
    out.dispatch_bytes_per_token = dispatch;
    out.combine_bytes_per_token = combine;
    ++out.builds;
  }
  return out;
}

}  // namespace a2asim::vllm
