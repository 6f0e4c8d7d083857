// The CUDA backend as a device, in one process or as one of several.
#include "tools/backends/backends.h"

#ifdef A2ASIM_HAS_CUDA
#include <fmt/format.h>

#include <algorithm>

#include "gpu/group/launch_environment.h"
#include "gpu/group/process_group.h"
#include "gpu/replicated_alltoall.h"
#endif

namespace a2asim {

#ifdef A2ASIM_HAS_CUDA

namespace {

template <class Made>  // CudaAllToAll or ReplicatedAllToAll
class CudaDevice final : public Device {
 public:
  explicit CudaDevice(std::unique_ptr<Made> made) : made_(std::move(made)) {}
  AllToAll& all_to_all() override { return *made_; }
  void set_active_rank_mask(RankMask mask) override { made_->set_active_rank_mask(mask.bits()); }
  Result<void> check_red_zones() override { return made_->check_red_zones(); }

 private:
  std::unique_ptr<Made> made_;
};

struct Gpus {
  CudaDeviceOptions options;
  gpu::PeerMemory peer_memory = gpu::PeerMemory::automatic;
  std::vector<int> devices;                  // of this process
  std::unique_ptr<gpu::ProcessGroup> group;  // null: there is no other process
  bool noted = false;

  // One entry a launch of this process.
  std::vector<int> launches(std::int64_t ranks) const {
    const auto here = static_cast<std::int64_t>(devices.size());
    std::int64_t count = group == nullptr ? std::min(here, ranks) : here;
    if (options.ranks_per_gpu > 0) {
      const std::int64_t all = (ranks + options.ranks_per_gpu - 1) / options.ranks_per_gpu;
      const std::int64_t processes = group == nullptr ? 1 : group->size();
      const std::int64_t process = group == nullptr ? 0 : group->rank();
      count = std::max<std::int64_t>(1, (process + 1) * all / processes - process * all / processes);
    }
    std::vector<int> list;
    for (std::int64_t i = 0; i < count; ++i) list.push_back(devices[static_cast<std::size_t>(i % here)]);
    return list;
  }
};

template <class Made>
Result<std::unique_ptr<Device>> make_device(Gpus& gpus, const DeviceRequest& request, const gpu::CudaOptions& options) {
  auto made = Made::create(request.configs, options);
  if (!made) return tl::unexpected(made.error());
  if (gpus.options.note && !gpus.noted && (gpus.group == nullptr || gpus.group->rank() == 0)) {
    gpus.options.note(fmt::format("{} process{}, {} GPU{} in this one; peer memory: {}",
                                  gpus.group == nullptr ? 1 : gpus.group->size(), gpus.group == nullptr ? "" : "es",
                                  gpus.devices.size(), gpus.devices.size() == 1 ? "" : "s", (*made)->peer_memory()));
  }
  gpus.noted = true;
  return std::make_unique<CudaDevice<Made>>(std::move(*made));
}

Result<void> find_gpus(Gpus& gpus) {
  const Result<int> count = gpu::usable_devices();
  if (!count) return fail(ErrorKind::bad_input, fmt::format("no device to run on: {}", count.error().message));
  if (gpus.options.gpus > *count) {
    return fail(ErrorKind::bad_input, fmt::format("--gpus {}: there are {} GPUs of compute capability 8.0 and up",
                                                  gpus.options.gpus, *count));
  }
  const int used = gpus.options.gpus > 0 ? gpus.options.gpus : *count;
  const auto place = gpu::read_launch_environment(gpu::process_environment());
  if (!place) return tl::unexpected(place.error());
  gpus.devices = gpu::devices_of_process(used, place->local_rank, place->local_size);
  if (place->size == 1) return {};
  auto group = gpu::ProcessGroup::join(*place, gpus.options.join_timeout);
  if (!group) return fail(ErrorKind::bad_input, fmt::format("{}: {}", place->source, group.error().message));
  gpus.group = std::move(*group);
  return {};
}

}  // namespace

Result<CudaDevices> cuda_devices(const CudaDeviceOptions& options) {
  const auto gpus = std::make_shared<Gpus>();
  gpus->options = options;
  const auto peer_memory = gpu::parse_peer_memory(options.peer_memory);
  if (!peer_memory) return tl::unexpected(peer_memory.error());
  gpus->peer_memory = *peer_memory;
  if (auto ok = find_gpus(*gpus); !ok) return tl::unexpected(ok.error());
  const bool is_alone = gpus->group == nullptr;
  if (*peer_memory == (is_alone ? gpu::PeerMemory::ipc : gpu::PeerMemory::peer)) {
    return fail(
        ErrorKind::bad_input,
        fmt::format("--peer-memory {} works {}; give auto, nccl or {}", options.peer_memory,
                    is_alone ? "between processes only" : "inside one process only", is_alone ? "peer" : "ipc"));
  }
  CudaDevices found;
  found.reports = gpus->group == nullptr || gpus->group->rank() == 0;
  found.make = [gpus](const DeviceRequest& request) -> Result<std::unique_ptr<Device>> {
    gpu::CudaOptions cuda;
    cuda.guard = request.guard;
    cuda.local_ranks = request.local_ranks;
    cuda.group = gpus->group.get();
    cuda.peer_memory = gpus->peer_memory;
    if (request.short_timeout) cuda.timeout = gpus->options.short_timeout;
    cuda.devices = gpus->launches(static_cast<std::int64_t>(request.configs.size()));
    return gpus->group == nullptr ? make_device<gpu::CudaAllToAll>(*gpus, request, cuda)
                                  : make_device<gpu::ReplicatedAllToAll>(*gpus, request, cuda);
  };
  return found;
}

#else

Result<CudaDevices> cuda_devices(const CudaDeviceOptions&) {
  return fail(
      ErrorKind::bad_input,
      "this program was built without the CUDA backend: configure with -DA2ASIM_CUDA=ON where a CUDA toolkit is");
}

#endif

}  // namespace a2asim
