// Capture and replay: the CUDA graphs of cuda_alltoall.h.
//
// A capture keeps each rank's plan (rows and R) and records the whole sequence once. Ranks may replay different
// captures: the graph for such a mixture is recorded from each rank's own plan when it is first asked for. Nothing is
// decided at replay: a plan never changes after its capture.
#include <algorithm>
#include <string>

#include "gpu/cuda_alltoall.h"
#include "model/base/check_invariant.h"

namespace a2asim::gpu {

// Graphs hold the mask: they are recorded again, from their plans, when they are next asked for.
void CudaAllToAll::set_active_rank_mask(std::uint64_t mask) {
  A2ASIM_INVARIANT(phase_ != Phase::dispatched, "the mask changes between rounds");
  for (AllToAllConfig& config : configs_) config.active_rank_mask = mask;
  graphs_.clear();
  for (Device& device : devices_) device.local.clear();
  for (std::size_t local = 0; local < local_ranks_.size(); ++local) {
    if (is_active(local)) devices_[local_place_of(local_ranks_[local])].local.push_back(local);
  }
}

Result<void> CudaAllToAll::enqueue_sequence(std::int32_t invalid_expert_id, const ExpertPayloads& payloads) {
  A2ASIM_INVARIANT(phase_ == Phase::idle, "a sequence begins with dispatch");
  auto ok = enqueue_dispatch();
  if (ok) ok = enqueue_sanitize(invalid_expert_id);
  if (ok) ok = enqueue_experts(payloads);
  if (ok) ok = enqueue_combine();
  return ok;
}

Result<std::vector<OwnedGraphExec>> CudaAllToAll::record_graphs(const Capture& record) {
  A2ASIM_INVARIANT(record.plans.size() == local_ranks_.size(), "a capture has every local rank");
  Result<void> recorded;
  std::size_t begun = 0;
  for (const Device& device : devices_) {
    recorded = cuda_result(cudaSetDevice(device.id), "cudaSetDevice");
    const auto mode = cudaStreamCaptureModeThreadLocal;
    if (recorded) recorded = cuda_result(cudaStreamBeginCapture(device.stream.get(), mode), "beginning a capture");
    if (!recorded) break;
    ++begun;
  }
  if (recorded) recorded = enqueue_sequence(record.invalid_expert_id, record.payloads);
  // Whatever happened, what began ends: a stream that captures runs nothing. And all end before the first graph is
  // instantiated: that call is refused while a stream of this thread captures.
  std::vector<cudaGraph_t> captured(devices_.size(), nullptr);
  for (std::size_t i = 0; i < begun; ++i) {
    auto ok = cuda_result(cudaStreamEndCapture(devices_[i].stream.get(), &captured[i]), "ending a capture");
    if (!ok && recorded) recorded = ok;
  }
  std::vector<OwnedGraphExec> graphs;
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    if (captured[i] == nullptr) continue;
    cudaGraphExec_t exec = nullptr;
    if (recorded) recorded = cuda_result(cudaSetDevice(devices_[i].id), "cudaSetDevice");
    if (recorded) recorded = cuda_result(cudaGraphInstantiate(&exec, captured[i], 0), "instantiating a graph");
    cudaGraphDestroy(captured[i]);
    graphs.emplace_back(exec);
    // Its first launch would do this, and may wait for what runs; by then another device's launch may wait for this
    // one.
    if (recorded && devices_.size() > 1) {
      recorded = cuda_result(cudaGraphUpload(exec, devices_[i].stream.get()), "uploading a graph");
      if (recorded) recorded = cuda_result(cudaStreamSynchronize(devices_[i].stream.get()), "uploading a graph");
    }
  }
  if (!recorded) return tl::unexpected(recorded.error());
  return graphs;
}

Result<GraphId> CudaAllToAll::capture(std::span<const DispatchInput> inputs, std::int32_t invalid_expert_id,
                                      const ExpertPayloads& payloads) {
  const auto ok = agreed(capture_own(inputs, invalid_expert_id, payloads));
  if (!ok) return tl::unexpected(ok.error());
  return static_cast<GraphId>(captures_.size() - 1);
}

Result<void> CudaAllToAll::capture_own(std::span<const DispatchInput> inputs, std::int32_t invalid_expert_id,
                                       const ExpertPayloads& payloads) {
  if (auto ok = expect(Phase::idle, "capture"); !ok) return ok;
  auto plans = check_inputs(inputs);
  if (!plans) return tl::unexpected(plans.error());
  for (std::size_t local = 0; local < plans->size(); ++local) {
    if (!is_active(local)) continue;
    if (auto ok = reserve_staging(local, (*plans)[local].num_tokens); !ok) return ok;
  }
  Capture record{*plans, invalid_expert_id, payloads};
  plans_ = *plans;
  auto graphs = record_graphs(record);
  if (!graphs) return tl::unexpected(graphs.error());
  const auto id = static_cast<GraphId>(captures_.size());
  A2ASIM_INVARIANT(graphs->size() == devices_.size(), "every device has its graph");
  captures_.push_back(std::move(record));
  graphs_[std::vector<GraphId>(local_ranks_.size(), id)] = std::move(*graphs);
  return {};
}

Result<void> CudaAllToAll::prepare_graphs(const std::vector<GraphId>& ids, const Capture& record) {
  A2ASIM_INVARIANT(ids.size() == local_ranks_.size(), "every local rank names a graph");
  if (graphs_.contains(ids)) return {};
  auto graphs = record_graphs(record);
  if (!graphs) return tl::unexpected(graphs.error());
  graphs_[ids] = std::move(*graphs);
  return {};
}

Result<void> CudaAllToAll::launch_graphs(const std::vector<GraphId>& ids) {
  A2ASIM_INVARIANT(graphs_.contains(ids) && graphs_[ids].size() == devices_.size(),
                   "graphs are prepared before they run");
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    if (auto ok = cuda_result(cudaSetDevice(devices_[i].id), "cudaSetDevice"); !ok) return ok;
    const int code = cudaGraphLaunch(graphs_[ids][i].get(), devices_[i].stream.get());
    if (auto ok = cuda_result(code, "launching a graph"); !ok) return ok;
  }
  return {};
}

// What each rank runs: its capture's plan with new contents, or for kEager its input's own.
Result<std::vector<RankPlan>> CudaAllToAll::replay_plans(std::span<const GraphId> graphs,
                                                         std::span<const DispatchInput> inputs) const {
  if (graphs.size() != local_ranks_.size() || inputs.size() != local_ranks_.size()) {
    return fail(ErrorKind::bad_input, "replay needs one graph and one input for each local rank");
  }
  std::vector<DispatchInput> as_baked(inputs.begin(), inputs.end());
  A2ASIM_INVARIANT(captures_.empty() || captures_.back().plans.size() == inputs.size(),
                   "a capture has every local rank");
  for (std::size_t local = 0; local < graphs.size(); ++local) {
    if (graphs[local] == kEager) continue;
    if (graphs[local] < 0 || graphs[local] >= static_cast<GraphId>(captures_.size())) {
      return fail(ErrorKind::bad_input, "rank " + std::to_string(local_ranks_[local]) + ": there is no graph " +
                                            std::to_string(graphs[local]));
    }
    if (!is_active(local)) continue;
    const RankPlan& plan = captures_[static_cast<std::size_t>(graphs[local])].plans[local];
    if (inputs[local].local_num_tokens != plan.num_tokens) {
      return fail(ErrorKind::bad_input, "rank " + std::to_string(local_ranks_[local]) + ": graph " +
                                            std::to_string(graphs[local]) + " was captured with " +
                                            std::to_string(plan.num_tokens) + " rows, replay gives " +
                                            std::to_string(inputs[local].local_num_tokens) + "; pad to the bucket");
    }
    as_baked[local].runtime_max_tokens_per_rank = plan.runtime_max_tokens_per_rank;
  }
  return check_inputs(as_baked);
}

Result<void> CudaAllToAll::replay(std::span<const GraphId> graphs, std::span<const DispatchInput> inputs,
                                  std::vector<std::vector<std::byte>>& outputs) {
  // Where no local rank replays, ranks of other processes may: these run what was captured last, with their own sizes.
  const auto captured = std::find_if(graphs.begin(), graphs.end(), [](GraphId id) { return id != kEager; });
  const bool all_captured = std::find(graphs.begin(), graphs.end(), kEager) == graphs.end();
  const std::vector<GraphId> ids(graphs.begin(), graphs.end());
  auto ok = prepare_replay(graphs, inputs);
  const bool any_captured = captured != graphs.end();
  const Capture* record = !ok            ? nullptr
                          : any_captured ? &captures_[static_cast<std::size_t>(*captured)]
                                         : &captures_.back();
  // An eager rank makes the same calls with the same constants.
  A2ASIM_INVARIANT(!ok || record != nullptr, "what is replayed was captured");
  const bool by_graph = any_captured && all_captured;
  if (ok && by_graph) ok = prepare_graphs(ids, *record);
  if (ok = agreed(ok); !ok) return ok;
  ok = by_graph ? launch_graphs(ids) : enqueue_sequence(record->invalid_expert_id, record->payloads);
  if (ok) ok = finish();
  ok = agreed(ok);
  return ok ? read_outputs(outputs) : ok;
}

Result<void> CudaAllToAll::prepare_replay(std::span<const GraphId> graphs, std::span<const DispatchInput> inputs) {
  if (auto ok = expect(Phase::idle, "replay"); !ok) return ok;
  const bool any_captured = std::any_of(graphs.begin(), graphs.end(), [](GraphId id) { return id != kEager; });
  if (captures_.empty() || (!any_captured && group_ == nullptr)) {
    return fail(ErrorKind::bad_input, "replay: no rank replays a graph; call dispatch and the rest instead");
  }
  auto plans = replay_plans(graphs, inputs);
  if (!plans) return tl::unexpected(plans.error());
  for (std::size_t local = 0; local < inputs.size(); ++local) {
    if (!is_active(local)) continue;
    if (auto ok = stage_rank(local, inputs[local]); !ok) return ok;
  }
  plans_ = std::move(*plans);
  return {};
}

}  // namespace a2asim::gpu
