#include "model/engines/sglang/rules/graph_buckets.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "model/base/check_invariant.h"

namespace a2asim {
namespace {

using Sizes = std::vector<std::int64_t>;

// first, first + step, .. while below end.
struct Range {
  std::int64_t first;
  std::int64_t end;
  std::int64_t step;
};
constexpr std::int64_t kUnbounded = kMaxCaptureSize + 1;

constexpr std::array kDecode = {Range{1, 3, 1}, Range{4, 13, 4}, Range{16, 257, 8}, Range{272, 512, 16},
                                Range{512, kUnbounded, 32}};
constexpr std::array kSpeculative = {Range{1, 9, 1}, Range{10, 33, 2}, Range{40, 65, 4}, Range{72, 257, 8},
                                     Range{272, kUnbounded, 16}};
constexpr std::array kEverySize = {Range{1, kUnbounded, 1}};
constexpr std::array kPrefillPr14668 = {Range{4, 33, 4},      Range{48, 257, 16},     Range{288, 513, 32},
                                        Range{640, 1025, 64}, Range{1280, 4097, 256}, Range{4608, kUnbounded, 512}};
constexpr std::array kPrefillPr27945 = {Range{4, 33, 4},      Range{48, 257, 16},     Range{288, 513, 32},
                                        Range{576, 1025, 64}, Range{1280, 4097, 256}, Range{4608, kUnbounded, 512}};

Result<Sizes> sizes_up_to(std::int64_t max, std::span<const Range> ranges) {
  if (max > kMaxCaptureSize)
    return fail(ErrorKind::bad_input, fmt::format("graph size limit {} is above {}; give a smaller --cuda-graph-max-bs",
                                                  max, kMaxCaptureSize));
  Sizes sizes;
  for (const Range& range : ranges)
    for (std::int64_t size = range.first; size < range.end && size <= max; size += range.step) sizes.push_back(size);
  return sizes;
}

std::string python_list(const Sizes& sizes) {
  std::string text = "[";
  for (const std::int64_t size : sizes) text += (text.size() > 1 ? ", " : "") + std::to_string(size);
  return text + "]";
}

Result<Sizes> filtered(const CaptureFilter& in, bool round_pool_up) {
  if (in.decode_bs.empty()) return fail(ErrorKind::value_error, "max() arg is an empty sequence");
  std::int64_t divisor = in.enable_two_batch_overlap ? 2 : 1;
  if (in.require_gathered_buffer) divisor *= in.attn_tp_size;
  if (divisor % in.attn_cp_size != 0) divisor *= in.attn_cp_size;
  // With two-batch overlap the batch size itself is divided, whatever the width.
  const std::int64_t width = in.enable_two_batch_overlap ? 1 : in.num_tokens_per_bs;
  std::int64_t limit = in.req_to_token_pool_size;
  if (round_pool_up) limit = (limit + divisor - 1) / divisor * divisor;

  Sizes sizes(in.decode_bs.begin(), in.decode_bs.end());
  if (std::ranges::max(sizes) > limit) sizes.push_back(limit);
  std::erase_if(sizes, [&](std::int64_t bs) { return bs * width % divisor != 0 || bs > limit; });
  std::ranges::sort(sizes);
  const auto duplicates = std::ranges::unique(sizes);
  sizes.erase(duplicates.begin(), duplicates.end());
  if (sizes.empty() || sizes.front() <= 0) return fail(ErrorKind::assertion_error, "capture_bs=" + python_list(sizes));
  return sizes;
}

CaptureTokenList capture_list(bool mlp_gather, bool attn_gather, std::int64_t dp_size, std::int64_t bs,
                              std::int64_t num_tokens_per_bs) {
  return {.num_tokens = bs * num_tokens_per_bs, .entries = mlp_gather ? dp_size : attn_gather ? 1 : 0};
}

// wanted / wanted_divisor requests need a bucket; the test compares cuda_graph_bs.
ReplayDecision decide(const ReplayInputs& in, std::int64_t cuda_graph_bs, std::int64_t wanted,
                      std::int64_t wanted_divisor) {
  A2ASIM_INVARIANT(!in.capture_bs.empty(), "a graph runner has captured at least one size");
  ReplayDecision decision;
  decision.cuda_graph_bs = cuda_graph_bs;
  decision.can_run = cuda_graph_bs <= in.capture_bs.back() && (!in.require_mlp_sync || in.can_run_dp_cuda_graph);
  // A fraction is compared exactly, by multiplying.
  const auto bucket =
      std::ranges::lower_bound(in.capture_bs, wanted, {}, [&](std::int64_t bs) { return bs * wanted_divisor; });
  if (bucket != in.capture_bs.end()) decision.bs = *bucket;
  return decision;
}

ReplayDecision raises(ErrorKind kind) {
  ReplayDecision decision;
  decision.raised = kind;
  return decision;
}

Error above_largest(const ReplayInputs& in, const ReplayDecision& decision, std::string_view test) {
  return {ErrorKind::assertion_error,
          fmt::format("size {} exceeds max captured bucket {}; {} should have rejected this batch",
                      decision.cuda_graph_bs, in.capture_bs.back(), test)};
}

}  // namespace

Result<Sizes> decode_capture_sizes_pr14668(std::int64_t max_bs, bool speculative, bool disable_cuda_graph_padding) {
  if (disable_cuda_graph_padding) return sizes_up_to(max_bs, kEverySize);
  return sizes_up_to(max_bs, speculative ? std::span<const Range>(kSpeculative) : std::span<const Range>(kDecode));
}

Result<Sizes> decode_capture_sizes_pr27945(std::int64_t max_bs, bool speculative, bool disable_cuda_graph_padding) {
  Result<Sizes> sizes = decode_capture_sizes_pr14668(max_bs, speculative, disable_cuda_graph_padding);
  if (sizes && (sizes->empty() || sizes->back() != max_bs)) sizes->push_back(max_bs);
  return sizes;
}

Result<Sizes> prefill_capture_sizes_pr14668(std::int64_t max_num_tokens) {
  return sizes_up_to(max_num_tokens, kPrefillPr14668);
}

Result<Sizes> prefill_capture_sizes_pr27945(std::int64_t max_num_tokens) {
  return sizes_up_to(max_num_tokens, kPrefillPr27945);
}

Result<Sizes> batch_sizes_to_capture_pr14668(const CaptureFilter& in) { return filtered(in, /*round_pool_up=*/false); }
Result<Sizes> batch_sizes_to_capture_pr27945(const CaptureFilter& in) { return filtered(in, /*round_pool_up=*/true); }

CaptureTokenList capture_token_list_pr14668(bool require_mlp_tp_gather, bool require_attn_tp_gather,
                                            std::int64_t dp_size, std::int64_t bs, std::int64_t num_tokens_per_bs) {
  return capture_list(require_mlp_tp_gather, require_attn_tp_gather, dp_size, bs, num_tokens_per_bs);
}

CaptureTokenList capture_token_list_pr26643(bool require_mlp_tp_gather, bool require_attn_tp_gather,
                                            std::int64_t dp_size, std::int64_t bs, std::int64_t num_tokens_per_bs) {
  CaptureTokenList list = capture_list(require_mlp_tp_gather, require_attn_tp_gather, dp_size, bs, num_tokens_per_bs);
  list.dispatch_sees_it = list.entries > 0;
  return list;
}

bool divides_by_width(std::string_view speculative_algorithm) {
  constexpr std::array<std::string_view, 5> kAlgorithms = {"EAGLE", "EAGLE3", "NEXTN", "STANDALONE", "DFLASH"};
  return std::ranges::find(kAlgorithms, speculative_algorithm) != kAlgorithms.end();
}

ReplayDecision replay_bucket_pr14668(const ReplayInputs& in) {
  if (!in.require_mlp_tp_gather) return decide(in, in.batch_size, in.batch_size, 1);
  if (!in.global_num_tokens) return raises(ErrorKind::type_error);
  if (in.global_num_tokens->empty()) return raises(ErrorKind::value_error);
  const std::int64_t max = std::ranges::max(*in.global_num_tokens);
  const std::int64_t width = in.divides_by_width ? in.num_tokens_per_bs : 1;
  return decide(in, max / width, max, width);
}

ReplayDecision replay_bucket_pr27945(const ReplayInputs& in) {
  if (!in.require_mlp_tp_gather) return decide(in, in.batch_size, in.batch_size, 1);
  if (!in.global_num_tokens) return raises(ErrorKind::type_error);
  if (in.global_num_tokens->empty()) return raises(ErrorKind::value_error);
  const std::int64_t requests =
      std::ranges::max(*in.global_num_tokens) / (in.divides_by_width ? in.num_tokens_per_bs : 1);
  return decide(in, requests, requests, 1);
}

ReplayDecision replay_bucket_main20260823(const ReplayInputs& in) {
  if (!in.require_mlp_tp_gather) return decide(in, in.batch_size, in.batch_size, 1);
  if (!in.original_global_num_tokens) return raises(ErrorKind::runtime_error);
  if (in.original_global_num_tokens->empty()) return raises(ErrorKind::value_error);
  const std::int64_t requests = std::ranges::max(*in.original_global_num_tokens);
  return decide(in, requests, requests, 1);
}

Error replay_above_largest_pr14668(const ReplayInputs&, const ReplayDecision&) {
  return {ErrorKind::index_error, "list index out of range"};
}

Error replay_above_largest_pr27945(const ReplayInputs& in, const ReplayDecision& decision) {
  return above_largest(in, decision, "can_run");
}

Error replay_above_largest_pr30450(const ReplayInputs& in, const ReplayDecision& decision) {
  return above_largest(in, decision, "can_run_graph");
}

}  // namespace a2asim
