#include "model/engines/vllm/start/defaults.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>

#include "model/base/words.h"

namespace a2asim::vllm {
namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

struct Standard {
  std::int64_t api_tokens, offline_tokens, seqs;
};
Standard standard_of(const DefaultRules& rules, GpuClass gpu) {
  if (gpu == GpuClass::small) return {2048, 8192, 256};
  const bool largest = gpu == GpuClass::blackwell_large && rules.largest_for_160_gib;
  return {largest ? 16384 : 8192, 16384, 1024};
}

std::vector<std::int64_t> standard_sizes(const DefaultRules& rules, bool interactivity, std::int64_t most) {
  constexpr std::int64_t kFine = 32, kStep = 8, kWideStep = 16, kWideFrom = 256;
  std::vector<std::int64_t> sizes;
  for (std::int64_t size = 1; size <= std::min(most, interactivity ? kFine : 4); size += interactivity ? 1 : size)
    sizes.push_back(size);
  for (std::int64_t size = kStep; size <= most; size += rules.steps_of_16 && size >= kWideFrom ? kWideStep : kStep)
    sizes.push_back(size);
  return sizes;
}

void sort_and_unique(std::vector<std::int64_t>& sizes) {
  std::ranges::sort(sizes);
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
}

}  // namespace

GpuClass gpu_class(double memory_gib, std::string_view name) {
  constexpr double kLarge_gib = 70, kLargest_gib = 160;
  if (memory_gib >= kLargest_gib) return GpuClass::blackwell_large;
  return memory_gib >= kLarge_gib && lower(name).find("a100") == std::string::npos ? GpuClass::large : GpuClass::small;
}

bool is_sm100(std::string_view gpu_name) {
  const std::string name = lower(gpu_name);
  return name.find("b200") != std::string::npos || name.find("b300") != std::string::npos;
}

BatchLimits batch_limits(const DefaultRules& rules, const BatchArgs& args, GpuClass gpu) {
  constexpr std::int64_t kBatchedDp_tokens = 256;
  const Standard standard = standard_of(rules, gpu);
  const std::int64_t doubled = rules.has_performance_mode && args.performance_mode == "throughput" ? 2 : 1;
  BatchLimits out;
  const std::int64_t tokens = rules.small_for_batched_dp && args.batched_dp_moe ? kBatchedDp_tokens
                              : args.is_offline                                 ? standard.offline_tokens
                                                                                : standard.api_tokens;
  out.max_num_batched_tokens = args.max_num_batched_tokens.value_or(tokens * doubled);
  out.max_num_seqs = args.max_num_seqs.value_or(standard.seqs * doubled);
  if (!args.max_num_batched_tokens && rules.tokens_capped_by_length && args.max_model_len > 0 &&
      out.max_num_seqs <= out.max_num_batched_tokens / args.max_model_len)
    out.max_num_batched_tokens = std::min(out.max_num_batched_tokens, out.max_num_seqs * args.max_model_len);
  if (!args.max_num_seqs) out.max_num_seqs = std::min(out.max_num_seqs, out.max_num_batched_tokens);
  return out;
}

std::optional<Error> refuse_limits(const BatchLimits& limits) {
  if (limits.max_num_batched_tokens >= limits.max_num_seqs) return std::nullopt;
  return Error{ErrorKind::value_error,
               fmt::format("max_num_batched_tokens ({}) must be greater than or equal to max_num_seqs ({}).",
                           limits.max_num_batched_tokens, limits.max_num_seqs)};
}

std::optional<Error> refuse_microbatching(const DefaultRules& rules, std::string_view backend) {
  const std::vector<std::string_view> backends = split_words(rules.microbatching_backends);
  if (std::ranges::find(backends, backend) != backends.end()) return std::nullopt;
  const bool three = backends.size() == 3;
  const std::string named = backends.size() == 1 ? fmt::format("{} all2all backend", backends[0])
                            : three
                                ? fmt::format("{}, {}, and {} all2all backends", backends[0], backends[1], backends[2])
                                : fmt::format("{} all2all backend", fmt::join(backends, " and "));
  return Error{ErrorKind::assertion_error, fmt::format("Microbatching currently only supports the {}. {} is not "
                                                       "supported.",
                                                       named, backend)};
}

Result<std::vector<std::int64_t>> capture_sizes(const DefaultRules& rules, const CaptureArgs& args,
                                                const BatchLimits& limits) {
  if (args.enforce_eager) return std::vector<std::int64_t>{};
  const std::int64_t platform = rules.up_to_1024_on_sm100 && args.sm100 ? 1024 : 512;
  const std::int64_t width = rules.width_counts ? args.width : 1;
  const std::int64_t wanted = args.max_size.value_or(std::min(limits.max_num_seqs * width * 2, platform));
  const std::int64_t most = std::min(wanted, limits.max_num_batched_tokens);
  if (most < 1)
    return fail(ErrorKind::assertion_error,
                "Maximum cudagraph size should be greater than or equal to 1 when using cuda graph.");
  std::vector<std::int64_t> sizes;
  if (args.sizes) {
    if (args.sizes->empty())
      return fail(ErrorKind::assertion_error,
                  "cudagraph_capture_sizes should contain at least one element when using cuda graph.");
    sizes = *args.sizes;
    std::erase_if(sizes, [&](std::int64_t size) { return size > limits.max_num_batched_tokens; });
    sort_and_unique(sizes);
    const std::int64_t largest = sizes.empty() ? 0 : sizes.back();
    if (args.max_size && *args.max_size != largest)
      return fail(ErrorKind::value_error,
                  fmt::format("customized max_cudagraph_capture_size(={}) should be consistent with the max value of "
                              "cudagraph_capture_sizes(={})",
                              *args.max_size, largest));
    return sizes;
  }
  sizes = standard_sizes(rules, rules.has_performance_mode && args.interactivity, most);
  if (rules.captures_largest_batch && limits.max_num_batched_tokens <= most)
    sizes.push_back(limits.max_num_batched_tokens);
  sort_and_unique(sizes);
  return sizes;
}

}  // namespace a2asim::vllm
