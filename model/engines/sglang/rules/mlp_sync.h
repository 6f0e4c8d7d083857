// The scheduler's sync: the all-gather of counts, the collapse, votes, idle batches.
//
// SGLang: prepare_mlp_sync_batch_raw and MLPSyncBatchInfo (scheduler_dp_attn_mixin.py, later
// scheduler_components/dp_attn.py). It runs once per scheduler iteration on every rank when require_mlp_sync is true.
//
// Three steps, so that a simulated cluster or a real one can stand between them:
//   local_sync_info   what a DP rank sends (its row of the all-gather)
//   gather_sync_info  what everyone reads from the gathered rows: counts and votes
//   finish_sync       what a rank's batch carries afterwards
// mlp_sync does all three for a whole world without allocating.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "model/step/batch.h"
#include "model/base/result.h"

namespace a2asim {

// Equal on every rank of a healthy world.
struct MlpSyncInputs {
  bool require_mlp_tp_gather = true;
  bool skip_all_gather = false;               // SGLANG_SCHEDULER_SKIP_ALL_GATHER
  bool disable_cuda_graph = false;            // no graphs in any phase
  bool prefill_backend_is_breakable = false;  // check_cuda_graph_backend(PREFILL, BREAKABLE); main20260823 on
  bool dwdp = false;                          // ranks run independently: no idle batch on skip
};

// One rank's row. Width and order as SGLang sends it, see to_row.
struct MLPSyncBatchInfo {
  std::int64_t num_tokens = 0;
  std::int64_t num_tokens_for_logprob = 0;
  bool can_cuda_graph = false;
  bool is_extend_in_batch = false;
  bool local_can_run_tbo = false;  // always false here: two-batch overlap is not modelled
  ForwardMode local_forward_mode = ForwardMode::idle;
  bool can_run_breakable_cuda_graph = false;
  bool operator==(const MLPSyncBatchInfo&) const = default;
};

// The row that stands for a dead rank: idle, does not veto decode graphs, vetoes prefill graphs.
inline constexpr MLPSyncBatchInfo kDeadRankSyncInfo{.can_cuda_graph = true, .local_can_run_tbo = true};

// [num_tokens, num_tokens_for_logprob, can_cuda_graph, is_extend_in_batch, local_can_run_tbo, local_forward_mode,
// can_run_breakable_cuda_graph]; the forward mode is our enum's value, not SGLang's.
inline constexpr int kMlpSyncRowWidth = 7;
using MlpSyncRow = std::array<std::int64_t, kMlpSyncRowWidth>;
MlpSyncRow to_row(const MLPSyncBatchInfo& info);
// Errors: bad_input when the row's forward mode is none.
Result<MLPSyncBatchInfo> from_row(std::span<const std::int64_t, kMlpSyncRowWidth> row);

// Which token list a rank's batch carries.
enum class TokenList : std::uint8_t {
  none,    // None: nothing was written, or skip with the gather predicate true
  local,   // [own count]: the collapse, or skip
  global,  // every rank's count
};

// What one rank has after the sync. An empty optional is Python's None, which counts as false.
struct MlpSyncResult {
  bool has_batch = false;           // false: None is returned, the rank does nothing in this step
  bool idle_batch_created = false;  // for a rank without a batch, or inside a PREBUILT one
  bool has_gathered_batch = false;  // a batch carries the fields below (the inner idle batch of a PREBUILT one)
  ForwardMode forward_mode = ForwardMode::idle;  // of the returned batch
  TokenList token_list = TokenList::none;        // of global_num_tokens and global_num_tokens_for_logprob alike
  std::optional<bool> is_extend_in_batch;
  std::optional<bool> can_run_dp_cuda_graph;
  std::optional<bool> can_run_dp_breakable_cuda_graph;  // not a field of pr14668: stays empty
  bool operator==(const MlpSyncResult&) const = default;
};

// What all ranks read from the gathered rows.
struct MlpSyncTotals {
  std::int64_t max_num_tokens = 0;
  bool can_cuda_graph = true;                // min of the votes: one prefilling rank vetoes everyone
  bool can_run_breakable_cuda_graph = true;  // min
  bool is_extend_in_batch = false;           // max: one prefilling rank makes all "extend"
};

// A version of the sync. The functions that differ are named, the rest is shared.
struct MlpSyncRules {
  bool (*prefill_graph_vote)(const MlpSyncInputs&, const std::optional<LocalBatch>&);  // nullptr: no such vote
  bool needs_idle_batch_on_skip_alone;  // on skip: true = also with dp_size 1; false = dp_size > 1 and not dwdp
  bool updates_only_with_idle_need;     // the step's fields are written only if some rank has tokens (or on skip)
  bool skips_with_one_dp_rank;          // dp_size 1 exchanges nothing either, but keeps its list
};

// pr27945 .. pr30450: votes for a prefill graph when it extends and graphs are on.
bool prefill_graph_vote_pr27945(const MlpSyncInputs& in, const std::optional<LocalBatch>& batch);
// main20260823 and later: no batch and IDLE consent (also when the backend is not breakable); EXTEND and MIXED consent
// with a breakable backend.
bool prefill_graph_vote_main20260823(const MlpSyncInputs& in, const std::optional<LocalBatch>& batch);

inline constexpr MlpSyncRules kMlpSyncPr14668{nullptr, true, true, false};
inline constexpr MlpSyncRules kMlpSyncPr26643{nullptr, false, false, false};
inline constexpr MlpSyncRules kMlpSyncPr27945{prefill_graph_vote_pr27945, false, false, false};
inline constexpr MlpSyncRules kMlpSyncMain20260823{prefill_graph_vote_main20260823, false, false, true};

// Errors: assertion_error when a batch that extends wants no log probabilities and yet counts more tokens for them than
// it has requests. local_sync_info and mlp_sync rely on this having been asked once per batch.
Result<void> check_local_batch(const std::optional<LocalBatch>& batch);

MLPSyncBatchInfo local_sync_info(const MlpSyncRules& rules, const MlpSyncInputs& in,
                                 const std::optional<LocalBatch>& batch);

// infos: one a DP rank (rank 0 of each replica's attention group; the others' rows are not read).
// The counts are written to the two spans of the same length.
MlpSyncTotals gather_sync_info(std::span<const MLPSyncBatchInfo> infos, std::span<std::int64_t> global_num_tokens,
                               std::span<std::int64_t> global_num_tokens_for_logprob);

// Whether this step exchanges nothing.
constexpr bool skips_all_gather(const MlpSyncRules& rules, const MlpSyncInputs& in, std::int64_t dp_size) {
  return in.skip_all_gather || (rules.skips_with_one_dp_rank && dp_size == 1);
}

// totals is not read on skip.
MlpSyncResult finish_sync(const MlpSyncRules& rules, const MlpSyncInputs& in, const std::optional<LocalBatch>& batch,
                          const MLPSyncBatchInfo& own, const MlpSyncTotals& totals, std::int64_t dp_size);

// Where mlp_sync writes; every span holds one entry a DP rank. With TokenList::local a rank's list is the one entry
// global_num_tokens[rank], with TokenList::global the whole span.
struct MlpSyncWorld {
  std::span<MLPSyncBatchInfo> infos;
  std::span<std::int64_t> global_num_tokens;
  std::span<std::int64_t> global_num_tokens_for_logprob;
  std::span<MlpSyncResult> results;
};

// The whole step of one DP world; local_batches has one entry a DP rank. Allocates nothing.
void mlp_sync(const MlpSyncRules& rules, const MlpSyncInputs& in,
              std::span<const std::optional<LocalBatch>> local_batches, const MlpSyncWorld& world);

// The list that a rank's batch carries, as a view into the world's counts; nullopt for TokenList::none.
constexpr std::optional<std::span<const std::int64_t>> token_list(const MlpSyncResult& result, std::size_t dp_rank,
                                                                  std::span<const std::int64_t> counts) {
  if (result.token_list == TokenList::none) return std::nullopt;
  return result.token_list == TokenList::global ? counts : counts.subspan(dp_rank, 1);
}

}  // namespace a2asim
