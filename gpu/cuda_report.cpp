// What the kernels found: who waits for whom, which ranks disagree, which expert id is out of range.
#include <algorithm>
#include <optional>

#include "gpu/cuda_alltoall.h"
#include "model/alltoall/error.h"
#include "model/base/check_invariant.h"

namespace a2asim::gpu {
namespace {

// The first field in which two ranks differ.
std::optional<AllToAllError> difference(int rank, const GuardRecord& own, int peer, const GuardRecord& theirs) {
  A2ASIM_INVARIANT(rank >= 0 && peer >= 0, "ranks are compared");
  struct Field {
    AllToAllField field;
    int payload;
    std::int64_t own, theirs;
  };
  std::vector<Field> fields = {
      {AllToAllField::runtime_max, -1, own.runtime_max_tokens_per_rank, theirs.runtime_max_tokens_per_rank},
      {AllToAllField::max_num_tokens, -1, own.max_num_tokens, theirs.max_num_tokens},
      {AllToAllField::combine_bytes, -1, own.combine_bytes_per_token, theirs.combine_bytes_per_token}};
  for (int p = 0; p < kMaxPayloads; ++p)
    fields.push_back(
        {AllToAllField::payload_bytes, p, own.payload_bytes_per_token[p], theirs.payload_bytes_per_token[p]});
  for (const Field& one : fields) {
    if (one.own == one.theirs) continue;
    return AllToAllError{.kind = AllToAllErrorKind::differs,
                         .field = one.field,
                         .rank = rank,
                         .peer = peer,
                         .payload = one.payload,
                         .own = one.own,
                         .other = one.theirs};
  }
  return std::nullopt;
}

GuardRecord record_of(const RankArgs& rank) {
  A2ASIM_INVARIANT(rank.num_payloads <= kMaxPayloads, "a record has room for all payloads");
  GuardRecord record;
  record.runtime_max_tokens_per_rank = rank.runtime_max_tokens_per_rank;
  record.max_num_tokens = rank.max_num_tokens;
  record.combine_bytes_per_token = rank.combine_bytes_per_token;
  for (int p = 0; p < rank.num_payloads; ++p) record.payload_bytes_per_token[p] = rank.payloads[p].bytes_per_token;
  return record;
}

}  // namespace

Result<void> CudaAllToAll::report(Device& device) {
  A2ASIM_INVARIANT(device.state != nullptr, "a device has its state");
  DeviceState state;
  const int read = cudaMemcpy(&state, device.state.get(), sizeof(state), cudaMemcpyDeviceToHost);
  if (auto ok = cuda_result(read, "reading the device state"); !ok) return ok;
  const bool timed_out =
      std::any_of(std::begin(state.missing), std::end(state.missing), [](auto mask) { return mask != 0; });
  const bool bad_expert = state.bad_expert != kNoBadExpert;
  if (!timed_out && !bad_expert && state.peer_refused == 0 && state.guard_mismatch == 0) return {};
  if (timed_out) phase_ = Phase::broken;
  Error error = timed_out                   ? timeout_error(device, state)
                : bad_expert                ? bad_expert_error(device, state)
                : state.guard_mismatch != 0 ? guard_error(device, state)
                                            : fail({.kind = AllToAllErrorKind::peer_refused}).value();
  const DeviceState clean;
  const int cleared = cudaMemcpy(device.state.get(), &clean, sizeof(clean), cudaMemcpyHostToDevice);
  if (auto ok = cuda_result(cleared, "clearing the device state"); !ok) return ok;
  return tl::unexpected(std::move(error));
}

Error CudaAllToAll::timeout_error(const Device& device, const DeviceState& state) const {
  std::vector<AllToAllError> waits;
  for (const std::size_t local : device.local) {
    const int rank = local_ranks_[local];
    const std::uint64_t missing = state.missing[rank];
    if (missing == 0) continue;
    const WorkspaceLayout at = config_of(local).layout();
    std::vector<std::int32_t> control(static_cast<std::size_t>(at.topk_target_ranks / 4));
    A2ASIM_INVARIANT(at.topk_target_ranks <= slices_.slice_bytes(rank), "flags lie inside the slice");
    if (auto ok = slices_.use_device_of(rank); !ok) return ok.error();
    const auto read = cudaMemcpy(control.data(), slices_.slice(rank), control.size() * 4, cudaMemcpyDefault);
    if (auto ok = cuda_result(read, "reading flags"); !ok) return ok.error();
    const auto word = [&](std::int64_t offset, int index) {
      return std::int64_t{control[static_cast<std::size_t>(offset / 4 + index)]};
    };
    for (int peer = 0; peer < static_cast<int>(configs_.size()); ++peer) {
      if ((missing >> peer & 1) == 0) continue;
      const std::int64_t flags = state.in_combine != 0 ? at.combine_completion_flags : at.dispatch_completion_flags;
      waits.push_back({.kind = AllToAllErrorKind::waits,
                       .rank = rank,
                       .peer = peer,
                       .in_combine = state.in_combine != 0,
                       .own = word(flags, peer),
                       .other = word(at.flag_val, 0),
                       .timeout_ms = timeout_.count()});
    }
  }
  return to_error(waits);
}

Error CudaAllToAll::guard_error(const Device& device, const DeviceState& state) const {
  A2ASIM_INVARIANT(state.guard_mismatch != 0, "the guard fired");
  for (const std::size_t local : device.local) {
    SliceHeader header;
    const int rank = local_ranks_[local];
    if (auto ok = slices_.use_device_of(rank); !ok) return ok.error();
    const auto read = cudaMemcpy(&header, slices_.slice(rank) - sizeof(header), sizeof(header), cudaMemcpyDefault);
    if (auto ok = cuda_result(read, "reading the guard records"); !ok) return ok.error();
    for (const bool in_combine : {false, true}) {
      if (in_combine && state.in_combine == 0) continue;
      RankArgs own = rank_args(config_of(local), rank, plans_[local], staging_[local].at);
      if (in_combine) {
        own.runtime_max_tokens_per_rank = static_cast<std::int32_t>(plans_[local].combine_runtime_max_tokens_per_rank);
      }
      for (int peer = 0; peer < static_cast<int>(configs_.size()); ++peer) {
        if ((config_of(local).active_rank_mask >> peer & 1) == 0) continue;
        const GuardRecord& theirs = (in_combine ? header.combine : header.dispatch)[peer];
        auto found = difference(rank, record_of(own), peer, theirs);
        if (!found) continue;
        found->in_combine = in_combine;
        return fail(*found).value();
      }
    }
  }
  return {ErrorKind::runtime_error, "the geometry guard fired, but the ranks' records agree by now"};
}

Error CudaAllToAll::bad_expert_error(const Device& device, const DeviceState& state) const {
  const int rank = static_cast<int>(state.bad_expert >> 48);
  const auto token = static_cast<std::int64_t>(state.bad_expert >> 8 & ((std::uint64_t{1} << 40) - 1));
  const auto position = static_cast<std::int64_t>(state.bad_expert & 0xff);
  A2ASIM_INVARIANT(state.bad_expert != kNoBadExpert && rank >= 0 && rank < world_size(),
                   "an id of some rank was out of range");
  std::int32_t expert = 0;
  for (const std::size_t local : device.local) {
    if (local_ranks_[local] != rank) continue;
    const std::int32_t* ids = staging_[local].at.token_selected_experts + token * config_of(local).top_k + position;
    A2ASIM_INVARIANT(token < plans_[local].num_tokens && position < config_of(local).top_k,
                     "the id was one of the staged");
    if (auto ok = cuda_result(cudaMemcpy(&expert, ids, sizeof(expert), cudaMemcpyDefault), "reading an id"); !ok) {
      return ok.error();
    }
  }
  return fail({.kind = AllToAllErrorKind::bad_expert,
               .rank = rank,
               .token = token,
               .position = position,
               .own = expert,
               .other = configs_[static_cast<std::size_t>(rank)].num_experts - 1})
      .value();
}

}  // namespace a2asim::gpu
