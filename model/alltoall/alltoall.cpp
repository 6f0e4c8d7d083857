#include "model/alltoall/alltoall.h"

#include <fmt/format.h>

#include <array>

#include "model/alltoall/routing.h"

namespace a2asim {
namespace {

// 64 ranks x these two stay far below 2^63 in every product of workspace.h.
constexpr std::int64_t kMaxTokens = std::int64_t{1} << 30;
constexpr std::int64_t kMaxBytesPerToken = std::int64_t{1} << 24;

Result<void> in_range(std::string_view what, std::int64_t value, std::int64_t low, std::int64_t high) {
  if (value >= low && value <= high) return {};
  return fail(ErrorKind::bad_input,
              fmt::format("all-to-all config: {} is {}; give a value in {}..{}", what, value, low, high));
}

}  // namespace

std::string_view name(DataType type) {
  constexpr std::array<std::string_view, 5> names = {"bfloat16", "float16", "float32", "float8_e4m3", "opaque"};
  return names[static_cast<std::size_t>(type)];
}

Result<void> validate(const AllToAllConfig& config) {
  const auto payloads = static_cast<std::int64_t>(config.payload_bytes_per_token.size());
  const struct {
    std::string_view what;
    std::int64_t value, low, high;
  } limits[] = {
      {"ep_size", config.ep_size, 1, kMaxRanks},
      {"top_k", config.top_k, 1, kMaxTopK},
      {"max_top_k", config.max_top_k, 1, kMaxTopK},
      {"num_experts", config.num_experts, config.ep_size, std::int64_t{1} << 30},
      {"max_num_tokens", config.max_num_tokens, 1, kMaxTokens},
      {"number of payloads", payloads, 1, kMaxPayloads},
      {"expert_id_payload", config.expert_id_payload, -1, payloads - 1},
      {"hidden_size", config.hidden_size, 1, kMaxBytesPerToken / 4},
  };
  for (const auto& limit : limits) {
    if (auto ok = in_range(limit.what, limit.value, limit.low, limit.high); !ok) return ok;
  }
  for (const std::int64_t bytes : config.payload_bytes_per_token) {
    if (auto ok = in_range("payload bytes per token", bytes, 1, kMaxBytesPerToken); !ok) return ok;
  }
  return {};
}

}  // namespace a2asim
