#include "gpu/replicated_alltoall.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string>

#include "model/base/check_invariant.h"

namespace a2asim::gpu {
namespace {

std::string as_text(const std::vector<std::byte>& bytes) {
  return std::string(reinterpret_cast<const char*>(bytes.data()), bytes.size());
}

std::vector<std::byte> as_bytes(const std::string& text) {
  std::vector<std::byte> bytes(text.size());
  if (!text.empty()) std::memcpy(bytes.data(), text.data(), text.size());
  return bytes;
}

}  // namespace

Result<std::unique_ptr<ReplicatedAllToAll>> ReplicatedAllToAll::create(std::span<const AllToAllConfig> configs,
                                                                       const CudaOptions& options) {
  auto own = CudaAllToAll::create(configs, options);
  if (!own) return tl::unexpected(own.error());
  std::unique_ptr<ReplicatedAllToAll> made(new ReplicatedAllToAll);
  A2ASIM_INVARIANT(options.group != nullptr && !configs.empty(), "several processes, one configuration at least");
  made->group_ = options.group;
  made->own_ = std::move(*own);
  made->ranks_ = options.local_ranks;
  if (made->ranks_.empty()) {
    made->ranks_.resize(static_cast<std::size_t>(configs[0].ep_size));
    std::iota(made->ranks_.begin(), made->ranks_.end(), 0);
  }
  return made;
}

template <class T>
Result<std::vector<T>> ReplicatedAllToAll::pick(std::span<const T> all) const {
  if (all.size() != ranks_.size()) {
    return fail(ErrorKind::bad_input, std::to_string(all.size()) + " entries for " + std::to_string(ranks_.size()) +
                                          " ranks; give one for each");
  }
  std::vector<T> mine;
  for (const int rank : own_->local_ranks()) {
    const auto at = std::find(ranks_.begin(), ranks_.end(), rank) - ranks_.begin();
    A2ASIM_INVARIANT(at < std::ssize(ranks_), "who is driven here is driven");
    mine.push_back(all[static_cast<std::size_t>(at)]);
  }
  return mine;
}

Result<void> ReplicatedAllToAll::dispatch(std::span<const DispatchInput> inputs) {
  const auto mine = pick(inputs);
  if (!mine) return tl::unexpected(mine.error());
  runtime_max_.clear();
  for (const DispatchInput& input : inputs) runtime_max_.push_back(input.runtime_max_tokens_per_rank);
  return own_->dispatch(*mine);
}

SliceView ReplicatedAllToAll::slice_view(int rank) const {
  SliceView view = own_->slice_view(rank);
  const auto at = std::find(ranks_.begin(), ranks_.end(), rank) - ranks_.begin();
  view.runtime_max = at < std::ssize(runtime_max_) ? runtime_max_[static_cast<std::size_t>(at)] : 0;
  return view;
}

Result<void> ReplicatedAllToAll::give_results(int rank, std::span<const std::byte> rows) {
  A2ASIM_INVARIANT(group_ != nullptr, "processes agree in a group");
  return group_->agree(own_->is_home_of(rank) ? own_->give_results(rank, rows) : Result<void>());
}

Result<void> ReplicatedAllToAll::sanitize(std::int32_t invalid_expert_id) {
  A2ASIM_INVARIANT(group_ != nullptr, "processes agree in a group");
  return group_->agree(own_->sanitize(invalid_expert_id));
}

Result<void> ReplicatedAllToAll::experts(const ExpertPayloads& payloads) {
  A2ASIM_INVARIANT(group_ != nullptr, "processes agree in a group");
  return group_->agree(own_->experts(payloads));
}

// One exchange a driven rank: the process that has it gives its bytes.
Result<void> ReplicatedAllToAll::gather_outputs(std::vector<std::vector<std::byte>>& own,
                                                std::vector<std::vector<std::byte>>& outputs) const {
  A2ASIM_INVARIANT(own.size() == own_->local_ranks().size(), "every local rank has an output");
  outputs.clear();
  for (const int rank : ranks_) {
    const auto local = own_->local_ranks();
    const auto at = std::find(local.begin(), local.end(), rank);
    const auto all =
        group_->all_gather(at == local.end() ? "" : as_text(own[static_cast<std::size_t>(at - local.begin())]));
    if (!all) return tl::unexpected(all.error());
    std::string joined;
    for (const std::string& one : *all) joined += one;
    outputs.push_back(as_bytes(joined));
  }
  return {};
}

Result<void> ReplicatedAllToAll::combine(std::span<const std::int64_t> runtime_max_tokens_per_rank,
                                         std::vector<std::vector<std::byte>>& outputs) {
  const auto mine = pick(runtime_max_tokens_per_rank);
  if (!mine) return tl::unexpected(mine.error());
  std::vector<std::vector<std::byte>> own;
  if (auto ok = group_->agree(own_->combine(*mine, own)); !ok) return ok;
  return gather_outputs(own, outputs);
}

Result<GraphId> ReplicatedAllToAll::capture(std::span<const DispatchInput> inputs, std::int32_t invalid_expert_id,
                                            const ExpertPayloads& payloads) {
  const auto mine = pick(inputs);
  if (!mine) return tl::unexpected(mine.error());
  return own_->capture(*mine, invalid_expert_id, payloads);
}

Result<void> ReplicatedAllToAll::replay(std::span<const GraphId> graphs, std::span<const DispatchInput> inputs,
                                        std::vector<std::vector<std::byte>>& outputs) {
  const auto mine = pick(inputs);
  const auto ids = pick(graphs);
  if (!mine || !ids) return tl::unexpected(mine ? ids.error() : mine.error());
  std::vector<std::vector<std::byte>> own;
  if (auto ok = group_->agree(own_->replay(*ids, *mine, own)); !ok) return ok;
  return gather_outputs(own, outputs);
}

Result<std::vector<std::byte>> ReplicatedAllToAll::read_slice(int rank) {
  Result<std::vector<std::byte>> own;
  const bool exists = rank >= 0 && rank < own_->world_size();
  if (!exists || own_->is_home_of(rank)) own = own_->read_slice(rank);
  const auto read = group_->agree(own ? Result<void>() : Result<void>(tl::unexpected(own.error())));
  if (!read) return tl::unexpected(read.error());
  const auto all = group_->all_gather(as_text(*own));
  if (!all) return tl::unexpected(all.error());
  std::string joined;
  for (const std::string& one : *all) joined += one;
  return as_bytes(joined);
}

}  // namespace a2asim::gpu
