// Joins the CUDA backend to the conformance suite where it was built: on one GPU, and on 2, 4 and 8 where they are.
// Started by mpirun, torchrun or srun the suite runs over all processes, each with its share of the GPUs.
#ifdef A2ASIM_HAS_CUDA
#include <chrono>
#include <cstdlib>
#include <utility>

#include "gpu/group/launch_environment.h"
#include "gpu/group/process_group.h"
#include "gpu/replicated_alltoall.h"
#include "tests/conformance/backend.h"

namespace a2asim::conformance {
namespace {

using Made = Result<std::unique_ptr<AllToAll>>;

Made skipped(const std::string& why) { return fail(ErrorKind::runtime_error, "SKIPPED: " + why); }

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

// gpus: 0 for one launch of all ranks on one GPU, or on each process's GPUs where there are several processes.
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
    return std::unique_ptr<AllToAll>(std::move(*made));
  }
  if (gpus > 0) return skipped("one of several processes");
  const gpu::ProcessPlace& place = (*group)->place();
  options.group = *group;
  options.devices = gpu::devices_of_process(*devices, place.local_rank, place.local_size);
  auto made = gpu::ReplicatedAllToAll::create(configs, options);
  if (!made) return tl::unexpected(made.error());
  return std::unique_ptr<AllToAll>(std::move(*made));
}

template <int kGpus>
Made make(const std::vector<AllToAllConfig>& configs, bool guard) {
  return make_cuda(configs, guard, kGpus);
}

[[maybe_unused]] const bool registered = add_backend({"cuda", make<0>}) && add_backend({"cuda 2 GPUs", make<2>}) &&
                                         add_backend({"cuda 4 GPUs", make<4>}) && add_backend({"cuda 8 GPUs", make<8>});

}  // namespace
}  // namespace a2asim::conformance
#endif
