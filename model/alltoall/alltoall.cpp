#include "model/alltoall/alltoall.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

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

std::string_view name(Capability capability) {
  constexpr std::array<std::string_view, kCapabilities> names = {
      "slot order", "told slots",         "sum order",     "zero tokens",     "changing R",
      "unequal R",  "rank mask",          "several ranks", "captured graphs", "sanitize",
      "experts",    "readable workspace", "guard",         "refusals",        "bounded waits"};
  return names[static_cast<std::size_t>(capability)];
}

Result<std::vector<std::int32_t>> Dispatcher::slots(int) {
  return fail(ErrorKind::runtime_error, fmt::format("{} does not tell slots", backend()));
}

Result<Received> AllToAll::received(int rank) {
  const auto slice = read_slice(rank);
  if (!slice) return tl::unexpected(slice.error());
  const auto [config, runtime_max] = slice_view(rank);
  A2ASIM_INVARIANT(config != nullptr && std::ssize(*slice) == config->workspace_bytes(), "a slice is as configured");
  const RegionView regions = config->regions(runtime_max);
  Received out;
  out.payloads.resize(config->payload_bytes_per_token.size());
  for (int source = 0; source < config->ep_size; ++source) {
    std::int32_t counter = 0;
    std::memcpy(&counter, slice->data() + config->layout().recv_counters + 4 * source, sizeof counter);
    const std::int64_t rows = std::clamp<std::int64_t>(counter, 0, runtime_max);
    out.counters.push_back(counter);
    out.rows.push_back(rows);
    for (int p = 0; p < regions.num_payloads(); ++p) {
      const auto begin = slice->begin() + regions.row(p, source, 0);
      out.payloads[static_cast<std::size_t>(p)].emplace_back(begin, begin + rows * regions.bytes_per_token(p));
    }
  }
  return out;
}

Result<void> AllToAll::combine(std::span<const std::int64_t> runtime_max_tokens_per_rank,
                               std::span<const std::vector<std::byte>> results,
                               std::vector<std::vector<std::byte>>& outputs) {
  A2ASIM_INVARIANT(results.size() == local_ranks().size(), "every local rank has results");
  for (std::size_t i = 0; i < results.size(); ++i)
    if (auto ok = give_results(local_ranks()[i], results[i]); !ok) return ok;
  return combine(runtime_max_tokens_per_rank, outputs);
}

Result<std::vector<std::int32_t>> AllToAll::slots(int rank) {
  const auto slice = read_slice(rank);
  if (!slice) return tl::unexpected(slice.error());
  const SliceView view = slice_view(rank);
  const WorkspaceLayout at = view.config->layout();
  std::int32_t tokens = 0;
  std::memcpy(&tokens, slice->data() + at.local_token_counter, sizeof tokens);
  std::vector<std::int32_t> all(static_cast<std::size_t>(tokens * view.config->top_k));
  if (!all.empty()) std::memcpy(all.data(), slice->data() + at.topk_send_indices, 4 * all.size());
  return all;
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
