// CUDA graphs under attention DP: which sizes are captured, and how the ranks agree on one (llm_args.py,
// cuda_graph_runner.py, model_engine.py).
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <span>
#include <vector>

namespace a2asim::trtllm {

using Sizes = std::vector<std::int64_t>;

// Sizes where the configuration names none. How they go on above 128:
enum class BucketRule : std::uint8_t {
  powers_floor,  // powers of two up to half of max_batch_size
  powers_ceil,   // those below max_batch_size
  steps_of_64,   // where batches are padded, else as powers_ceil
};
Sizes default_buckets(BucketRule rule, std::int64_t max_batch_size, bool pads);

struct FilterInputs {
  std::int64_t max_batch_size = 0, max_num_tokens = 0, draft_tokens = 0;
  bool pads = false;
  bool keeps_zero = false;  // 2025: a bound of 0 becomes a bucket
};
Sizes filter_buckets(std::span<const std::int64_t> sizes, const FilterInputs& in);

// One step on all ranks.
struct GraphRules {
  bool asks_others = true;  // early 2025: each rank for itself
};
struct GraphStep {
  std::span<const std::int64_t> buckets;  // ascending
  std::int64_t max_batch_size = 0;
  bool pads = true;
  std::span<const std::int64_t> batch_sizes;  // one a rank
  std::function<bool(std::size_t rank)> can_run = [](std::size_t) { return true; };          // decodes only
  std::function<bool(std::size_t rank)> has_room = [](std::size_t) { return true; };         // for a padding request
  std::map<std::int64_t, std::int64_t> draft_tokens_of_bucket;  // with a schedule: what each is captured with
  std::span<const std::int64_t> draft_tokens;                   // one a rank, with a schedule
};
struct GraphChoiceOfRank {
  std::int64_t padding = 0;     // requests
  std::int64_t batch_size = 0;  // with them
  bool passes_gate = false;
  bool replays = false;
};
std::vector<GraphChoiceOfRank> choose_graphs(const GraphRules& rules, const GraphStep& step);

// Prefill graphs: the size that all ranks pad to, or nothing where one of them cannot.
std::optional<std::int64_t> piecewise_size(std::span<const std::int64_t> num_tokens,
                                           std::span<const std::int64_t> context_requests,
                                           std::span<const std::int64_t> captured);

}  // namespace a2asim::trtllm
