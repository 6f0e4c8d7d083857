// Joins the CUDA backend to the conformance suite where it was built: on one GPU, and on 2, 4 and 8 where they are.
// Started by mpirun, torchrun or srun the suite runs over all processes, each with its share of the GPUs.
#include "tests/conformance/subjects.h"

#ifdef A2ASIM_HAS_CUDA
#include <chrono>
#include <cstdlib>
#include <utility>

#include "gpu/group/launch_environment.h"
#include "gpu/group/process_group.h"
#include "gpu/replicated_alltoall.h"
#endif

namespace a2asim::conformance {
namespace {

using Made = Result<std::unique_ptr<Dispatcher>>;

Made skipped(const std::string& why) { return fail(ErrorKind::runtime_error, "SKIPPED: " + why); }

#ifdef A2ASIM_HAS_CUDA

// Null: this is the only process. Joined once.
Result<gpu::ProcessGroup*> other_processes() {
  static Result<gpu::ProcessGroup*> found = []() -> Result<gpu::ProcessGroup*> {
    const auto place = gpu::read_launch_environment(gpu::process_environment());
    if (!place) return tl::unexpected(place.error());
    if (place->size == 1) return nullptr;
    auto group = gpu::ProcessGroup::join(*place, std::chrono::seconds(30));
    if (!group) return tl::unexpected(group.error());
    return group->release();
  }();
  return found;
}

#endif

}  // namespace

#ifdef A2ASIM_HAS_CUDA
Made make_cuda(const std::vector<AllToAllConfig>& configs, bool guard, int gpus) {
  const auto devices = gpu::usable_devices();
  if (!devices) return skipped(devices.error().message);
  if (gpus > *devices) return skipped("needs " + std::to_string(gpus) + " GPUs, there are " + std::to_string(*devices));
  const auto group = other_processes();
  if (!group) return tl::unexpected(group.error());
  gpu::CudaOptions options;
  options.guard = guard;
  const char* peer_memory = std::getenv("A2ASIM_PEER_MEMORY");
  const auto way = gpu::parse_peer_memory(peer_memory == nullptr ? "auto" : peer_memory);
  if (!way) return tl::unexpected(way.error());
  if (gpus > 0 || *group != nullptr) options.peer_memory = *way;
  for (int device = 1; device < gpus; ++device) options.devices.push_back(device);
  if (*group == nullptr) {
    auto made = gpu::CudaAllToAll::create(configs, options);
    if (!made) return tl::unexpected(made.error());
    return std::unique_ptr<Dispatcher>(std::move(*made));
  }
  if (gpus > 0) return skipped("one of several processes");
  const gpu::ProcessPlace& place = (*group)->place();
  options.group = *group;
  options.devices = gpu::devices_of_process(*devices, place.local_rank, place.local_size);
  auto made = gpu::ReplicatedAllToAll::create(configs, options);
  if (!made) return tl::unexpected(made.error());
  return std::unique_ptr<Dispatcher>(std::move(*made));
}

#else
Made make_cuda(const std::vector<AllToAllConfig>&, bool, int) {
  return skipped("no cuda backend was built into this program");
}
#endif

}  // namespace a2asim::conformance
