// The workspace of all ranks: one slice a rank, each alone between two guard zones.
//
// A slice has the size that its rank's configuration gives it, but only its first resident_bytes are backed: the
// counters and flags always, the payloads at numeric fidelity only. Addresses are byte offsets into a slice.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <span>
#include <vector>

#include "model/base/check_invariant.h"

namespace a2asim {

class SymmetricMemory {
 public:
  struct Size {
    std::int64_t slice_bytes = 0;
    std::int64_t resident_bytes = 0;  // <= slice_bytes
  };
  // Zero-filled, as torch.zeros leaves it; pages are taken from the system when they are first written.
  explicit SymmetricMemory(std::span<const Size> sizes);

  std::int64_t slice_bytes(int rank) const { return slices_[static_cast<std::size_t>(rank)].size.slice_bytes; }
  std::int64_t resident_bytes(int rank) const { return slices_[static_cast<std::size_t>(rank)].size.resident_bytes; }

  // [at, at + bytes) of a slice. Staying inside the resident part is the caller's promise, and checked.
  std::byte* at(int rank, std::int64_t at, std::int64_t bytes) const {
    const Slice& slice = slices_[static_cast<std::size_t>(rank)];
    A2ASIM_INVARIANT(at >= 0 && bytes >= 0 && at <= slice.size.resident_bytes - bytes, "access outside a slice");
    return slice.bytes + at;
  }
  // Counters and flags.
  std::int32_t* words(int rank, std::int64_t at_bytes, std::int64_t count) const {
    return reinterpret_cast<std::int32_t*>(at(rank, at_bytes, 4 * count));
  }

  bool guards_intact() const;
  void zero();

 private:
  struct Free {
    void operator()(void* memory) const { std::free(memory); }
  };
  struct Slice {
    Size size;
    std::unique_ptr<void, Free> allocation;
    std::byte* bytes = nullptr;  // aligned to 128
  };
  std::vector<Slice> slices_;
};

}  // namespace a2asim
