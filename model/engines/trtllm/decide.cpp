#include "model/engines/trtllm/decide.h"

#include <algorithm>

#include "model/base/check_invariant.h"
#include "model/flashinfer/capacity.h"

namespace a2asim::trtllm {
namespace {

bool works(const RankBatch& batch) { return batch.count > 0 && batch.mode != ForwardMode::idle; }

bool takes_graphs(const RankBatch& batch) { return !works(batch) || is_cuda_graph(batch.mode); }

const RankFault* fault_of(std::span<const RankFault> faults, std::size_t rank) {
  return faults.empty() ? nullptr : &faults[rank];
}

}  // namespace

// The tokens that each rank brings. One without work has a padding request.
void TrtllmDecider::count(std::span<const RankBatch> batches, std::span<const RankFault> faults) {
  const std::int64_t width = 1 + part_.draft_tokens;
  const bool any_prefill =
      std::ranges::any_of(batches, [](const RankBatch& batch) { return works(batch) && !is_cuda_graph(batch.mode); });
  const bool any_work = std::ranges::any_of(batches, works);
  counts_.clear();
  for (std::size_t rank = 0; rank < batches.size(); ++rank) {
    const RankBatch& batch = batches[rank];
    const RankFault* fault = fault_of(faults, rank);
    const bool leaves_zero = fault != nullptr && fault->mode == ForwardMode::idle;  // its padding request is refused
    if (works(batch))
      counts_.push_back(is_cuda_graph(batch.mode) ? batch.count * width : batch.count);
    else if (!any_work || leaves_zero)
      counts_.push_back(0);
    else
      counts_.push_back(any_prefill && part_.generation().context_dummy ? part_.max_num_tokens : width);
  }
}

void TrtllmDecider::list_of_rank(std::size_t rank, std::span<const RankFault> faults,
                                 std::span<const std::int64_t> before) {
  const RankFault* fault = fault_of(faults, rank);
  if (fault == nullptr) return;
  Counts& list = lists_[rank];
  if (fault->stale_counts && !before.empty()) list.assign(before.begin(), before.end());
  if (fault->skip_all_gather) list = {counts_[rank]};
  for (const CorruptCount& count : fault->corrupt_counts)
    if (count.source < std::ssize(list))
      list[static_cast<std::size_t>(count.source)] = std::max<std::int64_t>(count.value, 0);
}

std::vector<GraphChoiceOfRank> TrtllmDecider::graphs(std::span<const RankBatch> batches, GraphChoice graph) const {
  Sizes sizes;
  for (const RankBatch& batch : batches) sizes.push_back(works(batch) ? batch.count : 1);
  std::vector<GraphChoiceOfRank> eager(batches.size());
  if (graph == GraphChoice::eager || deployment_.capture_bs.empty()) return eager;
  GraphStep step;
  step.buckets = deployment_.capture_bs;
  step.max_batch_size = part_.max_batch_size;
  step.pads = part_.graphs_pad;
  step.batch_sizes = sizes;
  step.can_run = [&](std::size_t rank) { return takes_graphs(batches[rank]); };
  return choose_graphs(part_.generation().graphs, step);
}

StepPlan TrtllmDecider::plan(std::size_t rank) const {
  const RankSetup& setup = part_.setup(rank);
  const ChunkInputs in = part_.chunk_inputs(lists_[rank], rank);
  const ChunkRules rules = part_.is_wideep ? ChunkRules{} : part_.generation().chunks;
  if (!part_.is_wideep) {
    StepPlan out = plan_step(rules, setup.lane, in);
    const bool too_many = setup.lane == Lane::deepep_low_latency && part_.generation().low_latency_asks_own_rows;
    if (too_many)
      out.lane = out.num_chunks > 1 || counts_[rank] > in.low_latency_tokens ? Lane::all_gather : setup.lane;
    return out;
  }
  WideEpInputs wide;
  static_cast<ChunkInputs&>(wide) = in;
  wide.lane = setup.lane;
  wide.asks_own_rows = part_.generation().low_latency_asks_own_rows;
  wide.nvlink_cuts = part_.generation().wideep_nvlink_cuts;
  StepPlan out = plan_step(rules, setup.lane, in);
  const bool sends = is_alltoall(setup.lane) && wideep_sends(wide, std::min(rank, lists_[rank].size() - 1));
  out.lane = sends ? setup.lane : Lane::all_gather;
  return out;
}

void TrtllmDecider::decide_eager(std::size_t rank, RankDecision& decision) {
  const StepPlan step = plan(rank);
  const std::size_t own = std::min(rank, step.counts.size() - 1);
  decision.rows = (std::max(counts_[rank], step.counts[own]) + step.num_chunks - 1) / step.num_chunks;
  decision.real_rows = std::min(decision.real_rows, decision.rows);
  const bool patches = step.num_chunks > 1 && part_.generation().chunks.patch != ChunkRules::Patch::none;
  if (patches && !part_.is_wideep && step.counts[own] == 0)
    decision.raised = Error{ErrorKind::assertion_error, "chunk 0 shouldn't be empty"};
  SizingDecision& sizing = decision.sizing;
  if (step.lane == Lane::all_gather) {
    sizing = {0, decision.rows, false, SizingBranch::allgather_prefill};
    return;
  }
  const std::int64_t most = *std::ranges::max_element(step.counts);
  sizing = {(most + step.num_chunks - 1) / step.num_chunks, decision.rows, false, SizingBranch::max_of_list};
  if (lists_[rank].size() == 1 && counts_.size() > 1) sizing.branch = SizingBranch::local_rows;
}

std::span<const RankDecision> TrtllmDecider::decide(std::span<const RankBatch> batches, GraphChoice graph,
                                                    std::span<const RankFault> faults) {
  const auto ranks = static_cast<std::size_t>(deployment_.topology.tp_size);
  const Counts before = counts_;
  decisions_.assign(ranks, {});
  count(batches, faults);
  const bool any_work = std::ranges::any_of(counts_, [](std::int64_t count) { return count > 0; });
  if (!any_work || !part_.decides_each_step()) return decisions_;
  A2ASIM_INVARIANT(batches.size() == ranks, "with attention DP every rank has a batch of its own");
  lists_.assign(ranks, counts_);
  const std::vector<GraphChoiceOfRank> chosen = graphs(batches, graph);
  const bool any_prefill =
      std::ranges::any_of(batches, [](const RankBatch& batch) { return works(batch) && !is_cuda_graph(batch.mode); });
  const std::int64_t width = 1 + part_.draft_tokens;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    RankDecision& decision = decisions_[rank];
    const RankFault* fault = fault_of(faults, rank);
    if (fault != nullptr && fault->absent) continue;
    list_of_rank(rank, faults, before);
    decision.participates = true;
    decision.mode = works(batches[rank]) ? batches[rank].mode : ForwardMode::idle;
    decision.is_extend = any_prefill;
    decision.real_rows = works(batches[rank]) ? counts_[rank] : 0;
    decision.replay = chosen[rank].replays;
    if (fault != nullptr && fault->replay) decision.replay = *fault->replay && chosen[rank].replays;
    if (decision.replay) {
      decision.bucket = chosen[rank].batch_size;
      decision.rows = decision.bucket * width;
      decision.sizing = {decision.rows, decision.rows, false, SizingBranch::max_of_list};
      if (part_.setup(rank).lane == Lane::all_gather)
        decision.sizing = {0, decision.rows, false, SizingBranch::allgather_prefill};
    } else {
      decide_eager(rank, decision);
    }
    const bool sends = decision.sizing.branch != SizingBranch::allgather_prefill;
    if (sends && deployment_.rule) {
      RankView view;
      view.ep_size = static_cast<int>(ranks);
      view.ep_rank = static_cast<int>(rank);
      view.dp_global = std::span<const std::int64_t>(lists_[rank]);
      view.rows = decision.rows;
      view.extend = any_prefill;
      view.enable_dp_attention = true;
      view.max_num_tokens = deployment_.max_num_tokens;
      const Result<SizingDecision> own = deployment_.rule(view);
      if (own)
        decision.sizing = *own;
      else
        decision.raised = own.error();
    }
    decision.exceeds_cap = sends && decision.sizing.runtime_max_tokens_per_rank > deployment_.max_num_tokens;
  }
  return decisions_;
}

std::optional<std::span<const std::int64_t>> TrtllmDecider::dp_global(std::size_t ep_rank) const {
  if (ep_rank >= lists_.size()) return std::nullopt;
  return std::span<const std::int64_t>(lists_[ep_rank]);
}

std::vector<std::int64_t> TrtllmDecider::gather_sizes(std::size_t ep_rank) const {
  const StepPlan step = plan(ep_rank);
  const ChunkRules rules = part_.is_wideep ? ChunkRules{} : part_.generation().chunks;
  const std::int64_t least = *std::ranges::min_element(step.counts);
  const std::int64_t chunk = step.num_chunks > 1 && least < step.num_chunks ? least : 0;
  const std::size_t own = std::min(ep_rank, step.counts.size() - 1);
  return chunk_sizes(rules, step.counts, step.num_chunks, chunk, own, false);
}

std::unique_ptr<Decider> TrtllmPart::make_decider(const Deployment& deployment) const {
  return std::make_unique<TrtllmDecider>(*this, deployment);
}

}  // namespace a2asim::trtllm
