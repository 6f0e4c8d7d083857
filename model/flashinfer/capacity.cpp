#include "model/flashinfer/capacity.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <limits>
#include <numeric>
#include <string>

#include "model/base/check_invariant.h"
#include "model/base/clamped_math.h"
#include "model/base/python_int.h"

namespace a2asim {
namespace {

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();

constexpr std::array kTopKUpTo8{1, 2, 4, 8};
constexpr std::array kTopKUpTo22{1, 2, 4, 6, 8, 10, 16, 22};
constexpr std::array kTopKFrom16{1, 2, 4, 6, 8, 10, 12, 14, 16, 18, 22};

using V = FlashInferVersion;
constexpr std::array<FlashInferLimits, 14> kVersions{{
    // version, tag, max_top_k, max_payloads, max_ranks, metainfo fields, divisible, checks ranks, supported top_k
    {V::v0_6_1, "v0.6.1", 8, 8, 64, 9, true, false, kTopKUpTo8},
    {V::v0_6_3, "v0.6.3", 8, 8, 64, 9, true, false, kTopKUpTo8},
    {V::v0_6_6, "v0.6.6", 8, 8, 64, 9, true, false, kTopKUpTo8},
    {V::v0_6_7, "v0.6.7", 8, 8, 64, 9, true, false, kTopKUpTo8},
    {V::v0_6_8_post1, "v0.6.8.post1", 22, 4, 64, 9, true, false, kTopKUpTo22},
    {V::v0_6_11_post1, "v0.6.11.post1", 22, 4, 64, 9, true, false, kTopKUpTo22},
    {V::v0_6_11_post2, "v0.6.11.post2", 22, 4, 64, 9, true, false, kTopKUpTo22},
    {V::v0_6_12, "v0.6.12", 22, 4, 64, 9, true, false, kTopKUpTo22},
    {V::v0_6_13, "v0.6.13", 22, 4, 64, 9, true, false, kTopKUpTo22},
    {V::v0_6_14, "v0.6.14", 22, 6, 64, 9, true, false, kTopKUpTo22},
    {V::v0_6_15_post1, "v0.6.15.post1", 22, 6, 64, 9, true, false, kTopKUpTo22},
    {V::v0_6_16_post3, "v0.6.16.post3", 22, 6, 64, 10, false, true, kTopKFrom16},
    {V::v0_6_17, "v0.6.17", 22, 6, 64, 10, false, true, kTopKFrom16},
    {V::v0_6_18, "v0.6.18", 22, 6, 64, 10, false, true, kTopKFrom16},  // not read: nothing is known to differ
}};

tl::unexpected<Error> check_failed(std::string_view condition, const std::string& why = "") {
  return fail(ErrorKind::runtime_error, fmt::format("Check failed: ({}) is false: {}", condition, why));
}

// workspace_bytes_per_rank in wide integers: user-given numbers may overflow.
Result<std::int64_t> checked_workspace_bytes(const FlashInferLimits& flashinfer, int ep_size,
                                             const Capacity& capacity) {
  const __int128 rows = static_cast<__int128>(ep_size) * capacity.max_num_tokens;
  const __int128 tables = static_cast<__int128>(capacity.max_num_tokens) * flashinfer.max_top_k * 2 * 4;
  const __int128 bytes =
      rows * (static_cast<__int128>(capacity.dispatch_bytes_per_token) + capacity.combine_bytes_per_token) + tables;
  if (bytes > kMax / 2 || bytes < kMin / 2)
    return fail(ErrorKind::bad_input,
                fmt::format("the workspace for max_num_tokens={} and ep_size={} exceeds 2^62 bytes; set "
                            "the cap or --chunked-prefill-size lower",
                            capacity.max_num_tokens, ep_size));
  const WorkspaceLayout layout = make_workspace_layout(flashinfer, ep_size, capacity.max_num_tokens);
  return workspace_bytes_per_rank(layout, ep_size, capacity.max_num_tokens, capacity.dispatch_bytes_per_token,
                                  capacity.combine_bytes_per_token);
}

// The receive regions must fit the slice; clamped where FlashInfer would overflow int64.
Result<void> check_receive_regions(const FlashInferLimits& flashinfer, const DispatchCall& call) {
  const std::int64_t rows = clamped_product(call.ep_size, call.runtime_max_tokens_per_rank);
  std::int64_t total_bytes = 0;
  for (std::size_t i = 0; i < call.payloads.size(); ++i) {
    const auto [elements, element_bytes] = call.payloads[i];
    total_bytes = clamped_sum(total_bytes, clamped_product(rows, clamped_product(elements, element_bytes)));
    if (total_bytes < kMax && total_bytes % element_bytes != 0)
      return check_failed("totalBytesNeeded % elementSize == 0",
                          fmt::format("Misaligned payload buffer {} with element size {}. Consider reordering payloads "
                                      "by largest to smallest element size",
                                      i, element_bytes));
  }
  const WorkspaceLayout layout = make_workspace_layout(flashinfer, call.ep_size, call.max_num_tokens);
  const std::int64_t needed = clamped_sum(layout.payload_data, total_bytes);
  if (call.workspace_bytes_per_rank < needed)
    return check_failed("sizePerRank >= requiredSize",
                        fmt::format("workspace size per rank insufficient, need {} bytes but has {}", needed,
                                    call.workspace_bytes_per_rank));
  return {};
}

}  // namespace

std::span<const FlashInferLimits> flashinfer_versions() { return kVersions; }

const FlashInferLimits& limits(FlashInferVersion version) { return kVersions[static_cast<std::size_t>(version)]; }

const FlashInferLimits* find_flashinfer(std::string_view tag) {
  const auto* const found = std::ranges::find(kVersions, tag, &FlashInferLimits::tag);
  return found == kVersions.end() ? nullptr : &*found;
}

WorkspaceLayout make_workspace_layout(const FlashInferLimits& flashinfer, int ep_size, std::int64_t max_num_tokens,
                                      std::int64_t eplb_stats_num_experts) {
  WorkspaceLayout at = make_workspace_layout(ep_size, max_num_tokens, flashinfer.max_top_k,
                                             flashinfer.has_eplb_region() ? eplb_stats_num_experts : 0);
  at.payload_alignment = flashinfer.payload_alignment;
  return at;
}

std::int64_t int_env_or(std::optional<std::string_view> text, std::int64_t default_value) {
  if (!text) return default_value;
  const PythonInt parsed = python_int(*text);
  return parsed.status == PythonInt::Status::invalid ? default_value : parsed.value;
}

std::int64_t max_num_tokens_pr14668(std::optional<std::string_view> env, std::optional<std::int64_t>, int ep_size) {
  return clamped_product(int_env_or(env, 1024), ep_size);
}

std::int64_t max_num_tokens_pr25907(std::optional<std::string_view> env, std::optional<std::int64_t>, int) {
  return int_env_or(env, 4096);
}

// 4096: a decode batch per DP worker is bounded by it (resolve_max_num_reqs).
std::int64_t max_num_tokens_pr26643(std::optional<std::string_view> env,
                                    std::optional<std::int64_t> chunked_prefill_size, int) {
  return int_env_or(env, std::max<std::int64_t>(chunked_prefill_size.value_or(0), 4096));
}

Result<DispatchType> parse_dispatch_type(std::string_view text) {
  for (const DispatchType type : {DispatchType::bf16, DispatchType::nvfp4, DispatchType::mxfp8})
    if (text == name(type)) return type;
  return fail(ErrorKind::bad_input, fmt::format("unknown dispatch type '{}': use bf16, nvfp4 or mxfp8", text));
}

std::int64_t dispatch_bytes_per_token(DispatchType type, std::int64_t hidden_size, std::int64_t top_k) {
  const std::vector<std::int64_t> bytes = payload_bytes_per_token(type, hidden_size, top_k);
  return std::accumulate(bytes.begin(), bytes.end(), std::int64_t{0});
}

bool is_eagle_like(std::optional<std::string_view> speculative_algorithm) {
  std::string upper(speculative_algorithm.value_or(""));
  std::ranges::transform(upper, upper.begin(), [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  return upper == "EAGLE" || upper == "EAGLE3" || upper == "NEXTN";
}

Result<Capacity> capacity(const CapacityRules& rules, const CapacityInputs& inputs) {
  constexpr std::int64_t kMaxShape = std::int64_t{1}
                                     << 30;  // far beyond any model; keeps the bytes of a token in int64
  if (inputs.hidden_size < 1 || inputs.hidden_size > kMaxShape || inputs.top_k < 1 || inputs.top_k > kMaxShape)
    return fail(ErrorKind::bad_input,
                fmt::format("hidden_size {} and top_k {} must be in 1..{}; check the model's shape", inputs.hidden_size,
                            inputs.top_k, kMaxShape));
  const auto bytes = [&](DispatchType type) {
    return dispatch_bytes_per_token(type, inputs.hidden_size, inputs.top_k);
  };
  DispatchType type = inputs.moe_nvfp4_dispatch ? DispatchType::nvfp4 : DispatchType::bf16;
  if (rules.sized_for_larger_type) type = inputs.dispatch_type;
  if (is_eagle_like(inputs.speculative_algorithm)) type = DispatchType::bf16;

  Capacity answer;
  answer.max_num_tokens = rules.max_num_tokens(inputs.env, inputs.chunked_prefill_size, inputs.ep_size);
  answer.dispatch_bytes_per_token = bytes(type);
  if (rules.sized_for_larger_type)
    answer.dispatch_bytes_per_token = std::max(answer.dispatch_bytes_per_token, bytes(DispatchType::bf16));
  answer.combine_bytes_per_token = combine_bytes_per_token(inputs.hidden_size);
  return checked_workspace_bytes(limits(rules.flashinfer), inputs.ep_size, answer).map([&](std::int64_t formula) {
    answer.formula_bytes = formula;
    answer.workspace_bytes_per_rank = formula + (rules.sized_for_larger_type && inputs.speculative_context ? 128 : 0);
    return answer;
  });
}

Result<void> check_runtime_max_tokens(std::int64_t runtime_max_tokens_per_rank, std::int64_t max_num_tokens) {
  if (runtime_max_tokens_per_rank > max_num_tokens)
    return fail(ErrorKind::assertion_error, "runtime_max_tokens_per_rank exceeds max_num_tokens");
  return {};
}

Result<void> check_dispatch_op(const FlashInferLimits& flashinfer, const DispatchCall& call) {
  if (call.payloads.empty()) return check_failed("numPayloads > 0", "At least one payload is required");
  if (std::ssize(call.payloads) > flashinfer.max_payloads)
    return check_failed("numPayloads <= tl_throughput::kMaxPayloads",
                        fmt::format("Too many payloads: {} > {}", call.payloads.size(), flashinfer.max_payloads));
  if (flashinfer.dispatch_checks_ranks && (call.ep_size <= 0 || call.ep_size > flashinfer.max_ranks))
    return check_failed("epSize > 0 && epSize <= tl_throughput::kMaxRanks",
                        fmt::format("epSize must be in the range (0, {}]", flashinfer.max_ranks));
  if (call.ep_rank < 0 || call.ep_rank >= call.ep_size) return check_failed("epRank >= 0 && epRank < epSize");
  if (call.runtime_max_tokens_per_rank <= 0) return check_failed("runtimeMaxTokensPerRank > 0");
  if (flashinfer.divisible_experts && (call.num_experts < call.ep_size || call.num_experts % call.ep_size != 0))
    return check_failed("numExperts >= epSize && numExperts % epSize == 0", "num_experts must be divisible by ep_size");
  if (call.num_experts < call.ep_size) return check_failed("numExperts >= epSize", "num_experts must be >= ep_size");
  if (call.top_k <= 0 || call.top_k > flashinfer.max_top_k)
    return check_failed("topK > 0 && topK <= tl_throughput::kMaxTopK");
  return check_receive_regions(flashinfer, call);
}

Result<void> check_dispatch_launch(const FlashInferLimits& flashinfer, int top_k, int ep_size) {
  if (ep_size > flashinfer.max_ranks)
    return fail(ErrorKind::runtime_error,
                fmt::format("ep_size {} exceeds kMaxRanks {}", ep_size, flashinfer.max_ranks));
  if (!std::ranges::binary_search(flashinfer.supported_top_k, top_k))
    return fail(ErrorKind::runtime_error, "Unsupported top_k");
  return {};
}

Result<void> check_flashinfer_dispatch(const FlashInferLimits& flashinfer, const DispatchCall& call) {
  if (auto fits = check_runtime_max_tokens(call.runtime_max_tokens_per_rank, call.max_num_tokens); !fits) return fits;
  if (auto accepted = check_dispatch_op(flashinfer, call); !accepted) return accepted;
  return check_dispatch_launch(flashinfer, call.top_k, call.ep_size);
}

DispatchRegions dispatch_regions(const FlashInferLimits& flashinfer, const DispatchCall& call) {
  const WorkspaceLayout layout = make_workspace_layout(flashinfer, call.ep_size, call.max_num_tokens);
  const std::int64_t slice = call.ep_rank * call.workspace_bytes_per_rank;
  std::vector<std::int64_t> bytes;
  for (const Payload& payload : call.payloads) bytes.push_back(payload.elements_per_token * payload.element_bytes);
  A2ASIM_INVARIANT(bytes.size() <= kMostPayloads, "a dispatch call was checked");
  const RegionView view(layout, call.ep_size, call.runtime_max_tokens_per_rank, bytes.data(),
                        static_cast<int>(bytes.size()), 0);
  DispatchRegions regions;
  for (int p = 0; p < view.num_payloads(); ++p) {
    regions.recv_offsets.push_back(slice + view.region(p));
    regions.recv_byte_sizes.push_back(view.region(p + 1) - view.region(p));
  }
  regions.combine_payload_offset = view.combine_region();
  return regions;
}

}  // namespace a2asim
