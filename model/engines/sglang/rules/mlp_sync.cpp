#include "model/engines/sglang/rules/mlp_sync.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/base/check_invariant.h"

namespace a2asim {
namespace {

bool extends(const std::optional<LocalBatch>& batch) {
  return batch && (batch->forward_mode == ForwardMode::extend || batch->forward_mode == ForwardMode::mixed);
}

bool decode_graph_vote(const MlpSyncInputs& in, const std::optional<LocalBatch>& batch) {
  if (in.disable_cuda_graph) return false;
  return !batch || is_decode_or_idle(batch->forward_mode) || batch->forward_mode == ForwardMode::prebuilt;
}

// On skip with the gather predicate true the gathered list was never made, and None is what the batch gets.
TokenList token_list_of(const MlpSyncInputs& in) {
  if (!in.require_mlp_tp_gather) return TokenList::local;
  return in.skip_all_gather ? TokenList::none : TokenList::global;
}

MLPSyncBatchInfo sync_info(const MlpSyncRules& rules, const MlpSyncInputs& in, const std::optional<LocalBatch>& batch) {
  return {.num_tokens = num_tokens(batch),
          .num_tokens_for_logprob = num_tokens_for_logprob(batch),
          .can_cuda_graph = decode_graph_vote(in, batch),
          .is_extend_in_batch = batch && is_extend(batch->forward_mode),
          .local_can_run_tbo = false,
          .local_forward_mode = batch ? batch->forward_mode : ForwardMode::idle,
          .can_run_breakable_cuda_graph = rules.prefill_graph_vote != nullptr && rules.prefill_graph_vote(in, batch)};
}

MlpSyncResult finish(const MlpSyncRules& rules, const MlpSyncInputs& in, const std::optional<LocalBatch>& batch,
                     const MLPSyncBatchInfo& own, const MlpSyncTotals& totals, std::int64_t dp_size) {
  const bool skip = skips_all_gather(rules, in, dp_size);
  const bool needs_idle_batch =
      skip ? rules.needs_idle_batch_on_skip_alone || (dp_size > 1 && !in.dwdp) : totals.max_num_tokens > 0;
  MlpSyncResult result;
  result.idle_batch_created = needs_idle_batch && (!batch || batch->forward_mode == ForwardMode::prebuilt);
  result.has_batch = batch.has_value() || result.idle_batch_created;
  result.has_gathered_batch = result.has_batch;
  if (!result.has_batch) return result;
  result.forward_mode = batch ? batch->forward_mode : ForwardMode::idle;
  // The scheduler itself sets the flag of its own batch; a fresh idle batch has none until the exchange writes it.
  if (!result.idle_batch_created) result.is_extend_in_batch = own.is_extend_in_batch;
  if (rules.updates_only_with_idle_need && !needs_idle_batch) return result;

  result.token_list = token_list_of(in);
  if (!skip) result.is_extend_in_batch = totals.is_extend_in_batch;
  result.can_run_dp_cuda_graph = skip ? own.can_cuda_graph : totals.can_cuda_graph;
  if (rules.prefill_graph_vote != nullptr)
    result.can_run_dp_breakable_cuda_graph =
        skip ? own.can_run_breakable_cuda_graph : totals.can_run_breakable_cuda_graph;
  return result;
}

}  // namespace

MlpSyncRow to_row(const MLPSyncBatchInfo& info) {
  return {info.num_tokens,
          info.num_tokens_for_logprob,
          info.can_cuda_graph ? 1 : 0,
          info.is_extend_in_batch ? 1 : 0,
          info.local_can_run_tbo ? 1 : 0,
          static_cast<std::int64_t>(info.local_forward_mode),
          info.can_run_breakable_cuda_graph ? 1 : 0};
}

Result<MLPSyncBatchInfo> from_row(std::span<const std::int64_t, kMlpSyncRowWidth> row) {
  if (row[5] < 0 || row[5] > static_cast<std::int64_t>(ForwardMode::prebuilt))
    return fail(ErrorKind::bad_input, fmt::format("sync row: {} is no forward mode", row[5]));
  return MLPSyncBatchInfo{.num_tokens = row[0],
                          .num_tokens_for_logprob = row[1],
                          .can_cuda_graph = row[2] != 0,
                          .is_extend_in_batch = row[3] != 0,
                          .local_can_run_tbo = row[4] != 0,
                          .local_forward_mode = static_cast<ForwardMode>(row[5]),
                          .can_run_breakable_cuda_graph = row[6] != 0};
}

bool prefill_graph_vote_pr27945(const MlpSyncInputs& in, const std::optional<LocalBatch>& batch) {
  return extends(batch) && !in.disable_cuda_graph;
}

bool prefill_graph_vote_main20260823(const MlpSyncInputs& in, const std::optional<LocalBatch>& batch) {
  if (!batch || batch->forward_mode == ForwardMode::idle) return true;
  return extends(batch) && in.prefill_backend_is_breakable;
}

Result<void> check_local_batch(const std::optional<LocalBatch>& batch) {
  if (!batch || batch->return_logprob || num_tokens(batch) == 0 || batch->forward_mode == ForwardMode::decode)
    return {};
  if (batch->extend_num_tokens_for_logprob == batch->batch_size) return {};
  return fail(ErrorKind::assertion_error,
              fmt::format("{} tokens for log probabilities in a batch of {} requests that return none",
                          batch->extend_num_tokens_for_logprob, batch->batch_size));
}

MLPSyncBatchInfo local_sync_info(const MlpSyncRules& rules, const MlpSyncInputs& in,
                                 const std::optional<LocalBatch>& batch) {
  return sync_info(rules, in, batch);
}

MlpSyncTotals gather_sync_info(std::span<const MLPSyncBatchInfo> infos, std::span<std::int64_t> global_num_tokens,
                               std::span<std::int64_t> global_num_tokens_for_logprob) {
  A2ASIM_INVARIANT(global_num_tokens.size() == infos.size() && global_num_tokens_for_logprob.size() == infos.size(),
                   "one count a rank");
  MlpSyncTotals totals;
  for (std::size_t i = 0; i < infos.size(); ++i) {
    const MLPSyncBatchInfo& info = infos[i];
    global_num_tokens[i] = info.num_tokens;
    global_num_tokens_for_logprob[i] = info.num_tokens_for_logprob;
    totals.max_num_tokens = std::max(totals.max_num_tokens, info.num_tokens);
    totals.can_cuda_graph &= info.can_cuda_graph;
    totals.can_run_breakable_cuda_graph &= info.can_run_breakable_cuda_graph;
    totals.is_extend_in_batch |= info.is_extend_in_batch;
  }
  return totals;
}

MlpSyncResult finish_sync(const MlpSyncRules& rules, const MlpSyncInputs& in, const std::optional<LocalBatch>& batch,
                          const MLPSyncBatchInfo& own, const MlpSyncTotals& totals, std::int64_t dp_size) {
  return finish(rules, in, batch, own, totals, dp_size);
}

void mlp_sync(const MlpSyncRules& rules, const MlpSyncInputs& in,
              std::span<const std::optional<LocalBatch>> local_batches, const MlpSyncWorld& world) {
  A2ASIM_INVARIANT(world.infos.size() == local_batches.size() && world.results.size() == local_batches.size(),
                   "one entry a DP rank");
  for (std::size_t i = 0; i < local_batches.size(); ++i) world.infos[i] = sync_info(rules, in, local_batches[i]);
  const MlpSyncTotals totals =
      gather_sync_info(world.infos, world.global_num_tokens, world.global_num_tokens_for_logprob);
  const auto dp_size = static_cast<std::int64_t>(local_batches.size());
  for (std::size_t i = 0; i < local_batches.size(); ++i)
    world.results[i] = finish(rules, in, local_batches[i], world.infos[i], totals, dp_size);
}

}  // namespace a2asim
