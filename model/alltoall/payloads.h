// As which payloads a token travels: the one list, for workspaces, the simulated cluster, devices beside it, reports.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace a2asim {

// How hidden states are sent: as the layer computes them, or quantised in blocks that share a scale.
enum class DispatchType : std::uint8_t { bf16, nvfp4, mxfp8 };
std::string_view name(DispatchType type);   // "nvfp4", as flags have it
std::string_view title(DispatchType type);  // "NVFP4"
constexpr std::int64_t block_elements(DispatchType type) {
  return type == DispatchType::nvfp4 ? 16 : type == DispatchType::mxfp8 ? 32 : 1;
}

// What experts read of a received row, beside its expert ids (AllToAllConfig::expert_id_payload).
struct ExpertPayloads {
  int hidden_payload = 0;  // [.., hidden_size] of combine_type, or quantised
  int weight_payload = 2;  // [.., top_k] float32
  int scale_payload = -1;  // of quantised hidden states: [.., hidden_size / block_elements]
  DispatchType type = DispatchType::bf16;
  bool is_quantised() const { return type != DispatchType::bf16; }
};

struct TokenPayloads {
  std::vector<std::int64_t> bytes;  // of a token, in payload order: hidden states, [scales], expert ids, weights
  int id_payload = 1;
  ExpertPayloads experts;
};
// element_bytes: of hidden states that are not quantised.
TokenPayloads token_payloads(DispatchType type, std::int64_t hidden_size, std::int64_t top_k,
                             std::int64_t element_bytes = 2);
// "hidden states (NVFP4)", "scales", "expert ids", "weights"; "payload" for any other.
std::string_view payload_words(DispatchType type, int payload);

}  // namespace a2asim
