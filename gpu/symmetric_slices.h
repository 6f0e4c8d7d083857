// The ranks' slices of the symmetric workspace on the devices: one allocation a device.
//
// In front of every slice lies its SliceHeader (launch.h), behind it a red zone. Slices are as large as the largest
// rank's, so that ranks whose configurations differ still write into memory of this allocation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "gpu/device_memory.h"

namespace a2asim::gpu {

class SymmetricSlices {
 public:
  struct Slice {
    std::int64_t bytes = 0;
    std::int64_t payload_data = 0;  // this byte of the slice lies on a 4 KiB boundary: rows on such take 5 % less time
    int device = 0;
  };
  // One a rank. All bytes are zero afterwards. Where several devices take part, each gets access to the others' memory
  // (peer access); an error names the pair that cannot.
  static Result<SymmetricSlices> create(std::span<const Slice> slices);

  std::byte* slice(int rank) const { return slices_[static_cast<std::size_t>(rank)]; }
  std::int64_t slice_bytes(int rank) const { return slice_bytes_[static_cast<std::size_t>(rank)]; }

  // An error that names the first rank behind whose slice something wrote.
  Result<void> check_red_zones() const;

 private:
  std::vector<DeviceMemory> allocations_;
  std::vector<std::byte*> slices_;
  std::vector<std::int64_t> slice_bytes_;
  std::int64_t padded_bytes_ = 0;  // of every slice
};

}  // namespace a2asim::gpu
