#if defined(A2ASIM_HAS_NCCL)
#include "gpu/nccl_world.h"

#include <nccl_device.h>

#include <condition_variable>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>

#include "gpu/group/process_group.h"
#include "model/base/check_invariant.h"

namespace a2asim::gpu {
namespace {

// A communicator without the device API's needs: only whether loads and stores reach every place. It stays: NCCL may
// look at it later than the call.
const ncclDevCommRequirements& no_requirements() {
  static const ncclDevCommRequirements none = [] {
    ncclDevCommRequirements made;
    std::memset(&made, 0, sizeof made);
    return made;
  }();
  return none;
}

}  // namespace

Result<void> nccl_result(ncclResult_t code, const char* what) {
  if (code == ncclSuccess) return {};
  const char* detail = ncclGetLastError(nullptr);
  return fail(ErrorKind::runtime_error,
              std::string("NCCL: ") + what + ": " + ncclGetErrorString(code) +
                  (detail != nullptr && *detail != '\0' ? std::string(" (") + detail + ")" : std::string()));
}

Result<void> NcclWorld::bounded(const char* what, std::function<ncclResult_t()> call) {
  A2ASIM_INVARIANT(what != nullptr && call != nullptr && limit_.count() > 0, "a call has a name and a limit");
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    bool done = false;
    ncclResult_t code = ncclSuccess;
  };
  const auto state = std::make_shared<State>();
  // A call that never comes back keeps its thread until the program ends.
  std::thread([state, call = std::move(call)] {
    const ncclResult_t code = call();
    const std::lock_guard lock(state->mutex);
    state->code = code;
    state->done = true;
    state->changed.notify_all();
  }).detach();
  std::unique_lock lock(state->mutex);
  if (!state->changed.wait_for(lock, limit_, [&] { return state->done; })) {
    broken_ = true;
    return fail(ErrorKind::runtime_error, std::string("NCCL: ") + what + " did not come back within " +
                                              std::to_string(limit_.count()) + " ms; has a process ended?");
  }
  return nccl_result(state->code, what);
}

Result<void> NcclWorld::grouped(const char* what, const std::function<ncclResult_t(std::size_t local_place)>& call) {
  A2ASIM_INVARIANT(call != nullptr && !comms_.empty(), "a call is made for every local place");
  return bounded(what, [call, count = comms_.size(), devices = placement_, first = placement_.first_local] {
    ncclResult_t code = ncclGroupStart();
    if (code != ncclSuccess) return code;
    for (std::size_t local = 0; local < count && code == ncclSuccess; ++local) {
      const bool set = cudaSetDevice(devices.places[first + local].device) == cudaSuccess;
      code = set ? call(local) : ncclUnhandledCudaError;
    }
    const ncclResult_t ended = ncclGroupEnd();
    return code == ncclSuccess ? ended : code;
  });
}

Result<void> NcclWorld::connect(ProcessGroup* group) {
  A2ASIM_INVARIANT(comms_.empty() && placement_.num_local >= 1, "a world is connected once");
  setenv("NCCL_NVLS_ENABLE", "0", 1);
  ncclUniqueId id = {};
  Result<void> made;
  if (placement_.process == 0) made = nccl_result(ncclGetUniqueId(&id), "ncclGetUniqueId");
  if (group != nullptr) {
    const auto ids = group->all_gather_value(id);
    if (!ids) return tl::unexpected(ids.error());
    id = (*ids)[0];
    made = group->agree(made);
  }
  if (!made) return made;
  const auto comms = std::make_shared<std::vector<ncclComm_t>>(placement_.num_local, nullptr);
  comms_ = *comms;  // grouped() counts them
  const int world = static_cast<int>(placement_.places.size());
  const int first = static_cast<int>(placement_.first_local);
  auto ok = grouped("ncclCommInitRank", [comms, id, world, first](std::size_t local) {
    return ncclCommInitRank(&(*comms)[local], world, id, first + static_cast<int>(local));
  });
  comms_ = *comms;
  return ok;
}

Result<std::shared_ptr<NcclWorld>> NcclWorld::get(const Placement& placement, ProcessGroup* group,
                                                  std::chrono::milliseconds limit) {
  A2ASIM_INVARIANT(limit.count() > 0 && !placement.places.empty(), "a world has places, and limits");
  struct Kept {
    std::vector<int> key;
    std::shared_ptr<NcclWorld> world;
  };
  // Never destroyed: NCCL's own state may be gone when a program's static objects go.
  static std::vector<Kept>& kept = *new std::vector<Kept>;
  std::vector<int> key = {placement.process};
  for (const Place& place : placement.places) {
    key.push_back(place.process);
    key.push_back(place.device);
  }
  std::shared_ptr<NcclWorld> found;
  for (const Kept& one : kept) {
    if (one.key == key && !one.world->is_broken()) found = one.world;
  }
  if (group != nullptr) {
    // Either all have it or all make it.
    const auto all = group->all_gather_value(found != nullptr ? 1 : 0);
    if (!all) return tl::unexpected(all.error());
    for (const int has : *all) found = has != 0 ? found : nullptr;
  }
  if (found != nullptr) return found;
  const std::shared_ptr<NcclWorld> made(new NcclWorld);
  made->placement_ = placement;
  made->limit_ = limit;
  auto ok = made->connect(group);
  if (group != nullptr) ok = group->agree(ok);
  if (!ok) return tl::unexpected(ok.error());
  kept.push_back({key, made});
  return made;
}

// Kernels read NCCL's own description of a window, whose form belongs to one version.
static Result<void> check_version() {
  int running = 0;
  if (auto ok = nccl_result(ncclGetVersion(&running), "ncclGetVersion"); !ok) return ok;
  if (running / 100 == NCCL_VERSION_CODE / 100) return {};
  return fail(ErrorKind::runtime_error, "NCCL: windows need the version this program was built with, " +
                                            std::to_string(NCCL_VERSION_CODE) + "; this one is " +
                                            std::to_string(running));
}

struct NcclWindows::Registered {
  std::vector<void*> memory;          // by local place
  std::vector<ncclWindow_t> windows;  // by local place
  std::vector<ncclDevComm> comms;     // by local place; only asked, then given back
};

Result<std::unique_ptr<NcclWindows>> NcclWindows::create(std::shared_ptr<NcclWorld> world, std::int64_t bytes) {
  A2ASIM_INVARIANT(world != nullptr && bytes > 0, "a window has a world and bytes");
  if (auto ok = check_version(); !ok) return tl::unexpected(ok.error());
  std::unique_ptr<NcclWindows> made(new NcclWindows);
  made->world_ = std::move(world);
  NcclWorld& in = *made->world_;
  const std::size_t count = in.placement().num_local;
  const auto memory = std::make_shared<Registered>();
  made->memory_ = memory;
  memory->memory.resize(count, nullptr);
  memory->windows.resize(count, nullptr);
  memory->comms.resize(count);
  std::vector<ncclComm_t> comms;
  for (std::size_t local = 0; local < count; ++local) comms.push_back(in.comm(local));
  // Where NCCL has no symmetric memory this fails; registering would give a handle that kernels cannot use.
  auto ok = in.grouped("ncclDevCommCreate", [memory, comms](std::size_t local) {
    return ncclDevCommCreate(comms[local], &no_requirements(), &memory->comms[local]);
  });
  if (!ok) return tl::unexpected(ok.error());
  const int reached = memory->comms[0].lsaSize;
  ok = in.grouped("ncclDevCommDestroy", [memory, comms](std::size_t local) {
    return ncclDevCommDestroy(comms[local], &memory->comms[local]);
  });
  if (ok && reached != static_cast<int>(in.placement().places.size())) {
    ok = fail(ErrorKind::runtime_error, "NCCL: loads and stores reach " + std::to_string(reached) + " of " +
                                            std::to_string(in.placement().places.size()) + " GPUs");
  }
  if (!ok) return tl::unexpected(ok.error());
  for (std::size_t local = 0; local < count; ++local) {
    ok = cuda_result(cudaSetDevice(in.device(local)), "cudaSetDevice");
    if (ok) ok = nccl_result(ncclMemAlloc(&memory->memory[local], static_cast<std::size_t>(bytes)), "ncclMemAlloc");
    if (!ok) return tl::unexpected(ok.error());
  }
  ok = in.grouped("ncclCommWindowRegister", [memory, comms, bytes](std::size_t local) {
    return ncclCommWindowRegister(comms[local], memory->memory[local], static_cast<std::size_t>(bytes),
                                  &memory->windows[local], NCCL_WIN_COLL_SYMMETRIC);
  });
  for (std::size_t local = 0; ok && local < count; ++local) ok = made->resolve(local);
  if (!ok) return tl::unexpected(ok.error());
  return made;
}

Result<void> NcclWindows::resolve(std::size_t local_place) {
  A2ASIM_INVARIANT(local_place < memory_->windows.size() && bases_.size() == local_place,
                   "places are resolved in order");
  const std::size_t places = world_->placement().places.size();
  const ncclWindow_t window = memory_->windows[local_place];
  if (window == nullptr) return fail(ErrorKind::runtime_error, "NCCL: no window for this memory");
  if (auto ok = cuda_result(cudaSetDevice(world_->device(local_place)), "cudaSetDevice"); !ok) return ok;
  auto found = allocate_device(static_cast<std::int64_t>(places * sizeof(void*)));
  if (!found) return tl::unexpected(found.error());
  void** pointers = reinterpret_cast<void**>(found->get());
  const int launched = launch_window_addresses(window, static_cast<int>(places), pointers, nullptr);
  if (auto ok = cuda_result(launched, "asking for a window's addresses"); !ok) return ok;
  std::vector<std::byte*> bases(places);
  const int copied = cudaMemcpy(bases.data(), pointers, places * sizeof(void*), cudaMemcpyDeviceToHost);
  if (auto ok = cuda_result(copied, "asking for a window's addresses"); !ok) return ok;
  for (std::byte* base : bases) {
    if (base == nullptr) return fail(ErrorKind::runtime_error, "NCCL: a window has no address at some place");
  }
  bases_.push_back(std::move(bases));
  return {};
}

void NcclWindows::unmap() {
  if (world_->is_broken()) return;
  for (std::size_t local = 0; local < memory_->windows.size(); ++local) {
    const ncclWindow_t window = memory_->windows[local];
    memory_->windows[local] = nullptr;
    if (window == nullptr) continue;
    const ncclComm_t comm = world_->comm(local);
    const int device = world_->device(local);
    static_cast<void>(world_->bounded("ncclCommWindowDeregister", [comm, device, window] {
      if (cudaSetDevice(device) != cudaSuccess) return ncclUnhandledCudaError;
      return ncclCommWindowDeregister(comm, window);
    }));
  }
}

NcclWindows::~NcclWindows() {
  unmap();
  // What a world that no longer answers has mapped stays until the program ends.
  for (std::size_t local = 0; !world_->is_broken() && local < memory_->memory.size(); ++local) {
    if (memory_->memory[local] == nullptr) continue;
    static_cast<void>(cudaSetDevice(world_->device(local)));
    ncclMemFree(memory_->memory[local]);
  }
}

}  // namespace a2asim::gpu
#endif
