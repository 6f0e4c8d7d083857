#include "gpu/symmetric_slices.h"

#include <algorithm>
#include <map>
#include <string>

#include "gpu/launch.h"
#include "model/workspace.h"

namespace a2asim::gpu {
namespace {

constexpr std::int64_t kRedZone_bytes = 64 * 1024;
constexpr int kRedZoneByte = 0xa5;
constexpr std::int64_t kRowAlignment_bytes = 4096;

Result<void> allow_peer_access(std::span<const int> devices) {
  for (const int from : devices) {
    for (const int to : devices) {
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

// Header and slice become zero, the red zone behind them its pattern.
Result<void> clear(std::byte* from, std::byte* red_zone) {
  const int zeroed = cudaMemset(from, 0, static_cast<std::size_t>(red_zone - from));
  if (auto ok = cuda_result(zeroed, "clearing the workspace"); !ok) return ok;
  return cuda_result(cudaMemset(red_zone, kRedZoneByte, kRedZone_bytes), "marking a red zone");
}

}  // namespace

Result<SymmetricSlices> SymmetricSlices::create(std::span<const Slice> slices) {
  SymmetricSlices made;
  made.slices_.resize(slices.size());
  std::map<int, std::vector<std::size_t>> ranks_of;
  for (std::size_t rank = 0; rank < slices.size(); ++rank) {
    made.slice_bytes_.push_back(slices[rank].bytes);
    made.padded_bytes_ = std::max(made.padded_bytes_, align_up(slices[rank].bytes, kRowAlignment_bytes));
    ranks_of[slices[rank].device].push_back(rank);
  }
  std::vector<int> devices;
  for (const auto& entry : ranks_of) devices.push_back(entry.first);
  if (auto ok = allow_peer_access(devices); !ok) return tl::unexpected(ok.error());

  const auto header_bytes = static_cast<std::int64_t>(sizeof(SliceHeader));
  const std::int64_t pitch = kRowAlignment_bytes + header_bytes + made.padded_bytes_ + kRedZone_bytes;
  static_assert(sizeof(SliceHeader) % kRowAlignment_bytes == 0 && kRedZone_bytes % kRowAlignment_bytes == 0);
  for (const auto& [device, ranks] : ranks_of) {
    if (auto ok = cuda_result(cudaSetDevice(device), "cudaSetDevice"); !ok) return tl::unexpected(ok.error());
    auto memory = allocate_device(pitch * static_cast<std::int64_t>(ranks.size()));
    if (!memory) return tl::unexpected(memory.error());
    std::byte* at = memory->get();
    for (const std::size_t rank : ranks) {
      const std::int64_t payload_data = slices[rank].payload_data;
      made.slices_[rank] = at + header_bytes + (align_up(payload_data, kRowAlignment_bytes) - payload_data);
      if (auto ok = clear(at, made.slices_[rank] + made.padded_bytes_); !ok) return tl::unexpected(ok.error());
      at += pitch;
    }
    made.allocations_.push_back(std::move(*memory));
    if (auto ok = cuda_result(cudaDeviceSynchronize(), "clearing the workspace"); !ok)
      return tl::unexpected(ok.error());
  }
  return made;
}

Result<void> SymmetricSlices::check_red_zones() const {
  std::vector<unsigned char> zone(static_cast<std::size_t>(kRedZone_bytes));
  for (std::size_t rank = 0; rank < slices_.size(); ++rank) {
    const int code = cudaMemcpy(zone.data(), slices_[rank] + padded_bytes_, zone.size(), cudaMemcpyDefault);
    if (auto ok = cuda_result(code, "reading a red zone"); !ok) return ok;
    if (std::any_of(zone.begin(), zone.end(), [](unsigned char byte) { return byte != kRedZoneByte; })) {
      return fail(ErrorKind::runtime_error,
                  "the red zone behind rank " + std::to_string(rank) + "'s slice was written");
    }
  }
  return {};
}

}  // namespace a2asim::gpu
