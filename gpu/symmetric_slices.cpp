#include "gpu/symmetric_slices.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "gpu/group/process_group.h"
#include "gpu/launch.h"
#include "model/alltoall/workspace.h"
#include "model/base/check_invariant.h"

namespace a2asim::gpu {
namespace {

constexpr std::int64_t kRedZone_bytes = 64 * 1024;
constexpr int kRedZoneByte = 0xa5;

// Header and slice become zero, the red zone behind them its pattern.
Result<void> clear_slice(std::byte* from, std::byte* red_zone) {
  A2ASIM_INVARIANT(from != nullptr && from < red_zone, "a red zone lies behind its slice");
  const int zeroed = cudaMemset(from, 0, static_cast<std::size_t>(red_zone - from));
  if (auto ok = cuda_result(zeroed, "clearing the workspace"); !ok) return ok;
  return cuda_result(cudaMemset(red_zone, kRedZoneByte, kRedZone_bytes), "marking a red zone");
}

// Sizes as the process says that has the rank: others may be mistaken, and must not write where nothing is.
Result<std::vector<SymmetricSlices::Slice>> exchange_sizes(std::span<const SymmetricSlices::Slice> own,
                                                           const Placement& placement, ProcessGroup* group) {
  A2ASIM_INVARIANT(!own.empty() && !placement.places.empty(), "ranks have places");
  std::vector<SymmetricSlices::Slice> sizes(own.begin(), own.end());
  if (group == nullptr) return sizes;
  const auto all = group->all_gather(std::string(reinterpret_cast<const char*>(own.data()), own.size_bytes()));
  if (!all) return tl::unexpected(all.error());
  for (std::size_t process = 0; process < all->size(); ++process) {
    const std::size_t ranks = (*all)[process].size() / sizeof(SymmetricSlices::Slice);
    if (ranks == own.size()) continue;
    return fail(ErrorKind::runtime_error, "process " + std::to_string(process) + " has ep_size " +
                                              std::to_string(ranks) + ", process " + std::to_string(placement.process) +
                                              " has " + std::to_string(own.size()));
  }
  for (std::size_t rank = 0; rank < sizes.size(); ++rank) {
    const Place& home = placement.places[placement.place_of_rank(rank, sizes.size())];
    const std::string& bytes = (*all)[static_cast<std::size_t>(home.process)];
    std::memcpy(&sizes[rank], bytes.data() + rank * sizeof sizes[rank], sizeof sizes[rank]);
  }
  return sizes;
}

}  // namespace

Result<SymmetricSlices> SymmetricSlices::create(std::span<const Slice> slices, const Placement& placement,
                                                PeerMemory wanted, ProcessGroup* group) {
  const auto sizes = exchange_sizes(slices, placement, group);
  if (!sizes) return tl::unexpected(sizes.error());
  SymmetricSlices made;
  A2ASIM_INVARIANT(sizes->size() == slices.size(), "every rank has a size");
  made.placement_ = placement;
  for (const Slice& size : *sizes) {
    made.slice_bytes_.push_back(size.bytes);
    made.padded_bytes_ = std::max(made.padded_bytes_, align_up(size.bytes, kRowAlignment_bytes));
  }
  const auto header_bytes = static_cast<std::int64_t>(sizeof(SliceHeader));
  const std::int64_t pitch = kRowAlignment_bytes + header_bytes + made.padded_bytes_ + kRedZone_bytes;
  static_assert(sizeof(SliceHeader) % kRowAlignment_bytes == 0 && kRedZone_bytes % kRowAlignment_bytes == 0);
  std::vector<std::int64_t> ranks_at(placement.places.size(), 0);
  for (std::size_t rank = 0; rank < sizes->size(); ++rank) {
    const std::int64_t start = pitch * ranks_at[placement.place_of_rank(rank, sizes->size())]++;
    const std::int64_t payload_data = (*sizes)[rank].payload_data;
    made.pitch_start_bytes_.push_back(start);
    A2ASIM_INVARIANT(payload_data >= 0 && payload_data <= (*sizes)[rank].bytes, "regions lie inside the slice");
    made.offset_bytes_.push_back(start + header_bytes + align_up(payload_data, kRowAlignment_bytes) - payload_data);
  }
  const std::int64_t most = *std::max_element(ranks_at.begin(), ranks_at.end());
  auto region = PeerRegion::create(placement, pitch * most, wanted, group);
  if (!region) return tl::unexpected(region.error());
  made.region_ = std::move(*region);
  // Nobody may write before all are cleared.
  auto cleared = made.clear();
  if (group != nullptr) cleared = group->agree(cleared);
  if (!cleared) return tl::unexpected(cleared.error());
  return made;
}

Result<void> SymmetricSlices::clear() const {
  A2ASIM_INVARIANT(region_ != nullptr, "there is memory");
  for (int rank = 0; rank < static_cast<int>(slice_bytes_.size()); ++rank) {
    if (!is_local(rank)) continue;
    if (auto ok = use_device_of(rank); !ok) return ok;
    const std::size_t local_place = place_of(rank) - placement_.first_local;
    std::byte* from = region_->base(local_place, place_of(rank)) + pitch_start_bytes_[static_cast<std::size_t>(rank)];
    if (auto ok = clear_slice(from, slice(rank) + padded_bytes_); !ok) return ok;
    if (auto ok = cuda_result(cudaDeviceSynchronize(), "clearing the workspace"); !ok) return ok;
  }
  return {};
}

std::byte* SymmetricSlices::slice(int rank, std::size_t local_place) const {
  A2ASIM_INVARIANT(is_rank(rank) && local_place < placement_.num_local, "a slice is of a rank, seen from a place here");
  return region_->base(local_place, place_of(rank)) + offset_bytes_[static_cast<std::size_t>(rank)];
}

std::byte* SymmetricSlices::slice(int rank) const {
  return slice(rank, is_local(rank) ? place_of(rank) - placement_.first_local : 0);
}

Result<void> SymmetricSlices::use_device_of(int rank) const {
  A2ASIM_INVARIANT(is_rank(rank), "a slice is of a rank");
  const std::size_t place = is_local(rank) ? place_of(rank) : placement_.first_local;
  return cuda_result(cudaSetDevice(placement_.places[place].device), "cudaSetDevice");
}

Result<void> SymmetricSlices::check_red_zones() const {
  A2ASIM_INVARIANT(region_ != nullptr && padded_bytes_ > 0, "there is memory");
  std::vector<unsigned char> zone(static_cast<std::size_t>(kRedZone_bytes));
  for (int rank = 0; rank < static_cast<int>(slice_bytes_.size()); ++rank) {
    if (!is_local(rank)) continue;
    if (auto ok = use_device_of(rank); !ok) return ok;
    const int code = cudaMemcpy(zone.data(), slice(rank) + padded_bytes_, zone.size(), cudaMemcpyDefault);
    if (auto ok = cuda_result(code, "reading a red zone"); !ok) return ok;
    if (std::any_of(zone.begin(), zone.end(), [](unsigned char byte) { return byte != kRedZoneByte; })) {
      return fail(ErrorKind::runtime_error,
                  "the red zone behind rank " + std::to_string(rank) + "'s slice was written");
    }
  }
  return {};
}

}  // namespace a2asim::gpu
