#include "model/engines/trtllm/rules/workspace.h"

#include <fmt/format.h>

#include <limits>

#include "model/base/clamped_math.h"
#include "model/launch/environment.h"

namespace a2asim::trtllm {
namespace {

std::int64_t aux_bytes(const KernelLimits& kernel, const WorkspaceShape& shape) {
  return make_workspace_layout(static_cast<int>(shape.ep_size), shape.max_num_tokens, kernel.max_top_k,
                               shape.eplb_experts)
      .payload_data;
}

// Regions one after the other from `begin`; the last entry is where the next would begin.
std::vector<std::int64_t> places(const KernelLimits& kernel, std::int64_t begin, std::int64_t rows,
                                 const std::vector<std::int64_t>& bytes) {
  std::vector<std::int64_t> out = {begin};
  for (const std::int64_t a_token : bytes) {
    const std::int64_t end = clamped_sum(out.back(), clamped_product(rows, a_token));
    const bool pads = kernel.aligns_payloads && end < std::numeric_limits<std::int64_t>::max() - 128;
    out.push_back(pads ? pad128(end) : end);
  }
  return out;
}

}  // namespace

Result<std::int64_t> automatic_bytes(const KernelLimits& kernel, const WorkspaceShape& shape) {
  const __int128 rows = static_cast<__int128>(shape.ep_size) * shape.max_num_tokens;
  const __int128 wide = rows * (2 * static_cast<__int128>(shape.hidden_size) * shape.element_bytes + 8 * shape.top_k) +
                        static_cast<__int128>(shape.max_num_tokens) * kernel.max_top_k * 8;
  if (wide > std::numeric_limits<std::int64_t>::max() / 2)
    return fail(ErrorKind::bad_input,
                fmt::format("the workspace for max_num_tokens {} and ep {} exceeds 2^62 bytes: lower max_num_tokens",
                            shape.max_num_tokens, shape.ep_size));
  const std::int64_t tokens = shape.ep_size * shape.max_num_tokens;
  std::int64_t size = aux_bytes(kernel, shape);
  const std::int64_t hidden = shape.hidden_size * shape.element_bytes;
  for (const std::int64_t a_token : {hidden, 4 * shape.top_k, 4 * shape.top_k, hidden})
    size = pad128(size + tokens * a_token);
  return size;
}

Outcome<std::int64_t> chosen_bytes(std::optional<std::string_view> workspace_mb,
                                   std::optional<std::int64_t> automatic) {
  if (!workspace_mb || workspace_mb->empty()) return automatic.value_or(kDefaultWorkspaceBytes);
  const PythonInt mb = python_int(*workspace_mb);
  if (mb.status == PythonInt::Status::invalid)
    return raise("ValueError", fmt::format("invalid literal for int() with base 10: '{}'", *workspace_mb));
  return clamped_product(mb.value, std::int64_t{1} << 20);
}

std::vector<std::int64_t> payload_bytes(PayloadKind kind, std::int64_t hidden_size, std::int64_t top_k,
                                        std::int64_t weight_bytes) {
  const std::int64_t ids = 4 * top_k, weights = weight_bytes * top_k;
  if (kind == PayloadKind::nvfp4) {
    std::vector<std::int64_t> bytes = token_payloads(DispatchType::nvfp4, hidden_size, top_k).bytes;
    bytes.back() = weights;
    return bytes;
  }
  return {kind == PayloadKind::fp8 ? hidden_size : 2 * hidden_size, ids, weights};
}

Outcome<DispatchPlace> place_dispatch(const KernelLimits& kernel, const DispatchRequest& request) {
  const std::int64_t rows = clamped_product(request.shape.ep_size, request.runtime_max_tokens);
  const std::int64_t aux = aux_bytes(kernel, request.shape);
  std::vector<std::int64_t> at = places(kernel, aux, rows, request.payloads);
  if (at.back() > request.workspace_bytes)
    return raise("RuntimeError",
                 fmt::format("Workspace size per rank insufficient for dispatch. Need at least {} bytes ({} for "
                             "auxiliary data + payloads), but got {}",
                             at.back(), aux, request.workspace_bytes));
  DispatchPlace out;
  out.combine = pad128(at.back());
  at.pop_back();
  out.payloads = std::move(at);
  const std::int64_t needed = clamped_product(rows, request.combine_bytes);
  if (clamped_sum(out.combine, needed) > request.workspace_bytes)
    out.combine_error =
        Raised{"RuntimeError", fmt::format("workspace does not have enough space for combine payload tensor. combine "
                                           "payload offset={}, payload size needed={}, workspace size per rank={}",
                                           out.combine, needed, request.workspace_bytes)};
  return out;
}

std::int64_t largest_r(const KernelLimits& kernel, DispatchRequest request) {
  const auto fits = [&](std::int64_t r) {
    request.runtime_max_tokens = r;
    const auto placed = place_dispatch(kernel, request);
    return placed && !placed->combine_error;
  };
  std::int64_t good = 0, bad = 1;
  while (bad < (std::int64_t{1} << 40) && fits(bad)) good = bad, bad *= 2;
  while (bad - good > 1) (fits(good + (bad - good) / 2) ? good : bad) = good + (bad - good) / 2;
  return good;
}

}  // namespace a2asim::trtllm
