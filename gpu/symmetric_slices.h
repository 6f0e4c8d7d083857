// The ranks' slices of the symmetric workspace: one allocation a place (placement.h), reached from all of them.
//
// In front of every slice lies its SliceHeader (launch.h), behind it a red zone. Slices are as large as the largest
// rank's, so that ranks whose configurations differ still write into memory of this allocation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "gpu/peer_region.h"
#include "model/base/check_invariant.h"

namespace a2asim::gpu {

class SymmetricSlices {
 public:
  struct Slice {
    std::int64_t bytes = 0;
    std::int64_t payload_data = 0;  // this byte of the slice lies on a 4 KiB boundary: rows on such take 5 % less time
  };
  // One a rank of the world; of each counts what the process says that has it. All bytes are zero afterwards, and every
  // place has access to all others' memory; an error says why not.
  static Result<SymmetricSlices> create(std::span<const Slice> slices, const Placement& placement, PeerMemory wanted,
                                        ProcessGroup* group);

  // As the device of a local place addresses it.
  std::byte* slice(int rank, std::size_t local_place) const;
  // As its own device does where it is local, else as the first local place's.
  std::byte* slice(int rank) const;
  // Makes current the device that addresses slice(rank): NCCL's windows are mapped for their own device alone.
  Result<void> use_device_of(int rank) const;
  std::int64_t slice_bytes(int rank) const { return slice_bytes_[static_cast<std::size_t>(rank)]; }
  bool is_local(int rank) const { return placement_.is_local(place_of(rank)); }
  const PeerRegion& region() const { return *region_; }

  // An error that names the first rank of this process behind whose slice something wrote.
  Result<void> check_red_zones() const;

 private:
  bool is_rank(int rank) const { return rank >= 0 && rank < static_cast<int>(slice_bytes_.size()); }
  std::size_t place_of(int rank) const {
    A2ASIM_INVARIANT(is_rank(rank), "places are of ranks");
    return placement_.place_of_rank(static_cast<std::size_t>(rank), slice_bytes_.size());
  }
  Result<void> clear() const;

  Placement placement_;
  std::unique_ptr<PeerRegion> region_;
  std::vector<std::int64_t> slice_bytes_;        // by rank
  std::vector<std::int64_t> offset_bytes_;       // by rank: of the slice in its place's memory
  std::vector<std::int64_t> pitch_start_bytes_;  // by rank: of the slice's header's page
  std::int64_t padded_bytes_ = 0;                // of every slice
};

}  // namespace a2asim::gpu
