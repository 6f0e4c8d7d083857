// Memory of one size at every place, and its addresses as each of this process's devices sees them: NCCL's windows,
// CUDA peer access inside a process, or IPC handles between processes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "gpu/device_memory.h"
#include "gpu/group/placement.h"

namespace a2asim::gpu {

class ProcessGroup;
class NcclWindows;

// This process's devices as places, with what tells them from those of other processes.
Result<std::vector<Place>> describe_places(std::span<const int> devices);

class PeerRegion {
 public:
  // Tries the possible ways in order; all processes take the same. Not cleared.
  static Result<std::unique_ptr<PeerRegion>> create(const Placement& placement, std::int64_t bytes, PeerMemory wanted,
                                                    ProcessGroup* group);
  ~PeerRegion();
  PeerRegion(const PeerRegion&) = delete;
  PeerRegion& operator=(const PeerRegion&) = delete;

  std::byte* base(std::size_t local_place, std::size_t place) const { return bases_[local_place][place]; }
  // "CUDA peer access", ..; with why a better way was not taken.
  const std::string& words() const { return words_; }

 private:
  struct Import {
    int device = 0;
    void* memory = nullptr;
  };
  PeerRegion() = default;
  Result<void> set_up(PeerMemory way);
  Result<void> allocate();
  Result<void> allow_peer_access() const;
  Result<void> open_handles();
  Result<void> open_window();
  void close();

  Placement placement_;
  std::int64_t bytes_ = 0;
  std::string words_;
  ProcessGroup* group_ = nullptr;
  bool shared_ = false;            // all processes have it
  std::vector<DeviceMemory> own_;  // by local place; empty with windows
  std::vector<Import> imports_;
  std::shared_ptr<NcclWindows> windows_;
  std::vector<std::vector<std::byte*>> bases_;  // [local place][place]
};

}  // namespace a2asim::gpu
