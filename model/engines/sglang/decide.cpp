#include "model/engines/sglang/decide.h"

#include <algorithm>
#include <limits>

#include "model/base/check_invariant.h"
#include "model/engines/sglang/questions/asked.h"

namespace a2asim {
namespace {

bool is_decode_like(ForwardMode mode) { return mode != ForwardMode::extend && mode != ForwardMode::mixed; }

bool has_work(const RankBatch& batch) { return batch.mode != ForwardMode::idle && batch.count > 0; }

// The scheduler sees a decode batch; a speculative worker rewrites its mode only afterwards.
std::optional<LocalBatch> local_batch(const RankBatch& batch) {
  if (!has_work(batch)) return std::nullopt;
  LocalBatch local;
  if (is_decode_like(batch.mode)) {
    local.forward_mode = ForwardMode::decode;
    local.batch_size = batch.count;
  } else {
    local.forward_mode = batch.mode;
    local.batch_size = 1;
    local.extend_num_tokens = batch.count;
    local.extend_num_tokens_for_logprob = 1;
  }
  return local;
}

}  // namespace

SglangDecider::SglangDecider(const SglangPart& sglang, const Deployment& deployment)
    : sglang_(sglang),
      deployment_(deployment),
      dp_ranks_(static_cast<std::size_t>(deployment.topology.attn_dp_size)),
      ranks_per_replica_(
          static_cast<std::size_t>(deployment.topology.attn_tp_size * deployment.topology.attn_cp_size)) {
  const ServerArgs& args = sglang.args;
  sync_inputs_.require_mlp_tp_gather = sglang.require_mlp_tp_gather;
  sync_inputs_.skip_all_gather = sglang.skip_all_gather;
  sync_inputs_.disable_cuda_graph = args.disable_cuda_graph;
  sync_inputs_.dwdp = args.dwdp_size > 1;
  padding_inputs_.attn_tp_size = deployment.topology.attn_tp_size;
  padding_inputs_.cp_align_size = sglang.generation().padding.cp_padding_align_size(
      deployment.topology.attn_cp_size, args.cp_strategy.value_or("zigzag") == "zigzag");
  padding_inputs_.attn_dp_size = deployment.topology.attn_dp_size;
  padding_inputs_.force_max_len = backend_forces_max_len(args.moe_a2a_backend);
  divides_by_width_ = args.speculative_algorithm && a2asim::divides_by_width(*args.speculative_algorithm);

  outside_ = engine_of(sglang.given.rule);
  if (answers(outside_, QuestionKind::sync)) outside_lists_.resize(dp_ranks_);
  local_.resize(dp_ranks_);
  infos_.resize(dp_ranks_);
  synced_.resize(dp_ranks_);
  counts_.resize(dp_ranks_);
  previous_counts_.resize(dp_ranks_);
  logprob_counts_.resize(dp_ranks_);
  original_.resize(dp_ranks_);
  decisions_.resize(dp_ranks_ * ranks_per_replica_);
  lists_.resize(decisions_.size() * dp_ranks_);
  list_owner_.resize(decisions_.size());
  list_sizes_.resize(decisions_.size());
  if (sglang.leftover == LeftoverList::captured && !deployment.capture_bs.empty())
    leftover_.assign(dp_ranks_, deployment.capture_bs.front() * deployment.num_tokens_per_bs);
}

std::int64_t SglangDecider::width_of(ForwardMode mode, bool is_extend) const {
  return is_extend || !deployment_.speculates ? 1 : num_tokens_per_req(mode, deployment_.speculative);
}

// An idle rank goes along with its peers: it replays no graph where they draft, which nobody captured.
ForwardMode SglangDecider::mode_of_work(const RankDecision& decision) const {
  return decision.mode == ForwardMode::idle ? step_mode_ : decision.mode;
}

void SglangDecider::sync(std::span<const RankBatch> batches) {
  previous_counts_.swap(counts_);
  step_mode_ = ForwardMode::idle;
  for (std::size_t rank = 0; rank < dp_ranks_; ++rank) {
    local_[rank] = local_batch(batches[rank]);
    if (step_mode_ == ForwardMode::idle && has_work(batches[rank]) && is_decode_like(batches[rank].mode))
      step_mode_ = batches[rank].mode;
  }
  mlp_sync(sglang_.generation().sync, sync_inputs_, local_,
           MlpSyncWorld{infos_, counts_, logprob_counts_, synced_});
  if (!outside_lists_.empty()) sync_outside();
}

// The counts and the rows that a dead rank leaves stay ours; what a batch carries afterwards is what the code outside
// says.
void SglangDecider::sync_outside() {
  const Result<void> asked =
      asked::sync(*outside_, sync_inputs_, deployment_.topology.attn_tp_size, local_, synced_, outside_lists_);
  outside_error_.reset();
  if (!asked) outside_error_ = asked.error();
  outside_lists_differ_ = std::ranges::any_of(
      outside_lists_, [&](const std::vector<std::int64_t>& list) { return list != outside_lists_.front(); });
}

// Of a rank that alone skips the all-gather.
MlpSyncResult SglangDecider::synced_alone(std::size_t dp_rank) const {
  MlpSyncInputs alone = sync_inputs_;
  alone.skip_all_gather = true;
  MlpSyncResult synced = finish_sync(sglang_.generation().sync, alone, local_[dp_rank], infos_[dp_rank],
                                     MlpSyncTotals{}, static_cast<std::int64_t>(dp_ranks_));
  if (synced.token_list == TokenList::none) synced.token_list = TokenList::local;
  return synced;
}

void SglangDecider::share_list(const Part& part, std::size_t owner, std::size_t size) {
  for (std::size_t rank = part.begin; rank < part.end; ++rank) {
    list_owner_[rank] = owner;
    list_sizes_[rank] = size;
  }
}

void SglangDecider::make_list(const Part& part) {
  const std::span<std::int64_t> storage(&lists_[part.begin * dp_ranks_], dp_ranks_);
  const bool is_stale = part.fault != nullptr && part.fault->stale_counts;
  const std::vector<std::int64_t>& counts = is_stale ? previous_counts_ : counts_;
  std::size_t size = 0;
  switch (sglang_.require_mlp_sync ? part.synced.token_list : TokenList::none) {
    case TokenList::none: break;
    case TokenList::local: storage[0] = counts[part.dp_rank]; size = 1; break;
    case TokenList::global: std::copy(counts.begin(), counts.end(), storage.begin()); size = dp_ranks_; break;
  }
  if (!outside_lists_.empty() && size > 0 && !is_stale && (part.fault == nullptr || !part.fault->skip_all_gather)) {
    const std::vector<std::int64_t>& carried = outside_lists_[part.dp_rank];
    std::copy(carried.begin(), carried.end(), storage.begin());
    size = carried.size();
  }
  if (part.fault != nullptr) {
    for (const CorruptCount& count : part.fault->corrupt_counts) {
      const auto source = static_cast<std::size_t>(count.source);
      if (size == dp_ranks_ && source < size) storage[source] = count.value;
      if (size == 1 && source == part.dp_rank) storage[0] = count.value;
    }
  }
  share_list(part, part.begin, size);
}

// A fault that makes a rank idle leaves its tokens behind.
bool SglangDecider::runs_work(const Part& part, const RankDecision& decision) {
  return has_work(part.batch) && decision.mode != ForwardMode::idle;
}

std::optional<std::span<const std::int64_t>> SglangDecider::dp_global(std::size_t ep_rank) const {
  if (list_sizes_[ep_rank] > 0) return list(ep_rank);
  if (!leftover_.empty()) return std::span<const std::int64_t>(leftover_);
  return std::nullopt;
}

std::vector<std::int64_t> SglangDecider::gather_sizes(std::size_t ep_rank) const {
  RankView view = base_view(sglang_, deployment_, static_cast<int>(ep_rank));
  view.dp_global = dp_global(ep_rank);
  view.rows = decisions_[ep_rank].rows;
  return allgather_source_sizes(view);
}

// The choice of a bucket. True when the decision is complete: the ranks replay, or the test itself raised.
bool SglangDecider::decide_replay(const Part& part, RankDecision& decision) {
  const std::optional<bool> by_fault = part.fault != nullptr ? part.fault->replay : std::nullopt;
  const bool wished = by_fault == true || part.graph == GraphChoice::replay;
  const bool refused = by_fault == false || (part.graph == GraphChoice::eager && !wished);
  if (refused || deployment_.capture_bs.empty() || !is_cuda_graph(mode_of_work(decision))) return false;

  const std::span<std::int64_t> list = own_list(part);
  const std::int64_t width = width_of(mode_of_work(decision), false);
  ReplayInputs in;
  in.capture_bs = deployment_.capture_bs;
  in.require_mlp_tp_gather = sglang_.require_mlp_tp_gather;
  if (list.size() == dp_ranks_ && sglang_.require_mlp_tp_gather) {
    std::copy(list.begin(), list.end(), original_.begin());
    scale_global_num_tokens(list, width);
    in.global_num_tokens = list;
    in.original_global_num_tokens = original_;
  }
  in.batch_size = runs_work(part, decision) ? part.batch.count : 0;
  in.num_tokens_per_bs = deployment_.num_tokens_per_bs;
  in.divides_by_width = divides_by_width_;
  in.require_mlp_sync = sglang_.require_mlp_sync;
  in.can_run_dp_cuda_graph = wished || part.synced.can_run_dp_cuda_graph.value_or(false);
  Result<ReplayDecision> found = ReplayDecision{};
  if (answers(outside_, QuestionKind::bucket))
    found = asked::bucket(*outside_, in, sglang_.args.speculative_algorithm.value_or(""));
  else
    found = sglang_.generation().graphs.replay_bucket(in);
  if (!found) {
    decision.raised = std::move(found.error());
    return true;
  }
  const ReplayDecision& chosen = *found;
  if (in.global_num_tokens) std::copy(original_.begin(), original_.end(), list.begin());
  if (chosen.raised) {
    decision.raised = Error{*chosen.raised, "the CUDA-graph test has no list of token counts to take the maximum of"};
    return true;
  }
  if (!chosen.bs || !(chosen.can_run || wished)) return false;
  decision.replay = true;
  decision.bucket = *chosen.bs;
  decision.rows = decision.bucket * deployment_.num_tokens_per_bs / deployment_.topology.attn_tp_size;
  return true;
}

Result<std::int64_t> SglangDecider::pad(const Part& part, const RankDecision& decision, std::span<std::int64_t> list) {
  DpPaddingInputs in = padding_inputs_;
  in.is_extend_in_batch = decision.is_extend;
  if (!answers(outside_, QuestionKind::padding)) {
    pad_global_num_tokens(sglang_.generation().padding, in, list);
    return local_padded_num_tokens(list, part.dp_rank);
  }
  const ServerArgs& args = sglang_.args;
  const bool zigzag = args.cp_strategy.value_or("zigzag") == "zigzag";
  const asked::PaddedRank rank{static_cast<std::int64_t>(part.dp_rank), decision.mode,
                               runs_work(part, decision) ? part.batch.count : 0, 0};
  return asked::pad(*outside_, in, deployment_.topology.attn_cp_size, zigzag, args.moe_a2a_backend, rank, list);
}

void SglangDecider::decide_eager(const Part& part, RankDecision& decision) {
  const std::span<std::int64_t> list = own_list(part);
  const std::int64_t own_tokens = decision.rows;  // not padded yet
  std::int64_t padded = own_tokens;
  if (!list.empty()) {
    scale_global_num_tokens(list, width_of(mode_of_work(decision),
                                           decision.is_extend));
    Result<std::int64_t> own = pad(part, decision, list);
    if (!own) decision.raised = std::move(own.error());
    padded = own.value_or(own_tokens);
    // A rank that runs another mode than it announced has more rows than its list says: nothing pads them away.
    if (part.fault != nullptr) padded = std::max(padded, own_tokens);
  } else if (sglang_.leftover == LeftoverList::unassigned && sglang_.require_mlp_sync) {
    decision.raised = Error{ErrorKind::attribute_error, "the token list was never assigned: no all-gather, no capture"};
  }
  decision.rows = scattered_rows(padded, decision.is_extend);
}

// Rows of one rank of the replica.
std::int64_t SglangDecider::scattered_rows(std::int64_t padded_tokens, bool is_extend) const {
  const bool by_cp = is_extend && deployment_.topology.attn_cp_size > 1;
  const std::int64_t scatter = deployment_.topology.attn_tp_size * (by_cp ? deployment_.topology.attn_cp_size : 1);
  return (padded_tokens + scatter - 1) / scatter;
}

std::size_t SglangDecider::bucket_index(std::int64_t bucket) const {
  return static_cast<std::size_t>(std::ranges::lower_bound(deployment_.capture_bs, bucket) -
                                  deployment_.capture_bs.begin());
}

// A replica's tokens lie on its ranks in order.
std::int64_t SglangDecider::real_rows_of(const Part& part, std::size_t rank, std::int64_t rows,
                                   std::int64_t real_tokens) const {
  const auto place = static_cast<std::int64_t>(rank - part.dp_rank * ranks_per_replica_);
  return std::clamp<std::int64_t>(real_tokens - place * rows, 0, rows);
}

// Fills the entries of all ranks of the part, R included.
void SglangDecider::spread(const Part& part, const RankDecision& decision, std::int64_t real_tokens) {
  RankView view = base_view(sglang_, deployment_, static_cast<int>(part.begin));
  view.dp_global = dp_global(part.begin);
  view.rows = decision.rows;
  view.extend = decision.is_extend;
  const std::size_t bucket = decision.replay ? bucket_index(decision.bucket) : 0;
  for (std::size_t rank = part.begin; rank < part.end; ++rank) {
    RankDecision& out = decisions_[rank];
    if (rank > part.begin && !deployment_.rule) {  // built-in rules do not look at ep_rank
      out = decisions_[rank - 1];
    } else {
      out = decision;
      view.ep_rank = static_cast<int>(rank);
      if (decision.replay) {
        out.sizing = deployment_.baked_at(bucket, rank);
      } else if (!decision.raised) {
        if (Result<SizingDecision> sizing = size(sglang_, deployment_.rule, view)) {
          out.sizing = *sizing;
        } else {
          out.raised = std::move(sizing.error());
          // Did it raise because of the cap? Then say which R it wanted.
          view.max_num_tokens = std::numeric_limits<std::int64_t>::max();
          if (const auto wanted = sglang_.generation().sizing(view); wanted && !deployment_.rule) out.sizing = *wanted;
          view.max_num_tokens = deployment_.max_num_tokens;
        }
      }
      out.exceeds_cap = out.sizing.runtime_max_tokens_per_rank > deployment_.max_num_tokens;
    }
    out.real_rows = real_rows_of(part, rank, decision.rows, real_tokens);
  }
}

// Of ranks that have the gathered list and no fault. A rank that may not replay never asks for a bucket, and eager
// steps that extend count one token a request: then the mode is no part of the kind.
SglangDecider::Kind SglangDecider::kind_of(const Part& part, const RankDecision& decision) const {
  const bool wished = part.graph == GraphChoice::replay;
  Kind kind;
  kind.is_extend = decision.is_extend;
  kind.may_replay = part.graph != GraphChoice::eager && !deployment_.capture_bs.empty() &&
                    is_cuda_graph(mode_of_work(decision)) &&
                    (wished || part.synced.can_run_dp_cuda_graph.value_or(false));
  kind.width_tokens = width_of(mode_of_work(decision),
                               decision.is_extend && !kind.may_replay);
  return kind;
}

// Takes over what the leader worked out. False: the rule has to be asked for this part (another number of rows, or the
// leader's raised, or it is a user's own, which sees ep_rank); the list is shared all the same.
bool SglangDecider::follow(const Part& part, const RankDecision& decision, std::int64_t real_tokens) {
  const RankDecision& lead = decisions_[leader_->ep_rank];
  const std::span<const std::int64_t> counts = list(part.begin);
  const bool same_rows = lead.replay || counts[part.dp_rank] == counts[leader_->dp_rank];
  if (!lead.replay && (!same_rows || lead.raised || deployment_.rule)) return false;
  for (std::size_t rank = part.begin; rank < part.end; ++rank) {
    RankDecision& out = decisions_[rank];
    out.participates = true;
    out.replay = lead.replay;
    out.is_extend = decision.is_extend;
    out.mode = decision.mode;
    out.bucket = lead.bucket;
    out.rows = lead.rows;
    out.real_rows = real_rows_of(part, rank, lead.rows, real_tokens);
    out.sizing = lead.replay ? deployment_.baked_at(leader_->bucket_index, rank) : lead.sizing;
    out.exceeds_cap = out.sizing.runtime_max_tokens_per_rank > deployment_.max_num_tokens;
    out.raised.reset();
  }
  return true;
}

void SglangDecider::decide_part(const Part& part) {
  const RankFault* const fault = part.fault;
  RankDecision decision;
  decision.participates = (sglang_.require_mlp_sync ? part.synced.has_batch : has_work(part.batch)) &&
                          !(fault != nullptr && fault->absent);
  decision.mode = has_work(part.batch) ? part.batch.mode : ForwardMode::idle;
  if (fault != nullptr && fault->mode) decision.mode = *fault->mode;
  decision.is_extend = sglang_.require_mlp_sync ? part.synced.is_extend_in_batch.value_or(false)
                                                    : !is_decode_like(decision.mode);
  if (fault != nullptr && fault->mode && !is_decode_like(*fault->mode)) decision.is_extend = true;
  if (!decision.participates) {
    share_list(part, part.begin, 0);
    std::fill(decisions_.begin() + static_cast<std::ptrdiff_t>(part.begin),
              decisions_.begin() + static_cast<std::ptrdiff_t>(part.end), RankDecision{});
    return;
  }
  const std::int64_t real_tokens =
      runs_work(part, decision) ? part.batch.count * width_of(decision.mode, decision.is_extend) : 0;
  const bool can_share = fault == nullptr && sglang_.require_mlp_sync && !outside_lists_differ_ &&
                         part.synced.token_list == TokenList::global;
  const Kind kind = can_share ? kind_of(part, decision) : Kind{};
  if (can_share && leader_ && leader_->kind == kind) {
    share_list(part, leader_->ep_rank, dp_ranks_);
    if (follow(part, decision, real_tokens)) return;
    decision.rows = scattered_rows(local_padded_num_tokens(list(part.begin), part.dp_rank), decision.is_extend);
    spread(part, decision, real_tokens);
    return;
  }
  make_list(part);
  if (outside_error_) {
    decision.raised = outside_error_;
  } else if (!decide_replay(part, decision)) {
    decision.rows = real_tokens;
    decide_eager(part, decision);
  }
  const bool leads = can_share && !leader_ && !decision.raised;
  spread(part, decision, real_tokens);
  if (leads) leader_ = {kind, part.dp_rank, part.begin, decision.replay ? bucket_index(decision.bucket) : 0};
}

void SglangDecider::decide_replica(std::size_t dp_rank, const RankBatch& batch, GraphChoice graph,
                             std::span<const RankFault> faults) {
  const std::size_t end = (dp_rank + 1) * ranks_per_replica_;
  Part part{dp_rank, dp_rank * ranks_per_replica_, end, batch, graph, nullptr, synced_[dp_rank]};
  if (faults.empty()) return decide_part(part);
  for (; part.begin < end; part.begin = part.end) {
    part.fault = &faults[part.begin];
    part.end = part.begin + 1;
    while (part.end < end && faults[part.end] == *part.fault) ++part.end;
    part.synced = part.fault->skip_all_gather ? synced_alone(dp_rank) : synced_[dp_rank];
    decide_part(part);
  }
}

std::span<const RankDecision> SglangDecider::decide(std::span<const RankBatch> batches, GraphChoice graph,
                                              std::span<const RankFault> faults) {
  A2ASIM_INVARIANT(batches.size() == dp_ranks_, "one batch a data-parallel rank");
  A2ASIM_INVARIANT(faults.empty() || faults.size() == decisions_.size(),
                   "faults: none, or one an expert-parallel rank");
  sync(batches);
  leader_.reset();
  for (std::size_t rank = 0; rank < dp_ranks_; ++rank) decide_replica(rank, batches[rank], graph, faults);
  return decisions_;
}

std::unique_ptr<Decider> SglangPart::make_decider(const Deployment& deployment) const {
  return std::make_unique<SglangDecider>(*this, deployment);
}

}  // namespace a2asim
