// What the host reads of the slices and writes into them: outputs, experts' results, whole slices, poison.
#include <algorithm>
#include <string>

#include "gpu/cuda_alltoall.h"
#include "model/base/check_invariant.h"

namespace a2asim::gpu {

Result<void> CudaAllToAll::read_outputs(std::vector<std::vector<std::byte>>& outputs) const {
  A2ASIM_INVARIANT(plans_.size() == local_ranks_.size(), "every local rank has a plan");
  outputs.assign(local_ranks_.size(), {});
  for (std::size_t local = 0; local < local_ranks_.size(); ++local) {
    if (!is_active(local) || plans_[local].num_tokens == 0) continue;
    const std::int64_t bytes = plans_[local].num_tokens * config_of(local).combine_bytes_per_token();
    outputs[local].resize(static_cast<std::size_t>(bytes));
    A2ASIM_INVARIANT(plans_[local].num_tokens <= staging_[local].capacity_tokens, "outputs were staged");
    const int code =
        cudaMemcpy(outputs[local].data(), staging_[local].at.output, outputs[local].size(), cudaMemcpyDefault);
    if (auto ok = cuda_result(code, "reading outputs"); !ok) return ok;
  }
  return {};
}

Result<std::vector<std::byte>> CudaAllToAll::read_slice(int rank) {
  if (rank < 0 || rank >= static_cast<int>(configs_.size())) {
    return fail(ErrorKind::bad_input, "there is no rank " + std::to_string(rank));
  }
  if (auto ok = slices_.use_device_of(rank); !ok) return tl::unexpected(ok.error());
  A2ASIM_INVARIANT(slices_.slice(rank) != nullptr && slices_.slice_bytes(rank) > 0, "every rank has a slice");
  std::vector<std::byte> bytes(static_cast<std::size_t>(slices_.slice_bytes(rank)));
  const int code = cudaMemcpy(bytes.data(), slices_.slice(rank), bytes.size(), cudaMemcpyDefault);
  if (auto ok = cuda_result(code, "reading a slice"); !ok) return tl::unexpected(ok.error());
  return bytes;
}

Result<void> CudaAllToAll::poison(std::byte value) {
  if (auto ok = agreed({}); !ok) return ok;  // nobody still reads or writes
  auto ok = poison_own(value);
  return agreed(ok);
}

Result<void> CudaAllToAll::poison_own(std::byte value) {
  A2ASIM_INVARIANT(!devices_.empty(), "there is memory to fill");
  for (std::size_t rank = 0; rank < configs_.size(); ++rank) {
    if (!slices_.is_local(static_cast<int>(rank))) continue;
    const std::int64_t from = configs_[rank].layout().payload_data;
    std::byte* slice = slices_.slice(static_cast<int>(rank));
    A2ASIM_INVARIANT(slice != nullptr && from <= slices_.slice_bytes(static_cast<int>(rank)),
                     "regions lie behind the tables");
    const auto bytes = static_cast<std::size_t>(slices_.slice_bytes(static_cast<int>(rank)) - from);
    if (auto ok = cuda_result(cudaSetDevice(device_of(static_cast<int>(rank))), "cudaSetDevice"); !ok) return ok;
    if (auto ok = cuda_result(cudaMemset(slice + from, static_cast<int>(value), bytes), "poisoning"); !ok) return ok;
    if (auto ok = cuda_result(cudaDeviceSynchronize(), "poisoning"); !ok) return ok;
  }
  return {};
}

SliceView CudaAllToAll::slice_view(int rank) const {
  A2ASIM_INVARIANT(rank >= 0 && rank < world_size(), "a slice is of a rank");
  const auto local = std::find(local_ranks_.begin(), local_ranks_.end(), rank) - local_ranks_.begin();
  const bool driven = local < std::ssize(local_ranks_);
  return {&configs_[static_cast<std::size_t>(rank)],
          driven ? plans_[static_cast<std::size_t>(local)].runtime_max_tokens_per_rank : 0};
}

Result<void> CudaAllToAll::give_results(int rank, std::span<const std::byte> rows) {
  if (auto ok = expect(Phase::dispatched, "give_results"); !ok) return ok;
  const auto [config, runtime_max] = slice_view(rank);
  A2ASIM_INVARIANT(is_home_of(rank), "results are given where the rank lives");
  if (auto ok = slices_.use_device_of(rank); !ok) return ok;
  const WorkspaceLayout at = config->layout();
  std::vector<std::int32_t> counters(static_cast<std::size_t>(config->ep_size));
  const auto read =
      cudaMemcpy(counters.data(), slices_.slice(rank) + at.recv_counters, 4 * counters.size(), cudaMemcpyDefault);
  if (auto ok = cuda_result(read, "reading receive counters"); !ok) return ok;
  const RegionView regions = config->regions(runtime_max);
  for (int source = 0; source < config->ep_size; ++source) {
    const std::int64_t count = std::clamp<std::int64_t>(counters[static_cast<std::size_t>(source)], 0, runtime_max);
    const auto bytes = static_cast<std::size_t>(count * config->combine_bytes_per_token());
    if (bytes > rows.size()) return fail(ErrorKind::bad_input, "give_results: fewer results than rows");
    const auto wrote =
        cudaMemcpy(slices_.slice(rank) + regions.combine_row(source, 0), rows.data(), bytes, cudaMemcpyDefault);
    if (auto ok = cuda_result(wrote, "writing results"); !ok) return ok;
    rows = rows.subspan(bytes);
  }
  return cuda_result(cudaDeviceSynchronize(), "writing results");
}

}  // namespace a2asim::gpu
