// What vLLM settles when the command does not: EngineArgs.get_batch_defaults and
// _set_default_max_num_seqs_and_batched_tokens_args (vllm/engine/arg_utils.py), SchedulerConfig.verify, and
// VllmConfig._set_cudagraph_sizes. The usage is the API server's, or the offline LLM class's.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/result.h"

namespace a2asim::vllm {

// How much of a GPU counts: the defaults follow it.
enum class GpuClass : std::uint8_t { small, large, blackwell_large };  // below 70 GiB or A100; 70 GiB; 160 GiB
GpuClass gpu_class(double memory_gib, std::string_view name);
// Compute capability 10.x, by the name.
bool is_sm100(std::string_view gpu_name);

struct DefaultRules {
  bool largest_for_160_gib = false;              // #51726: 16384 tokens for the API server, too
  bool has_performance_mode = false;             // #34936
  bool small_for_batched_dp = false;             // #39107: 256 tokens for deepep_low_latency and nixl_ep with DP and EP
  bool tokens_capped_by_length = false;          // #26623: at most max_num_seqs * max_model_len
  std::string_view microbatching_backends = "";  // words; empty: the version has no microbatches
  // Capture sizes.
  bool steps_of_16 = true;              // from 256 on; before the step is 8 throughout
  bool width_counts = false;            // #30330: twice max_num_seqs * (1 + speculative tokens)
  bool captures_largest_batch = false;  // #40734: max_num_batched_tokens, where it is within the limit
  bool up_to_1024_on_sm100 = false;     // #49390
};

struct BatchArgs {
  std::optional<std::int64_t> max_num_batched_tokens = {}, max_num_seqs = {};
  std::int64_t max_model_len = 0;  // 0: not known
  std::string performance_mode = "balanced";
  bool is_offline = false;
  bool batched_dp_moe = false;  // deepep_low_latency or nixl_ep, with expert and data parallelism
};

struct BatchLimits {
  std::int64_t max_num_batched_tokens = 0, max_num_seqs = 0;
};
BatchLimits batch_limits(const DefaultRules& rules, const BatchArgs& args, GpuClass gpu);
std::optional<Error> refuse_limits(const BatchLimits& limits);
std::optional<Error> refuse_microbatching(const DefaultRules& rules, std::string_view backend);

struct CaptureArgs {
  bool enforce_eager = false;
  std::optional<std::vector<std::int64_t>> sizes = {};  // cudagraph_capture_sizes
  std::optional<std::int64_t> max_size = {};            // max_cudagraph_capture_size
  std::int64_t width = 1;
  bool interactivity = false;
  bool sm100 = false;
};
// Ascending; empty: no graphs. Errors: as vLLM raises them.
Result<std::vector<std::int64_t>> capture_sizes(const DefaultRules& rules, const CaptureArgs& args,
                                                const BatchLimits& limits);

}  // namespace a2asim::vllm
