#include "model/engines/sglang/static_caps.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>

#include "model/base/check_invariant.h"
#include "model/base/clamped_math.h"
#include "model/flashinfer/capacity.h"

namespace a2asim {
namespace {

using B = StaticCapBackend;
constexpr std::string_view kAsserts = "the dispatcher asserts and the rank dies, its peers wait";
constexpr std::array<StaticCapRow, 7> kRows{{
    {B::deepep, "deepep", "SGLANG_DEEPEP_NUM_MAX_DISPATCH_TOKENS_PER_RANK", 128, 1024, StartBudget::none, false, true,
     kAsserts},
    {B::deepep_v2, "deepep_v2", "SGLANG_DEEPEP_V2_NUM_MAX_DISPATCH_TOKENS_PER_RANK", 128, 0,
     StartBudget::chunk_and_graph_tokens, false, true, kAsserts},
    {B::mooncake, "mooncake", "SGLANG_MOONCAKE_EP_NUM_MAX_DISPATCH_TOKENS_PER_RANK", 128, 1024, StartBudget::none,
     false, false, kAsserts},
    {B::nixl, "nixl", "SGLANG_NIXL_EP_NUM_MAX_DISPATCH_TOKENS_PER_RANK", 128, 1024, StartBudget::none, false, false,
     kAsserts},
    {B::mori, "mori", "SGLANG_MORI_NUM_MAX_DISPATCH_TOKENS_PER_RANK", 4096, 0, StartBudget::chunk, false, true,
     "rows beyond the buffer are corrupted silently"},
    {B::pplx, "pplx", "SGLANG_PPLX_NUM_MAX_DISPATCH_TOKENS_PER_RANK", 128, 0, StartBudget::chunk_or_graph, false, false,
     kAsserts},
    {B::megamoe, "megamoe", "SGLANG_OPT_DEEPGEMM_MEGA_MOE_NUM_MAX_TOKENS_PER_RANK", 8192, 0, StartBudget::none, true,
     true, "the batch leaves the mega kernels for the slower path"},
}};

std::int64_t own_limit(const StaticCapInputs& inputs) {
  return inputs.backend == B::deepep ? inputs.deepep.most_tokens : row_of(inputs.backend).own_limit;
}

std::string raise_env(const StaticCapInputs& inputs, std::int64_t tokens) {
  const StaticCapRow& row = row_of(inputs.backend);
  const std::int64_t most = own_limit(inputs);
  if (most == 0 || tokens <= most) return fmt::format("set {}={} (now {})", row.env, tokens, static_cap(inputs));
  return fmt::format("{} may not exceed {}, so the tokens must go down", row.env, most);
}

StaticCapItem refused(std::optional<std::int64_t> value, std::int64_t limit, std::string message, std::string fix) {
  return {Phase::start, StaticCapOutcome::refused, value, limit, std::move(message), std::move(fix)};
}

// DeepEP's normal kernels are compiled for these counts: ranks within a node of 8, or nodes of 8 ranks.
bool has_normal_kernels(std::int64_t ep_size) {
  constexpr std::array<std::int64_t, 4> kRanks{1, 2, 4, 8};
  constexpr std::array<std::int64_t, 9> kNodes{2, 3, 4, 6, 8, 12, 16, 18, 20};
  if (ep_size <= 8) return std::ranges::binary_search(kRanks, ep_size);
  return ep_size % 8 == 0 && std::ranges::binary_search(kNodes, ep_size / 8);
}

bool uses_normal_kernels(const StaticCapInputs& inputs) {
  return inputs.backend == B::deepep && inputs.deepep_mode != DeepEpMode::low_latency &&
         !(inputs.deepep_mode == DeepEpMode::automatic && inputs.decode_only);
}

void check_own_limit(const StaticCapInputs& inputs, std::vector<StaticCapItem>& items) {
  const StaticCapRow& row = row_of(inputs.backend);
  const bool buffer_used = is_bounded(inputs, Phase::eager_decode) || is_bounded(inputs, Phase::prefill);
  const std::int64_t cap = static_cap(inputs), most = own_limit(inputs);
  if (most == 0 || cap <= most || !buffer_used) return;
  items.push_back(refused(cap, most,
                          fmt::format("{}={} is above {}, the most that {} accepts", row.env, cap, most, row.name),
                          fmt::format("set {} to at most {}", row.env, most)));
}

// The first low-latency dispatch asserts on the host.
void check_low_latency_kernels(const StaticCapInputs& inputs, std::vector<StaticCapItem>& items) {
  const bool dispatches = (!inputs.prefill_only && is_bounded(inputs, Phase::eager_decode)) ||
                          (!inputs.decode_only && is_bounded(inputs, Phase::prefill));
  if (inputs.backend != B::deepep || !dispatches) return;
  const DeepEpLimits& limits = inputs.deepep;
  const std::string fix = inputs.decode_only ? "choose another --moe-a2a-backend"
                                             : "use --deepep-mode normal, or another --moe-a2a-backend";
  if (inputs.top_k.value_or(0) > limits.max_top_k)
    items.push_back(refused(
        inputs.top_k, limits.max_top_k,
        fmt::format("DeepEP's low-latency kernels take top_k up to {}, not {}", limits.max_top_k, *inputs.top_k), fix));
  if (inputs.hidden_size && std::ranges::count(limits.hidden_sizes, *inputs.hidden_size) == 0)
    items.push_back(refused(inputs.hidden_size, 0,
                            fmt::format("DeepEP's low-latency kernels are compiled for hidden_size {}, not {}",
                                        fmt::join(limits.hidden_sizes, ", "), *inputs.hidden_size),
                            fix));
}

void check_experts(const StaticCapInputs& inputs, std::vector<StaticCapItem>& items) {
  if (!inputs.num_experts) return;
  const std::int64_t experts = *inputs.num_experts + inputs.num_redundant_experts;
  if (experts % inputs.ep_size == 0) return;
  items.push_back(
      refused(experts, inputs.ep_size,
              fmt::format("{} experts ({} and {} redundant) are not divisible by ep_size {}", experts,
                          *inputs.num_experts, inputs.num_redundant_experts, inputs.ep_size),
              fmt::format("choose --tp-size so that it divides {}, or set --ep-num-redundant-experts {}", experts,
                          inputs.num_redundant_experts + inputs.ep_size - experts % inputs.ep_size)));
}

void check_ranks(const StaticCapInputs& inputs, std::vector<StaticCapItem>& items) {
  if (!uses_normal_kernels(inputs) || has_normal_kernels(inputs.ep_size)) return;
  const bool one_node = inputs.ep_size <= 8;
  items.push_back(
      refused(inputs.ep_size, 0,
              fmt::format("DeepEP's normal mode has no kernels for {} ranks ({})", inputs.ep_size,
                          one_node ? "within one node it supports 2, 4 and 8"
                                   : "beyond one node it supports 2, 3, 4, 6, 8, 12, 16, 18 or 20 groups of 8 ranks"),
              "choose --tp-size accordingly, or use --deepep-mode low_latency"));
}

void check_start_budget(const StaticCapInputs& inputs, std::vector<StaticCapItem>& items) {
  const StartBudget budget = row_of(inputs.backend).start_budget;
  if (budget == StartBudget::none) return;
  const std::int64_t cap = static_cap(inputs);
  const std::int64_t chunk = inputs.chunk_per_dp_rank.value_or(0);
  const std::int64_t graph = inputs.decode_graph_max_bs.value_or(0);
  const bool chunk_counts = chunk > 0 && !inputs.decode_only;
  const bool chunks = inputs.chunk_per_dp_rank.value_or(1) > 0 && !inputs.decode_only;  // also by an open default

  const auto require = [&](std::int64_t tokens, std::string_view what) {
    if (tokens <= cap) return;
    items.push_back(refused(tokens, cap,
                            fmt::format("{} = {} tokens per rank is above {} = {}: the start-up check of {} refuses",
                                        what, tokens, row_of(inputs.backend).env, cap, row_of(inputs.backend).name),
                            raise_env(inputs, tokens)));
  };
  if (chunk_counts) require(chunk, "the prefill chunk of a replica");
  if (chunks && budget == StartBudget::chunk_or_graph) require(graph, "the largest decode graph");
  if (budget == StartBudget::chunk_and_graph_tokens && !inputs.prefill_only)
    require(clamped_product(graph, inputs.num_tokens_per_request),
            "the largest decode graph times the speculative width");
}

StaticCapItem compare(const StaticCapInputs& inputs, Phase phase, std::int64_t tokens, const std::string& origin) {
  const StaticCapRow& row = row_of(inputs.backend);
  const std::int64_t cap = static_cap(inputs);
  StaticCapItem item{phase, StaticCapOutcome::fits, tokens, cap, "", ""};
  item.message = fmt::format("{} = {} tokens per rank, {} {} = {}", origin, tokens, tokens <= cap ? "within" : "above",
                             row.env, cap);
  if (tokens <= cap) return item;
  item.outcome = StaticCapOutcome::exceeds;
  item.message += phase == Phase::graph_decode ? ": capture fails at start" : fmt::format(": {}", row.above_cap);
  item.fix = raise_env(inputs, tokens);
  return item;
}

// How the tokens of a rank come about: "256 requests / 2 (two-batch overlap) x 4 / attn_tp_size 2".
std::string decode_origin(const StaticCapInputs& inputs, std::int64_t requests) {
  std::string text = fmt::format("{} requests per replica", requests);
  if (inputs.two_batch_overlap) text += " / 2 (two-batch overlap)";
  if (inputs.num_tokens_per_request > 1) text += fmt::format(" x {} tokens", inputs.num_tokens_per_request);
  if (inputs.attn_tp_size > 1) text += fmt::format(" / attn_tp_size {}", inputs.attn_tp_size);
  return text;
}

Phase decode_phase(const StaticCapInputs& inputs) {
  return inputs.num_tokens_per_request > 1 ? Phase::verify : Phase::eager_decode;
}

void check_decode(const StaticCapInputs& inputs, std::vector<StaticCapItem>& items) {
  if (inputs.prefill_only || !is_bounded(inputs, Phase::eager_decode)) return;
  const auto requests = inputs.requests_per_dp_rank;
  if (requests) {
    StaticCapItem item = compare(inputs, decode_phase(inputs), decode_tokens_per_rank(inputs, *requests),
                                 decode_origin(inputs, *requests));
    if (item.outcome == StaticCapOutcome::exceeds && inputs.memory_bounds_requests) {
      item.outcome = StaticCapOutcome::beyond_memory;
      const StaticCapRow& row = row_of(inputs.backend);
      const std::int64_t most = own_limit(inputs);
      item.message = fmt::format(
          "from {} running requests per replica on, more tokens per rank than {} = {}; the limit of {} admits as many, "
          "if memory does",
          safe_requests(inputs) + 1, row.env, item.cap, *requests);
      item.fix = fmt::format("set --max-running-requests to at most {} times dp_size", safe_requests(inputs));
      if (most == 0 || item.cap < most)
        item.fix += fmt::format(", or raise {}{}", row.env, most == 0 ? "" : fmt::format(" (up to {})", most));
    }
    items.push_back(std::move(item));
  } else {
    const StaticCapRow& row = row_of(inputs.backend);
    items.push_back(
        {decode_phase(inputs), StaticCapOutcome::open, std::nullopt, static_cap(inputs),
         fmt::format("safe up to {} running requests per replica ({} = {}); the command leaves the bound open",
                     safe_requests(inputs), row.env, static_cap(inputs)),
         fmt::format("set --max-running-requests to at most {} times dp_size", safe_requests(inputs))});
  }
  const std::int64_t graph = inputs.decode_graph_max_bs.value_or(0);
  if (graph <= 0) return;
  // Graphs are captured up to the request pool only.
  const std::int64_t bucket = requests ? std::min(graph, *requests) : graph;
  items.push_back(compare(inputs, Phase::graph_decode, decode_tokens_per_rank(inputs, bucket),
                          "the largest decode graph, " + decode_origin(inputs, bucket)));
}

void check_prefill(const StaticCapInputs& inputs, std::vector<StaticCapItem>& items) {
  if (inputs.decode_only || !is_bounded(inputs, Phase::prefill)) return;
  const StaticCapRow& row = row_of(inputs.backend);
  const std::int64_t cap = static_cap(inputs);
  if (!inputs.chunk_per_dp_rank) {
    const std::int64_t safe = clamped_product(cap, inputs.attn_tp_size);
    items.push_back(
        {Phase::prefill, StaticCapOutcome::open, std::nullopt, cap,
         fmt::format("safe up to a prefill chunk of {} tokens per replica ({} = {}); the command leaves it open", safe,
                     row.env, cap),
         fmt::format("set --chunked-prefill-size to at most {} times dp_size", safe)});
    return;
  }
  const bool chunked = *inputs.chunk_per_dp_rank > 0;
  const std::int64_t tokens = chunked ? *inputs.chunk_per_dp_rank : inputs.max_prefill_tokens;
  std::string origin =
      fmt::format("{} of {} tokens per replica", chunked ? "a prefill chunk" : "an unchunked prefill", tokens);
  if (inputs.attn_tp_size > 1) origin += fmt::format(" / attn_tp_size {}", inputs.attn_tp_size);
  items.push_back(compare(inputs, Phase::prefill, prefill_tokens_per_rank(inputs, tokens), origin));
}

}  // namespace

Result<DeepEpMode> parse_deepep_mode(std::string_view text) {
  if (text == "auto") return DeepEpMode::automatic;
  if (text == "normal") return DeepEpMode::normal;
  if (text == "low_latency") return DeepEpMode::low_latency;
  return fail(ErrorKind::bad_input, fmt::format("--deepep-mode: '{}' is none of auto, normal, low_latency", text));
}

std::span<const StaticCapRow> static_cap_rows() { return kRows; }

const StaticCapRow& row_of(StaticCapBackend backend) { return kRows[static_cast<std::size_t>(backend)]; }

const StaticCapRow* find_static_cap(std::string_view moe_a2a_backend) {
  const auto* const found = std::ranges::find(kRows, moe_a2a_backend, &StaticCapRow::name);
  return found == kRows.end() ? nullptr : &*found;
}

std::int64_t static_cap(const StaticCapInputs& inputs) {
  return int_env_or(inputs.env_cap, inputs.default_cap.value_or(row_of(inputs.backend).default_cap));
}

bool is_bounded(const StaticCapInputs& inputs, Phase phase) {
  if (inputs.backend != B::deepep) return true;
  if (phase == Phase::prefill) return inputs.deepep_mode == DeepEpMode::low_latency;
  return inputs.deepep_mode != DeepEpMode::normal;
}

std::int64_t decode_tokens_per_rank(const StaticCapInputs& inputs, std::int64_t requests) {
  const std::int64_t together = inputs.two_batch_overlap ? ceil_div(requests, 2) : requests;
  return ceil_div(clamped_product(together, inputs.num_tokens_per_request), inputs.attn_tp_size);
}

// With low latency an extend step is never split (TboDPAttentionPreparer), so deepep's bound holds for the whole chunk.
std::int64_t prefill_tokens_per_rank(const StaticCapInputs& inputs, std::int64_t tokens) {
  const bool low_latency = inputs.backend == B::deepep && inputs.deepep_mode == DeepEpMode::low_latency;
  const bool split = inputs.two_batch_overlap && row_of(inputs.backend).overlap_splits_prefill && !low_latency;
  return ceil_div(split ? ceil_div(tokens, 2) : tokens, inputs.attn_tp_size);
}

std::int64_t safe_requests(const StaticCapInputs& inputs) {
  const std::int64_t cap = std::max<std::int64_t>(static_cap(inputs), 0);
  const std::int64_t together = clamped_product(cap, inputs.attn_tp_size) / inputs.num_tokens_per_request;
  return inputs.two_batch_overlap ? clamped_product(together, 2) : together;
}

std::vector<StaticCapItem> check_static_cap(const StaticCapInputs& inputs) {
  A2ASIM_INVARIANT(inputs.attn_tp_size >= 1 && inputs.num_tokens_per_request >= 1 && inputs.ep_size >= 1,
                   "sizes are checked where the command is read");
  std::vector<StaticCapItem> items;
  check_own_limit(inputs, items);
  check_experts(inputs, items);
  check_ranks(inputs, items);
  check_low_latency_kernels(inputs, items);
  check_start_budget(inputs, items);
  check_decode(inputs, items);
  check_prefill(inputs, items);
  return items;
}

}  // namespace a2asim
