#include "sim/alltoall/symmetric_memory.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "model/alltoall/workspace.h"

namespace a2asim {
namespace {

constexpr std::int64_t kGuard_bytes = 256;
constexpr std::byte kGuard{0xA5};
constexpr std::uint64_t kGuardWord = 0xA5A5A5A5A5A5A5A5U;

// Words, because this runs after every collective.
bool is_guard(const std::byte* bytes) {
  std::uint64_t difference = 0;
  for (std::int64_t i = 0; i < kGuard_bytes; i += 8) {
    std::uint64_t word;
    std::memcpy(&word, bytes + i, 8);
    difference |= word ^ kGuardWord;
  }
  return difference == 0;
}

}  // namespace

SymmetricMemory::SymmetricMemory(std::span<const Size> sizes) {
  slices_.reserve(sizes.size());
  for (const Size& size : sizes) {
    A2ASIM_INVARIANT(size.resident_bytes >= 0 && size.resident_bytes <= size.slice_bytes, "resident part too large");
    // Room to align by hand: aligned_alloc would not give pages that are zero without being touched.
    void* memory =
        std::calloc(static_cast<std::size_t>(size.resident_bytes + 2 * kGuard_bytes + kWorkspaceAlignment_bytes), 1);
    if (memory == nullptr) throw std::bad_alloc();
    const auto address = reinterpret_cast<std::uintptr_t>(memory) + kGuard_bytes;
    const auto alignment = static_cast<std::uintptr_t>(kWorkspaceAlignment_bytes);
    const std::uintptr_t padding = (alignment - address % alignment) % alignment;
    auto* bytes = static_cast<std::byte*>(memory) + kGuard_bytes + padding;
    std::fill_n(bytes - kGuard_bytes, kGuard_bytes, kGuard);
    std::fill_n(bytes + size.resident_bytes, kGuard_bytes, kGuard);
    slices_.push_back({size, std::unique_ptr<void, Free>(memory), bytes});
  }
}

bool SymmetricMemory::guards_intact() const {
  return std::all_of(slices_.begin(), slices_.end(), [](const Slice& slice) {
    return is_guard(slice.bytes - kGuard_bytes) && is_guard(slice.bytes + slice.size.resident_bytes);
  });
}

void SymmetricMemory::zero() {
  A2ASIM_INVARIANT(!slices_.empty(), "there is memory to clear");
  for (const Slice& slice : slices_) std::memset(slice.bytes, 0, static_cast<std::size_t>(slice.size.resident_bytes));
}

}  // namespace a2asim
