#include "model/engines/vllm/decide.h"

#include <algorithm>

#include "model/engines/vllm/rules/rounds.h"

namespace a2asim::vllm {
namespace {

bool has_work(const RankBatch& batch) { return batch.mode != ForwardMode::idle && batch.count > 0; }
bool extends(ForwardMode mode) { return mode == ForwardMode::extend || mode == ForwardMode::mixed; }

}  // namespace

VllmDecider::VllmDecider(const VllmPart& vllm, const Deployment& deployment, const VllmPart* beside)
    : vllm_(vllm),
      beside_(beside),
      deployment_(deployment),
      dp_ranks_(static_cast<std::size_t>(deployment.topology.attn_dp_size)),
      ranks_per_replica_(static_cast<std::size_t>(deployment.topology.attn_tp_size * deployment.topology.attn_cp_size)),
      scheduled_(dp_ranks_),
      scheduled_v2_(dp_ranks_),
      proposals_(dp_ranks_),
      decided_(dp_ranks_),
      decided_v2_(dp_ranks_),
      counts_(dp_ranks_),
      list_(dp_ranks_),
      previous_list_(dp_ranks_),
      lists_(dp_ranks_ * dp_ranks_ * ranks_per_replica_),
      decisions_(dp_ranks_ * ranks_per_replica_) {
  for (std::size_t rank = 0; rank < (beside == nullptr ? 1 : dp_ranks_); ++rank) {
    const VllmPart& part = part_of(rank);
    const Coordination& rules = part.generation().coordination;
    candidates_.emplace_back(part.graphs, part.generation().runner_v2.rounds_up_decode_graphs);
    inputs_.push_back({rules, part.graphs, part.microbatching, part.given.args.enforce_eager});
    eager_inputs_.push_back({rules, part.graphs, part.microbatching, true});
  }
}

// A replica without work runs a dummy decode batch of one request, while any other has work.
ScheduledRank VllmDecider::scheduled(const RankBatch& batch, std::int64_t width) const {
  if (!has_work(batch)) return {true, width, 1, width, false};
  if (!extends(batch.mode)) return {false, batch.count * width, batch.count, width, false};
  const bool mixes = batch.mode == ForwardMode::mixed && batch.count > 1;
  return {false, batch.count, mixes ? 2 : 1, mixes ? batch.count - 1 : batch.count, false};
}

void VllmDecider::run_v1(bool eager) {
  const Agreement agreed =
      step_v1(std::span<const StepInputs>(eager ? eager_inputs_ : inputs_), scheduled_, proposals_, decided_);
  for (std::size_t rank = 0; rank < dp_ranks_; ++rank) list_[rank] = agreed.tokens_of(proposals_[rank]);
}

void VllmDecider::run_v2(bool eager) {
  for (std::size_t rank = 0; rank < dp_ranks_; ++rank) {
    const ScheduledRank& in = scheduled_[rank];
    const bool uniform = in.num_tokens == in.max_scheduled_tokens * in.num_reqs;
    scheduled_v2_[rank] = {in.num_reqs, in.num_tokens, uniform ? std::optional(in.max_scheduled_tokens) : std::nullopt,
                           eager};
  }
  const AgreementV2 agreed =
      step_v2(vllm_.generation().runner_v2, std::span<const Candidates>(candidates_), scheduled_v2_, decided_v2_);
  for (std::size_t rank = 0; rank < dp_ranks_; ++rank) {
    decided_[rank] = {decided_v2_[rank].mode, decided_v2_[rank].num_tokens, std::nullopt};
    list_[rank] = agreed.mode == GraphMode::none ? scheduled_[rank].num_tokens : decided_v2_[rank].num_tokens;
  }
}

std::span<const RankDecision> VllmDecider::decide(std::span<const RankBatch> batches, GraphChoice graph,
                                                  std::span<const RankFault> faults) {
  previous_list_.swap(list_);
  any_work_ = std::ranges::any_of(batches, has_work);
  any_extends_ = std::ranges::any_of(batches, [](const RankBatch& b) { return has_work(b) && extends(b.mode); });
  for (std::size_t rank = 0; rank < dp_ranks_; ++rank) {
    scheduled_[rank] = scheduled(batches[rank], part_of(rank).graphs.width);
    counts_[rank] = has_work(batches[rank]) ? scheduled_[rank].num_tokens : 0;
  }
  const bool eager = graph == GraphChoice::eager;
  vllm_.runs_v2 ? run_v2(eager) : run_v1(eager);
  for (std::size_t rank = 0; rank < decisions_.size(); ++rank)
    decide_rank(rank, batches[rank / ranks_per_replica_], faults.empty() ? nullptr : &faults[rank]);
  return decisions_;
}

std::span<std::int64_t> VllmDecider::list_of(std::size_t ep_rank, const RankFault* fault) {
  const std::span<std::int64_t> list(&lists_[ep_rank * dp_ranks_], dp_ranks_);
  const bool stale = fault != nullptr && fault->stale_counts;
  std::ranges::copy(stale ? previous_list_ : list_, list.begin());
  const std::size_t own = ep_rank / ranks_per_replica_;
  if (fault == nullptr) return list;
  if (fault->skip_all_gather) std::ranges::fill(list, scheduled_[own].num_tokens);
  for (const CorruptCount& count : fault->corrupt_counts)
    if (static_cast<std::size_t>(count.source) < dp_ranks_) list[static_cast<std::size_t>(count.source)] = count.value;
  return list;
}

void VllmDecider::decide_rank(std::size_t ep_rank, const RankBatch& batch, const RankFault* fault) {
  const std::size_t own = ep_rank / ranks_per_replica_;
  const DecidedRank& decided = decided_[own];
  const VllmPart& part = part_of(own);
  RankDecision& out = decisions_[ep_rank];
  out = RankDecision{};
  list_of(ep_rank, fault);
  if (!any_work_ || (fault != nullptr && fault->absent)) return;
  out.participates = true;
  out.mode = has_work(batch) ? batch.mode : ForwardMode::idle;
  out.is_extend = any_extends_;
  std::int64_t real = has_work(batch) ? scheduled_[own].num_tokens : 0;
  if (fault != nullptr && fault->mode) {
    out.mode = *fault->mode;
    if (out.mode == ForwardMode::idle) real = 0;
  }
  out.replay = decided.mode != GraphMode::none && !decided.raised;
  if (fault != nullptr && fault->replay) out.replay = *fault->replay && part.graphs.padded(decided.num_tokens) > 0;
  const std::int64_t tokens =
      out.replay && decided.mode == GraphMode::none ? part.graphs.padded(decided.num_tokens) : decided.num_tokens;
  out.bucket = out.replay ? ceil_div(tokens, part.graphs.width) : 0;
  out.rows = ceil_div(tokens, part.sp);
  const auto place = static_cast<std::int64_t>(ep_rank % ranks_per_replica_);
  out.real_rows =
      part.sp > 1 ? std::clamp<std::int64_t>(real - place * out.rows, 0, out.rows) : std::min(real, out.rows);
  out.raised = decided.raised;
  size(ep_rank, out);
}

// What dispatch is told. A graph holds the number that it was captured with.
void VllmDecider::size(std::size_t ep_rank, RankDecision& out) {
  const std::span<const std::int64_t> list(&lists_[ep_rank * dp_ranks_], dp_ranks_);
  const VllmPart& part = part_of(ep_rank / ranks_per_replica_);
  out.sizing.branch = SizingBranch::max_of_list;
  out.sizing.dispatched_rows = out.rows;
  const std::int64_t agreed = ceil_div(std::max<std::int64_t>(*std::ranges::max_element(list), 1), part.sp);
  // A graph holds the number that it was captured with. Where buffers have a fixed size, only how many rounds it runs.
  const std::int64_t round = part.buffer.is_chunked ? part.buffer.tokens : 0;
  const bool as_many_rounds = round > 0 && num_rounds(out.rows, 1, round) == num_rounds(agreed, 1, round);
  out.sizing.runtime_max_tokens_per_rank = out.replay && !as_many_rounds ? out.rows : agreed;
  if (deployment_.rule && !out.raised) {
    RankView view;
    view.ep_size = static_cast<int>(decisions_.size());
    view.ep_rank = static_cast<int>(ep_rank);
    view.dp_global = list;
    view.rows = out.rows;
    view.extend = any_extends_;
    view.attn_tp_size = static_cast<int>(deployment_.topology.attn_tp_size);
    view.max_num_tokens = deployment_.max_num_tokens;
    const Result<SizingDecision> sized = deployment_.rule(view);
    if (sized)
      out.sizing = *sized;
    else
      out.raised = sized.error();
  }
  out.exceeds_cap = out.sizing.runtime_max_tokens_per_rank > deployment_.max_num_tokens;
}

std::optional<std::span<const std::int64_t>> VllmDecider::dp_global(std::size_t ep_rank) const {
  return std::span<const std::int64_t>(&lists_[ep_rank * dp_ranks_], dp_ranks_);
}

std::vector<std::int64_t> VllmDecider::gather_sizes(std::size_t) const { return {}; }

std::unique_ptr<Decider> VllmPart::make_decider(const Deployment& deployment) const {
  return std::make_unique<VllmDecider>(*this, deployment);
}

std::unique_ptr<Decider> VllmPart::decider_beside(const Deployment& own, const Deployment& other) const {
  const VllmPart& beside = vllm_part(other);
  if (beside.runs_v2 != runs_v2) return nullptr;
  return std::make_unique<VllmDecider>(*this, own, &beside);
}

}  // namespace a2asim::vllm
