// What the kernels found, in words: who waits for whom, which ranks disagree, which expert id is out of range.
#include <algorithm>
#include <string>

#include "gpu/cuda_alltoall.h"

namespace a2asim::gpu {
namespace {

std::string number(std::int64_t value) { return std::to_string(value); }

// The first field in which two ranks differ, in words.
std::string difference(int rank, const GuardRecord& own, int peer, const GuardRecord& theirs) {
  struct Field {
    std::string name;
    std::int64_t own, theirs;
  };
  std::vector<Field> fields = {
      {"runtime_max_tokens_per_rank", own.runtime_max_tokens_per_rank, theirs.runtime_max_tokens_per_rank},
      {"max_num_tokens", own.max_num_tokens, theirs.max_num_tokens},
      {"combine bytes per token", own.combine_bytes_per_token, theirs.combine_bytes_per_token}};
  for (int p = 0; p < kMaxPayloads; ++p) {
    fields.push_back(
        {"bytes per token of payload " + number(p), own.payload_bytes_per_token[p], theirs.payload_bytes_per_token[p]});
  }
  for (const Field& field : fields) {
    if (field.own == field.theirs) continue;
    return "rank " + number(rank) + " has " + field.name + " " + number(field.own) + ", rank " + number(peer) +
           " has " + number(field.theirs);
  }
  return "";
}

GuardRecord record_of(const RankArgs& rank) {
  GuardRecord record;
  record.runtime_max_tokens_per_rank = rank.runtime_max_tokens_per_rank;
  record.max_num_tokens = rank.max_num_tokens;
  record.combine_bytes_per_token = rank.combine_bytes_per_token;
  for (int p = 0; p < rank.num_payloads; ++p) record.payload_bytes_per_token[p] = rank.payloads[p].bytes_per_token;
  return record;
}

}  // namespace

Result<void> CudaAllToAll::report(Device& device) {
  DeviceState state;
  const int read = cudaMemcpy(&state, device.state.get(), sizeof(state), cudaMemcpyDeviceToHost);
  if (auto ok = cuda_result(read, "reading the device state"); !ok) return ok;
  const bool timed_out =
      std::any_of(std::begin(state.missing), std::end(state.missing), [](auto mask) { return mask != 0; });
  const bool bad_expert = state.bad_expert != kNoBadExpert;
  if (!timed_out && !bad_expert && state.peer_refused == 0 && state.guard_mismatch == 0) return {};
  if (timed_out) phase_ = Phase::broken;
  Error error = timed_out    ? timeout_error(device, state)
                : bad_expert ? bad_expert_error(device, state)
                : state.guard_mismatch != 0
                    ? guard_error(device, state)
                    : Error{ErrorKind::runtime_error, "a peer found its own input unusable and sent nothing"};
  const DeviceState clean;
  const int cleared = cudaMemcpy(device.state.get(), &clean, sizeof(clean), cudaMemcpyHostToDevice);
  if (auto ok = cuda_result(cleared, "clearing the device state"); !ok) return ok;
  return tl::unexpected(std::move(error));
}

Error CudaAllToAll::timeout_error(const Device& device, const DeviceState& state) const {
  std::string who;
  for (const std::size_t local : device.local) {
    const int rank = local_ranks_[local];
    const std::uint64_t missing = state.missing[rank];
    if (missing == 0) continue;
    const WorkspaceLayout at = config_of(local).layout();
    std::vector<std::int32_t> control(static_cast<std::size_t>(at.topk_target_ranks / 4));
    if (auto ok = slices_.use_device_of(rank); !ok) return ok.error();
    const auto read = cudaMemcpy(control.data(), slices_.slice(rank), control.size() * 4, cudaMemcpyDefault);
    if (auto ok = cuda_result(read, "reading flags"); !ok) return ok.error();
    const auto word = [&](std::int64_t offset, int index) {
      return number(control[static_cast<std::size_t>(offset / 4 + index)]);
    };
    for (int peer = 0; peer < static_cast<int>(configs_.size()); ++peer) {
      if ((missing >> peer & 1) == 0) continue;
      const std::int64_t flags = state.in_combine != 0 ? at.combine_completion_flags : at.dispatch_completion_flags;
      who += (who.empty() ? "rank " : "; rank ") + number(rank) + " waits for rank " + number(peer) + " (flag is " +
             word(flags, peer) + ", expected " + word(at.flag_val, 0) + ")";
    }
  }
  return {ErrorKind::runtime_error, std::string(state.in_combine != 0 ? "combine" : "dispatch") + " timed out after " +
                                        number(timeout_.count()) + " ms: " + who};
}

Error CudaAllToAll::guard_error(const Device& device, const DeviceState& state) const {
  const std::string rule = "; every rank must use the same value (geometry guard)";
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
        const std::string found = difference(rank, record_of(own), peer, theirs);
        if (!found.empty()) return {ErrorKind::runtime_error, (in_combine ? "combine: " : "dispatch: ") + found + rule};
      }
    }
  }
  return {ErrorKind::runtime_error, "the geometry guard fired, but the ranks' records agree by now"};
}

Error CudaAllToAll::bad_expert_error(const Device& device, const DeviceState& state) const {
  const int rank = static_cast<int>(state.bad_expert >> 48);
  const auto token = static_cast<std::int64_t>(state.bad_expert >> 8 & ((std::uint64_t{1} << 40) - 1));
  const auto position = static_cast<std::int64_t>(state.bad_expert & 0xff);
  std::int32_t expert = 0;
  for (const std::size_t local : device.local) {
    if (local_ranks_[local] != rank) continue;
    const std::int32_t* ids = staging_[local].at.token_selected_experts + token * config_of(local).top_k + position;
    if (auto ok = cuda_result(cudaMemcpy(&expert, ids, sizeof(expert), cudaMemcpyDefault), "reading an id"); !ok) {
      return ok.error();
    }
  }
  return {ErrorKind::runtime_error, "rank " + number(rank) + ": expert id " + number(expert) + " of token " +
                                        number(token) + ", position " + number(position) + ", is not in 0.." +
                                        number(configs_[static_cast<std::size_t>(rank)].num_experts - 1)};
}

}  // namespace a2asim::gpu
