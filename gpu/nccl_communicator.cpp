#if defined(A2ASIM_HAS_NCCL)
#include "gpu/nccl_communicator.h"

#include <nccl.h>

#include <algorithm>
#include <numeric>
#include <string>

#include "gpu/device_memory.h"

namespace a2asim::gpu {
namespace {

Result<void> nccl_result(ncclResult_t code, const char* what) {
  if (code == ncclSuccess) return {};
  return fail(ErrorKind::runtime_error, std::string("NCCL: ") + what + ": " + ncclGetErrorString(code));
}

}  // namespace

struct NcclCommunicator::Device {
  int id = 0;
  ncclComm_t comm = nullptr;
  OwnedStream stream;
  DeviceMemory send, receive;
  std::size_t capacity = 0;  // int64s of the send buffer
};

NcclCommunicator::NcclCommunicator() = default;

NcclCommunicator::~NcclCommunicator() {
  for (const auto& device : devices_) {
    if (device->comm != nullptr) ncclCommDestroy(device->comm);
  }
}

Result<std::unique_ptr<NcclCommunicator>> NcclCommunicator::create(int world_size, std::span<const int> devices) {
  std::vector<int> distinct(devices.begin(), devices.end());
  std::sort(distinct.begin(), distinct.end());
  const bool repeats = std::adjacent_find(distinct.begin(), distinct.end()) != distinct.end();
  if (world_size < 1 || devices.empty() || repeats || devices.size() > static_cast<std::size_t>(world_size)) {
    return fail(ErrorKind::bad_input, "NCCL: give at least one rank for each device, and each device once");
  }
  std::unique_ptr<NcclCommunicator> made(new NcclCommunicator);
  made->local_ranks_.resize(static_cast<std::size_t>(world_size));
  std::iota(made->local_ranks_.begin(), made->local_ranks_.end(), 0);
  // The first rank whose rank * devices / world is d, as CudaAllToAll places them.
  const auto world = static_cast<std::size_t>(world_size);
  for (std::size_t d = 0; d <= devices.size(); ++d) {
    made->first_rank_.push_back((d * world + devices.size() - 1) / devices.size());
  }
  std::vector<ncclComm_t> comms(devices.size(), nullptr);
  const ncclResult_t code = ncclCommInitAll(comms.data(), static_cast<int>(devices.size()), devices.data());
  if (auto ok = nccl_result(code, "ncclCommInitAll"); !ok) return tl::unexpected(ok.error());
  for (std::size_t d = 0; d < devices.size(); ++d) {
    auto device = std::make_unique<Device>();
    device->id = devices[d];
    device->comm = comms[d];
    made->devices_.push_back(std::move(device));
  }
  for (const auto& device : made->devices_) {
    if (auto ok = cuda_result(cudaSetDevice(device->id), "cudaSetDevice"); !ok) return tl::unexpected(ok.error());
    cudaStream_t stream = nullptr;
    const int created = cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
    if (auto ok = cuda_result(created, "creating a stream"); !ok) return tl::unexpected(ok.error());
    device->stream.reset(stream);
  }
  return made;
}

std::size_t NcclCommunicator::most_rows() const {
  std::size_t most = 0;
  for (std::size_t d = 0; d < devices_.size(); ++d) most = std::max(most, rows_of_device(d));
  return most;
}

// Every device sends as many rows as the fullest one, the last of them padding.
Result<void> NcclCommunicator::exchange(std::span<const std::int64_t> rows, std::size_t width) {
  const std::size_t count = most_rows() * width;
  for (std::size_t d = 0; d < devices_.size(); ++d) {
    Device& device = *devices_[d];
    if (auto ok = cuda_result(cudaSetDevice(device.id), "cudaSetDevice"); !ok) return ok;
    if (device.capacity < count) {
      auto send = allocate_device(static_cast<std::int64_t>(count * sizeof(std::int64_t)));
      auto receive = allocate_device(static_cast<std::int64_t>(count * devices_.size() * sizeof(std::int64_t)));
      if (!send) return tl::unexpected(send.error());
      if (!receive) return tl::unexpected(receive.error());
      device.send = std::move(*send);
      device.receive = std::move(*receive);
      device.capacity = count;
    }
    std::vector<std::int64_t> own(count, 0);
    const auto* first = rows.data() + first_rank_[d] * width;
    std::copy(first, first + rows_of_device(d) * width, own.begin());
    const int copied = cudaMemcpyAsync(device.send.get(), own.data(), count * sizeof(std::int64_t),
                                       cudaMemcpyHostToDevice, device.stream.get());
    if (auto ok = cuda_result(copied, "copying rows"); !ok) return ok;
    const int done = cudaStreamSynchronize(device.stream.get());
    if (auto ok = cuda_result(done, "copying rows"); !ok) return ok;
  }
  if (auto ok = nccl_result(ncclGroupStart(), "ncclGroupStart"); !ok) return ok;
  Result<void> gathered;
  for (const auto& device : devices_) {
    const ncclResult_t code =
        ncclAllGather(device->send.get(), device->receive.get(), count, ncclInt64, device->comm, device->stream.get());
    if (gathered) gathered = nccl_result(code, "ncclAllGather");
  }
  if (auto ok = nccl_result(ncclGroupEnd(), "ncclGroupEnd"); !ok) return ok;
  return gathered;
}

Result<std::vector<std::int64_t>> NcclCommunicator::all_gather(std::span<const std::int64_t> rows, int width) {
  if (width < 1 || rows.size() != local_ranks_.size() * static_cast<std::size_t>(width)) {
    return fail(ErrorKind::bad_input, "all_gather: give " + std::to_string(local_ranks_.size()) +
                                          " rows of the width " + std::to_string(width) +
                                          " (at least 1), one a local rank");
  }
  const auto columns = static_cast<std::size_t>(width);
  if (auto ok = exchange(rows, columns); !ok) return tl::unexpected(ok.error());
  const std::size_t most = most_rows();
  std::vector<std::int64_t> result;
  for (const auto& device : devices_) {
    std::vector<std::int64_t> padded(most * columns * devices_.size());
    if (auto ok = cuda_result(cudaSetDevice(device->id), "cudaSetDevice"); !ok) return tl::unexpected(ok.error());
    const int copied = cudaMemcpyAsync(padded.data(), device->receive.get(), padded.size() * sizeof(std::int64_t),
                                       cudaMemcpyDeviceToHost, device->stream.get());
    if (auto ok = cuda_result(copied, "reading rows"); !ok) return tl::unexpected(ok.error());
    const int done = cudaStreamSynchronize(device->stream.get());
    if (auto ok = cuda_result(done, "all_gather"); !ok) return tl::unexpected(ok.error());
    std::vector<std::int64_t> seen;
    for (std::size_t d = 0; d < devices_.size(); ++d) {
      const auto* first = padded.data() + d * most * columns;
      seen.insert(seen.end(), first, first + rows_of_device(d) * columns);
    }
    if (!result.empty() && result != seen) {
      return fail(ErrorKind::runtime_error, "all_gather: the devices received different rows");
    }
    result = std::move(seen);
  }
  return result;
}

}  // namespace a2asim::gpu
#endif
