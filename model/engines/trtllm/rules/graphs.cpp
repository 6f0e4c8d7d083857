#include "model/engines/trtllm/rules/graphs.h"

#include <algorithm>
#include <bit>

namespace a2asim::trtllm {
namespace {

std::int64_t round_up(std::span<const std::int64_t> buckets, std::int64_t size) {
  const auto found = std::ranges::lower_bound(buckets, size);
  return found == buckets.end() ? 0 : *found;
}

// With a schedule of draft lengths only graphs of the rank's own length serve.
std::int64_t target(const GraphStep& step, std::size_t rank, std::int64_t size) {
  if (step.draft_tokens_of_bucket.empty()) return round_up(step.buckets, size);
  for (const std::int64_t bucket : step.buckets) {
    const auto own = step.draft_tokens_of_bucket.find(bucket);
    if (bucket >= size && (own == step.draft_tokens_of_bucket.end() ? 0 : own->second) == step.draft_tokens[rank])
      return bucket;
  }
  return 0;
}

std::int64_t padding_of(const GraphRules& rules, const GraphStep& step, std::size_t rank, bool all_can) {
  const std::int64_t own = step.batch_sizes[rank];
  const std::int64_t wanted = rules.asks_others && all_can ? *std::ranges::max_element(step.batch_sizes) : own;
  if (!step.pads || !step.can_run(rank) || step.buckets.empty() || wanted > step.buckets.back()) return 0;
  const std::int64_t padding = target(step, rank, wanted) - own;
  if (padding <= 0 || padding + own > step.max_batch_size || !step.has_room(rank)) return 0;
  return padding;
}

}  // namespace

Sizes default_buckets(BucketRule rule, std::int64_t max_batch_size, bool pads) {
  Sizes sizes;
  if (pads) {
    sizes = {1, 2, 4};
    for (std::int64_t size = 8; size <= 128; size += 8) sizes.push_back(size);
  } else {
    for (std::int64_t size = 1; size <= 32; ++size) sizes.push_back(size);
    sizes.insert(sizes.end(), {64, 128});
  }
  if (pads && rule == BucketRule::steps_of_64) {
    for (std::int64_t size = 192; size < max_batch_size; size += 64) sizes.push_back(size);
  } else {
    const std::int64_t last = max_batch_size / (rule == BucketRule::powers_floor ? 2 : 1);
    for (std::int64_t size = 256; size < max_batch_size && size <= last; size *= 2) sizes.push_back(size);
  }
  std::erase_if(sizes, [&](std::int64_t size) { return size > max_batch_size; });
  if (sizes.empty() || sizes.back() != max_batch_size) sizes.push_back(max_batch_size);
  return sizes;
}

Sizes filter_buckets(std::span<const std::int64_t> sizes, const FilterInputs& in) {
  const std::int64_t bound = std::min(in.max_batch_size, in.max_num_tokens / (1 + in.draft_tokens));
  Sizes kept;
  for (const std::int64_t size : sizes) {
    if (size <= bound) {
      kept.push_back(size);
      continue;
    }
    if (in.pads && (kept.empty() || kept.back() != bound) && (bound > 0 || in.keeps_zero)) kept.push_back(bound);
    break;
  }
  return kept;
}

std::vector<GraphChoiceOfRank> choose_graphs(const GraphRules& rules, const GraphStep& step) {
  const std::size_t ranks = step.batch_sizes.size();
  bool all_can = true;
  for (std::size_t rank = 0; rank < ranks; ++rank) all_can = all_can && step.can_run(rank);
  std::vector<GraphChoiceOfRank> out;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const std::int64_t padding = padding_of(rules, step, rank, all_can);
    out.push_back({padding, step.batch_sizes[rank] + padding});
  }
  const bool same = std::ranges::all_of(
      out, [&](const GraphChoiceOfRank& rank) { return rank.batch_size == out.front().batch_size; });
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    out[rank].passes_gate = rules.asks_others ? all_can && same : step.can_run(rank);
    const bool captured = std::ranges::binary_search(step.buckets, out[rank].batch_size);
    const auto drafts = step.draft_tokens_of_bucket.find(out[rank].batch_size);
    const bool fits_draft =
        step.draft_tokens_of_bucket.empty() ||
        (drafts != step.draft_tokens_of_bucket.end() && drafts->second == step.draft_tokens[rank]);
    out[rank].replays = out[rank].passes_gate && captured && fits_draft;
  }
  return out;
}

std::optional<std::int64_t> piecewise_size(std::span<const std::int64_t> num_tokens,
                                           std::span<const std::int64_t> context_requests,
                                           std::span<const std::int64_t> captured) {
  const std::int64_t most = *std::ranges::max_element(num_tokens);
  if (captured.empty() || most > captured.back() || std::ranges::count(context_requests, 0) > 0) return std::nullopt;
  return round_up(captured, most);
}

}  // namespace a2asim::trtllm
