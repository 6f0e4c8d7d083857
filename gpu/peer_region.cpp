#include "gpu/peer_region.h"

#include <algorithm>
#include <cstdlib>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <map>

#include "gpu/group/process_group.h"
#include "gpu/nccl_world.h"
#include "model/alltoall/workspace.h"
#include "model/base/check_invariant.h"

namespace a2asim::gpu {
namespace {

constexpr std::int64_t kGranule_bytes = std::int64_t{2} << 20;  // what a handle or a window stands for is whole pages

#if defined(A2ASIM_HAS_NCCL)
constexpr bool kHasNccl = true;
// How long NCCL may take for one call. Under compute-sanitizer its start alone takes longer: gpu_validate.sh asks for
// more.
std::chrono::milliseconds nccl_limit() {
  constexpr long usual_s = 15, most_s = 600;
  const char* given = std::getenv("A2ASIM_NCCL_LIMIT_S");
  const long wanted_s = given == nullptr ? usual_s : std::strtol(given, nullptr, 10);
  return std::chrono::seconds(std::clamp(wanted_s, usual_s, most_s));
}
#else
constexpr bool kHasNccl = false;
#endif

std::string words_of(PeerMemory way, const Placement& placement) {
  if (placement.places.size() == 1) return "one GPU, nothing to reach";
  switch (way) {
    case PeerMemory::nccl:
      return "NCCL windows";
    case PeerMemory::ipc:
      return "CUDA IPC handles";
    default:
      return "CUDA peer access";
  }
}

}  // namespace

Result<std::vector<Place>> describe_places(std::span<const int> devices) {
  std::vector<Place> places;
  for (const int device : devices) {
    Place place;
    place.device = device;
    gethostname(place.host.data(), place.host.size() - 1);
    const int code = cudaDeviceGetPCIBusId(place.bus.data(), static_cast<int>(place.bus.size()), device);
    if (auto ok = cuda_result(code, "looking for a device's address"); !ok) return tl::unexpected(ok.error());
    places.push_back(place);
  }
  return places;
}

Result<std::unique_ptr<PeerRegion>> PeerRegion::create(const Placement& placement, std::int64_t bytes,
                                                       PeerMemory wanted, ProcessGroup* group) {
  A2ASIM_INVARIANT(bytes > 0 && placement.num_local >= 1, "every process has a place and memory");
  const auto ways = possible_ways(placement, wanted, kHasNccl);
  if (!ways) return tl::unexpected(ways.error());
  const bool alone = placement.num_processes == 1 && placement.places.size() == 1;
  // What failed once fails again, and may take its time each time.
  static std::map<PeerMemory, std::string> failed;
  std::string rejected;
  for (const PeerMemory way : *ways) {
    if (way != ways->back() && failed.contains(way)) {
      rejected += (rejected.empty() ? "" : ", not ") + std::string(name(way)) + ": " + failed[way];
      continue;
    }
    std::unique_ptr<PeerRegion> made(new PeerRegion);
    made->placement_ = placement;
    made->bytes_ = alone && way != PeerMemory::nccl ? bytes : align_up(bytes, kGranule_bytes);
    made->group_ = group;
    auto ok = made->set_up(way);
    if (group != nullptr) ok = group->agree(ok);
    if (ok) {
      made->shared_ = true;
      made->words_ = words_of(way, placement) + (rejected.empty() ? "" : " (not " + rejected + ")");
      return made;
    }
    if (way == ways->back()) return tl::unexpected(ok.error());
    failed[way] = ok.error().message;
    rejected += (rejected.empty() ? "" : ", not ") + std::string(name(way)) + ": " + failed[way];
  }
  return fail(ErrorKind::runtime_error, "no way to reach the other places' memory");
}

Result<void> PeerRegion::set_up(PeerMemory way) {
  A2ASIM_INVARIANT(way != PeerMemory::automatic && bytes_ > 0, "a way was chosen");
  if (way == PeerMemory::nccl) return open_window();
  auto ok = allocate();
  if (ok) ok = allow_peer_access();
  if (way != PeerMemory::ipc) return ok;
  // Handles go round only where everybody has memory: the exchange is a common step.
  if (ok = group_->agree(ok); !ok) return ok;
  return open_handles();
}

Result<void> PeerRegion::allocate() {
  A2ASIM_INVARIANT(own_.empty(), "memory is taken once");
  for (std::size_t local = 0; local < placement_.num_local; ++local) {
    const int device = placement_.places[placement_.first_local + local].device;
    if (auto ok = cuda_result(cudaSetDevice(device), "cudaSetDevice"); !ok) return ok;
    auto memory = allocate_device(bytes_);
    if (!memory) return tl::unexpected(memory.error());
    own_.push_back(std::move(*memory));
  }
  bases_.assign(placement_.num_local, std::vector<std::byte*>(placement_.places.size(), nullptr));
  for (auto& bases : bases_) {
    for (std::size_t local = 0; local < own_.size(); ++local) bases[placement_.first_local + local] = own_[local].get();
  }
  return {};
}

// Among the devices of this process.
Result<void> PeerRegion::allow_peer_access() const {
  A2ASIM_INVARIANT(placement_.first_local + placement_.num_local <= placement_.places.size(),
                   "local places are among all");
  for (std::size_t a = 0; a < placement_.num_local; ++a) {
    for (std::size_t b = 0; b < placement_.num_local; ++b) {
      const int from = placement_.places[placement_.first_local + a].device;
      const int to = placement_.places[placement_.first_local + b].device;
      if (from == to) continue;
      int possible = 0;
      if (auto ok = cuda_result(cudaDeviceCanAccessPeer(&possible, from, to), "cudaDeviceCanAccessPeer"); !ok)
        return ok;
      if (possible == 0) {
        return fail(ErrorKind::runtime_error, "CUDA: device " + std::to_string(from) + " cannot access device " +
                                                  std::to_string(to) +
                                                  "; use devices linked by NVLink or PCIe peer access");
      }
      if (auto ok = cuda_result(cudaSetDevice(from), "cudaSetDevice"); !ok) return ok;
      const int code = cudaDeviceEnablePeerAccess(to, 0);
      if (code == cudaErrorPeerAccessAlreadyEnabled) {
        static_cast<void>(cudaGetLastError());
      } else if (auto ok = cuda_result(code, "cudaDeviceEnablePeerAccess"); !ok) {
        return ok;
      }
    }
  }
  return {};
}

// Every process's handles, in the order of places; each local device opens those of the other processes.
Result<void> PeerRegion::open_handles() {
  A2ASIM_INVARIANT(group_ != nullptr && own_.size() == placement_.num_local, "handles are of this process's memory");
  std::string own;
  Result<void> exported;
  for (const DeviceMemory& memory : own_) {
    cudaIpcMemHandle_t handle = {};
    if (exported) exported = cuda_result(cudaIpcGetMemHandle(&handle, memory.get()), "cudaIpcGetMemHandle");
    own.append(reinterpret_cast<const char*>(&handle), sizeof handle);
  }
  if (exported = group_->agree(exported); !exported) return exported;
  const auto all = group_->all_gather(own);
  if (!all) return tl::unexpected(all.error());
  std::string handles;
  for (const std::string& of_process : *all) handles += of_process;
  if (handles.size() != placement_.places.size() * sizeof(cudaIpcMemHandle_t))
    return fail(ErrorKind::runtime_error, "CUDA IPC: there is not one handle for each place");
  for (std::size_t local = 0; local < placement_.num_local; ++local) {
    const int device = placement_.places[placement_.first_local + local].device;
    if (auto ok = cuda_result(cudaSetDevice(device), "cudaSetDevice"); !ok) return ok;
    for (std::size_t place = 0; place < placement_.places.size(); ++place) {
      if (placement_.is_local(place)) continue;
      cudaIpcMemHandle_t handle;
      std::memcpy(&handle, handles.data() + place * sizeof handle, sizeof handle);
      void* memory = nullptr;
      const int code = cudaIpcOpenMemHandle(&memory, handle, cudaIpcMemLazyEnablePeerAccess);
      if (code != cudaSuccess) static_cast<void>(cudaGetLastError());
      if (auto ok = cuda_result(code, "cudaIpcOpenMemHandle"); !ok) return ok;
      imports_.push_back({device, memory});
      bases_[local][place] = static_cast<std::byte*>(memory);
    }
  }
  return {};
}

Result<void> PeerRegion::open_window() {
#if defined(A2ASIM_HAS_NCCL)
  auto world = NcclWorld::get(placement_, group_, nccl_limit());
  if (!world) return tl::unexpected(world.error());
  auto windows = NcclWindows::create(*world, bytes_);
  if (!windows) return tl::unexpected(windows.error());
  windows_ = std::move(*windows);
  bases_ = windows_->bases();
  A2ASIM_INVARIANT(bases_.size() == placement_.num_local, "every local place has its addresses");
  return {};
#else
  return fail(ErrorKind::runtime_error, "this program was built without NCCL");
#endif
}

// Mappings of others' memory go first, everywhere; only then the memory itself.
void PeerRegion::close() {
  for (const Import& import : imports_) {
    static_cast<void>(cudaSetDevice(import.device));
    static_cast<void>(cudaIpcCloseMemHandle(import.memory));
  }
  imports_.clear();
#if defined(A2ASIM_HAS_NCCL)
  if (windows_ != nullptr) windows_->unmap();
#endif
}

PeerRegion::~PeerRegion() {
  close();
  if (shared_ && group_ != nullptr) static_cast<void>(group_->barrier());
}

}  // namespace a2asim::gpu
