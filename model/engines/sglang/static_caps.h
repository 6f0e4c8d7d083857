// The backends whose geometry is a constant: deepep, deepep_v2, mooncake, nixl, mori, pplx, megamoe. Their ranks always
// agree on it, so the only question is whether a rank may have more tokens than the buffers were made for.
//
// SGLang: the dispatchers in layers/moe/token_dispatcher/ and the start-up checks of _handle_a2a_moe in server_args.py;
// DeepEP: csrc/deep_ep.cpp and kernels/launch.cuh. The inputs are resolved numbers, so that this file knows no flags.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/step/finding.h"
#include "model/base/result.h"

namespace a2asim {

enum class StaticCapBackend : std::uint8_t { deepep, deepep_v2, mooncake, nixl, mori, pplx, megamoe };
enum class DeepEpMode : std::uint8_t { automatic, normal, low_latency };  // --deepep-mode

Result<DeepEpMode> parse_deepep_mode(std::string_view text);  // "auto", "normal", "low_latency"

// What SGLang asserts at start about the tokens of one rank.
enum class StartBudget : std::uint8_t {
  none,
  chunk,                   // mori: the resolved chunk, unless it is <= 0 or the worker only decodes
  chunk_or_graph,          // pplx: and the largest decode graph, in requests
  chunk_and_graph_tokens,  // deepep_v2: and the largest decode graph, in tokens, also on a decode worker
};

struct StaticCapRow {
  StaticCapBackend backend;
  std::string_view name;     // value of --moe-a2a-backend
  std::string_view env;      // the variable that sets the cap
  std::int64_t default_cap;  // tokens one rank may dispatch
  std::int64_t own_limit;    // the cap itself may not exceed this; 0: no such limit (deepep: DeepEpLimits)
  StartBudget start_budget;
  bool leaves_above_cap;        // a batch above the cap takes another path: slower, nobody dies
  bool overlap_splits_prefill;  // two-batch overlap also halves prefill (never with low latency)
  std::string_view above_cap;   // what happens to a rank with more tokens
};
std::span<const StaticCapRow> static_cap_rows();
const StaticCapRow& row_of(StaticCapBackend backend);
const StaticCapRow* find_static_cap(std::string_view moe_a2a_backend);  // nullptr: not one of these

// What DeepEP's low-latency kernels are compiled for, of one state of the library and of SGLang's dispatcher.
struct DeepEpLimits {
  std::int64_t max_top_k = 11;
  std::span<const std::int64_t> hidden_sizes = kHiddenSizes;
  std::int64_t most_tokens = 1024;  // the cap itself may not exceed it (#9567, 2025-09-05); 0: nothing asserts it

  static constexpr std::int64_t kHiddenSizes[] = {2048, 2560, 4096, 5120, 6144, 7168, 8192};
};

struct StaticCapInputs {
  StaticCapBackend backend = StaticCapBackend::deepep;
  DeepEpMode deepep_mode = DeepEpMode::automatic;    // read for deepep
  std::optional<std::int64_t> default_cap = {};      // the version's, where it is not the row's
  std::optional<std::string_view> env_cap;           // the row's variable as written, or nothing
  std::optional<std::int64_t> requests_per_dp_rank;  // explicit request bound; nothing: the command leaves it open
  std::optional<std::int64_t> chunk_per_dp_rank;     // resolved chunked_prefill_size, <= 0 disabled; nothing: open
  std::int64_t max_prefill_tokens = 16384;           // bounds a batch where chunking is disabled
  std::optional<std::int64_t> decode_graph_max_bs;   // in requests; 0: no decode graphs; nothing: open
  std::int64_t num_tokens_per_request = 1;           // speculative width of a decode step
  std::int64_t attn_tp_size = 1;                     // a replica's tokens are scattered over these ranks
  bool two_batch_overlap = false;
  bool decode_only = false;                 // --disaggregation-mode decode
  bool prefill_only = false;                // --disaggregation-mode prefill
  bool memory_bounds_requests = false;      // the stated bound is above what SGLang is sure to have memory for
  DeepEpLimits deepep;                      // read for deepep
  std::optional<std::int64_t> num_experts;  // routed
  std::optional<std::int64_t> top_k;
  std::optional<std::int64_t> hidden_size;
  std::int64_t num_redundant_experts = 0;   // --ep-num-redundant-experts
  std::int64_t ep_size = 1;
};

enum class StaticCapOutcome : std::uint8_t {
  fits,
  exceeds,        // explicit flags admit a batch above the cap
  beyond_memory,  // only a request bound does that no memory may hold: `message` states where it begins
  open,           // depends on something that the command leaves open: `message` states the threshold
  refused,        // the engine would not start
};

struct StaticCapItem {
  Phase phase = Phase::start;
  StaticCapOutcome outcome = StaticCapOutcome::fits;
  std::optional<std::int64_t> tokens_per_rank;  // what one rank may have to dispatch
  std::int64_t cap = 0;                         // what it is held against
  std::string message;                          // one line, with both numbers
  std::string fix;                              // what to change; empty where it fits
};

// The cap as the environment variable gives it.
std::int64_t static_cap(const StaticCapInputs& inputs);

// Whether the cap bounds this phase: deepep's normal mode learns its layout at run time and has no bound.
bool is_bounded(const StaticCapInputs& inputs, Phase phase);

// Tokens that one rank dispatches for a replica's `requests` (decode, verify) or `tokens` (prefill).
std::int64_t decode_tokens_per_rank(const StaticCapInputs& inputs, std::int64_t requests);
std::int64_t prefill_tokens_per_rank(const StaticCapInputs& inputs, std::int64_t tokens);
// The most requests of a replica whose tokens fit the cap.
std::int64_t safe_requests(const StaticCapInputs& inputs);

// Everything there is to say, start-up refusals first; phases that the worker never runs, or that have no bound, are
// left out. Expects attn_tp_size, num_tokens_per_request and ep_size >= 1.
std::vector<StaticCapItem> check_static_cap(const StaticCapInputs& inputs);

}  // namespace a2asim
