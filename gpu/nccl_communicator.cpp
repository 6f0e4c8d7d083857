#if defined(A2ASIM_HAS_NCCL)
#include "gpu/nccl_communicator.h"

#include <algorithm>
#include <chrono>
#include <string>

#include "gpu/group/process_group.h"
#include "gpu/peer_region.h"

namespace a2asim::gpu {
namespace {

constexpr std::chrono::milliseconds kLimit{15'000};

Result<void> check_places(const Placement& placement, int world_size) {
  const bool enough_ranks = world_size >= 1 && placement.places.size() <= static_cast<std::size_t>(world_size);
  if (placement.num_local > 0 && enough_ranks) {
    const auto ways = possible_ways(placement, PeerMemory::nccl, true);
    if (ways) return {};
  }
  return fail(ErrorKind::bad_input, "NCCL: give at least one rank for each device, and each device once");
}

}  // namespace

Result<std::unique_ptr<NcclCommunicator>> NcclCommunicator::create(int world_size, std::span<const int> devices,
                                                                   ProcessGroup* group) {
  const auto own = describe_places(devices);
  if (!own) return tl::unexpected(own.error());
  const auto placement = exchange_places(*own, group);
  if (!placement) return tl::unexpected(placement.error());
  if (auto ok = check_places(*placement, world_size); !ok) return tl::unexpected(ok.error());
  std::unique_ptr<NcclCommunicator> made(new NcclCommunicator);
  const auto world = static_cast<std::size_t>(world_size);
  const std::size_t places = placement->places.size();
  // The first rank whose rank * places / world is p, as place_of_rank has it.
  for (std::size_t p = 0; p <= places; ++p) made->first_rank_.push_back((p * world + places - 1) / places);
  for (std::size_t rank = 0; rank < world; ++rank) {
    if (placement->is_local(placement->place_of_rank(rank, world)))
      made->local_ranks_.push_back(static_cast<int>(rank));
  }
  auto connected = NcclWorld::get(*placement, group, kLimit);
  if (!connected) return tl::unexpected(connected.error());
  made->world_ = std::move(*connected);
  for (std::size_t local = 0; local < placement->num_local; ++local) {
    if (auto ok = cuda_result(cudaSetDevice(made->world_->device(local)), "cudaSetDevice"); !ok)
      return tl::unexpected(ok.error());
    cudaStream_t stream = nullptr;
    const int created = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    if (auto ok = cuda_result(created, "creating a stream"); !ok) return tl::unexpected(ok.error());
    made->devices_.emplace_back();
    made->devices_.back().stream.reset(stream);
  }
  return made;
}

std::size_t NcclCommunicator::most_rows() const {
  std::size_t most = 0;
  for (std::size_t p = 0; p < num_places(); ++p) most = std::max(most, rows_of(p));
  return most;
}

Result<void> NcclCommunicator::reserve(std::size_t local_place, std::size_t count) {
  Device& device = devices_[local_place];
  if (device.capacity >= count) return {};
  auto send = allocate_device(static_cast<std::int64_t>(count * sizeof(std::int64_t)));
  auto receive = allocate_device(static_cast<std::int64_t>(count * num_places() * sizeof(std::int64_t)));
  if (!send) return tl::unexpected(send.error());
  if (!receive) return tl::unexpected(receive.error());
  device.send = std::move(*send);
  device.receive = std::move(*receive);
  device.capacity = count;
  return {};
}

// Every device sends as many rows as the fullest one, the last of them padding.
Result<void> NcclCommunicator::exchange(std::span<const std::int64_t> rows, std::size_t width) {
  const std::size_t count = most_rows() * width;
  const std::size_t first_place = world_->placement().first_local;
  const auto* next = rows.data();
  for (std::size_t local = 0; local < devices_.size(); ++local) {
    Device& device = devices_[local];
    if (auto ok = cuda_result(cudaSetDevice(world_->device(local)), "cudaSetDevice"); !ok) return ok;
    if (auto ok = reserve(local, count); !ok) return ok;
    std::vector<std::int64_t> own(count, 0);
    const std::size_t here = rows_of(first_place + local) * width;
    std::copy(next, next + here, own.begin());
    next += here;
    const int copied = cudaMemcpyAsync(device.send.get(), own.data(), count * sizeof(std::int64_t),
                                       cudaMemcpyHostToDevice, device.stream.get());
    if (auto ok = cuda_result(copied, "copying rows"); !ok) return ok;
    const int done = cudaStreamSynchronize(device.stream.get());
    if (auto ok = cuda_result(done, "copying rows"); !ok) return ok;
  }
  struct Call {
    const std::byte* send;
    std::byte* receive;
    ncclComm_t comm;
    cudaStream_t stream;
  };
  std::vector<Call> calls;
  for (std::size_t local = 0; local < devices_.size(); ++local) {
    const Device& device = devices_[local];
    calls.push_back({device.send.get(), device.receive.get(), world_->comm(local), device.stream.get()});
  }
  return world_->grouped("ncclAllGather", [calls, count](std::size_t local) {
    const Call& at = calls[local];
    return ncclAllGather(at.send, at.receive, count, ncclInt64, at.comm, at.stream);
  });
}

Result<std::vector<std::int64_t>> NcclCommunicator::unfold(std::size_t local_place, std::size_t width) {
  const Device& device = devices_[local_place];
  const std::size_t most = most_rows();
  std::vector<std::int64_t> padded(most * width * num_places());
  if (auto ok = world_->wait(local_place, device.stream.get(), "all_gather"); !ok) return tl::unexpected(ok.error());
  const int copied =
      cudaMemcpy(padded.data(), device.receive.get(), padded.size() * sizeof(std::int64_t), cudaMemcpyDeviceToHost);
  if (auto ok = cuda_result(copied, "reading rows"); !ok) return tl::unexpected(ok.error());
  std::vector<std::int64_t> seen;
  for (std::size_t p = 0; p < num_places(); ++p) {
    const auto* first = padded.data() + p * most * width;
    seen.insert(seen.end(), first, first + rows_of(p) * width);
  }
  return seen;
}

Result<std::vector<std::int64_t>> NcclCommunicator::all_gather(std::span<const std::int64_t> rows, int width) {
  if (width < 1 || rows.size() != local_ranks_.size() * static_cast<std::size_t>(width)) {
    return fail(ErrorKind::bad_input, "all_gather: give " + std::to_string(local_ranks_.size()) +
                                          " rows of the width " + std::to_string(width) +
                                          " (at least 1), one a local rank");
  }
  const auto columns = static_cast<std::size_t>(width);
  if (auto ok = exchange(rows, columns); !ok) return tl::unexpected(ok.error());
  std::vector<std::int64_t> result;
  for (std::size_t local = 0; local < devices_.size(); ++local) {
    auto seen = unfold(local, columns);
    if (!seen) return tl::unexpected(seen.error());
    if (!result.empty() && result != *seen) {
      return fail(ErrorKind::runtime_error, "all_gather: the devices received different rows");
    }
    result = std::move(*seen);
  }
  return result;
}

}  // namespace a2asim::gpu
#endif
