#include "tools/validate/validate_writes.h"

#include <algorithm>
#include <array>

#include "model/alltoall/routing.h"

namespace a2asim {
DispatchWrites::DispatchWrites(const MirroredLayer& layer, const std::vector<std::vector<std::int32_t>>& slots)
    : by_slice_(layer.configs.size()) {
  const int ranks = static_cast<int>(layer.configs.size());
  for (const int writer : layer.outcome.taking_part) {
    const AllToAllConfig& config = layer.configs[static_cast<std::size_t>(writer)];
    const DispatchInput& input = layer.inputs[static_cast<std::size_t>(writer)];
    const RegionView regions = config.regions(input.runtime_max_tokens_per_rank);
    std::array<std::int64_t, kMaxRanks> next = {};
    for (std::int64_t token = 0; token < input.local_num_tokens; ++token) {
      std::array<std::int32_t, kMaxTopK> targets;
      distinct_targets(input.token_selected_experts.data() + token * config.top_k, config.top_k, config.num_experts,
                       ranks, targets.data());
      for (int j = 0; j < config.top_k; ++j) {
        const int slice = targets[static_cast<std::size_t>(j)];
        if (slice < 0 || layer.masked.contains(slice)) continue;
        std::int64_t slot = next[static_cast<std::size_t>(slice)]++;
        if (!slots.empty())
          slot = slots[static_cast<std::size_t>(writer)][static_cast<std::size_t>(token * config.top_k + j)];
        for (std::size_t p = 0; p < input.payloads.size(); ++p) {
          const std::int64_t bytes = config.payload_bytes_per_token[p];
          by_slice_[static_cast<std::size_t>(slice)].push_back(
              {regions.row(static_cast<int>(p), writer, slot),
               input.payloads[p].subspan(static_cast<std::size_t>(token * bytes), static_cast<std::size_t>(bytes))});
          longest_ = std::max(longest_, bytes);
        }
      }
    }
  }
  for (std::vector<Write>& writes : by_slice_) std::ranges::sort(writes, {}, &Write::begin);
}

bool DispatchWrites::may_be(int slice, std::int64_t at_bytes, std::byte value) const {
  const std::vector<Write>& writes = by_slice_[static_cast<std::size_t>(slice)];
  auto after = std::ranges::upper_bound(writes, at_bytes, {}, &Write::begin);
  int rows = 0;
  bool has_value = false;
  while (after != writes.begin()) {
    const Write& write = *--after;
    if (write.begin + longest_ <= at_bytes) break;
    if (write.begin + static_cast<std::int64_t>(write.bytes.size()) <= at_bytes) continue;
    ++rows;
    has_value = has_value || write.bytes[static_cast<std::size_t>(at_bytes - write.begin)] == value;
  }
  return has_value && rows > 1;
}

bool DispatchWrites::hits_tables(const MirroredLayer& layer) const {
  for (std::size_t slice = 0; slice < by_slice_.size(); ++slice) {
    const AllToAllConfig& config = layer.configs[slice];
    const WorkspaceLayout at = config.layout();
    const std::int64_t used_bytes = 4 * layer.inputs[slice].local_num_tokens * config.top_k;
    for (const Write& write : by_slice_[slice]) {
      const std::int64_t end = write.begin + static_cast<std::int64_t>(write.bytes.size());
      for (const std::int64_t table : {at.topk_target_ranks, at.topk_send_indices})
        if (write.begin < table + used_bytes && end > table) return true;
    }
  }
  return false;
}

}  // namespace a2asim
