#include "model/alltoall/payloads.h"

#include <array>

namespace a2asim {

std::string_view name(DispatchType type) {
  constexpr std::array<std::string_view, 3> kNames = {"bf16", "nvfp4", "mxfp8"};
  return kNames[static_cast<std::size_t>(type)];
}

std::string_view title(DispatchType type) {
  constexpr std::array<std::string_view, 3> kTitles = {"bfloat16", "NVFP4", "MXFP8"};
  return kTitles[static_cast<std::size_t>(type)];
}

TokenPayloads token_payloads(DispatchType type, std::int64_t hidden_size, std::int64_t top_k,
                             std::int64_t element_bytes) {
  const std::int64_t ids = 4 * top_k, weights = 4 * top_k;
  if (type == DispatchType::bf16) return {{hidden_size * element_bytes, ids, weights}, 1, {}};
  const std::int64_t codes = type == DispatchType::nvfp4 ? hidden_size / 2 : hidden_size;
  return {{codes, hidden_size / block_elements(type), ids, weights}, 2, {0, 3, 1, type}};
}

std::string_view payload_words(DispatchType type, int payload) {
  constexpr std::array<std::string_view, 3> kHidden = {"hidden states", "hidden states (NVFP4)",
                                                       "hidden states (MXFP8)"};
  constexpr std::array<std::string_view, 3> kOthers = {"scales", "expert ids", "weights"};
  if (payload == 0) return kHidden[static_cast<std::size_t>(type)];
  const auto at = static_cast<std::size_t>(payload) - (type == DispatchType::bf16 ? 0 : 1);
  return payload > 0 && at < kOthers.size() ? kOthers[at] : "payload";
}

}  // namespace a2asim
