// Copies of 1 to 16 bytes, and how a block walks the rows of all its local ranks.
#pragma once

#include "gpu/protocol.cuh"

namespace a2asim::gpu {

inline constexpr int kWarpSize = 32;
inline constexpr unsigned kFullWarp = 0xffffffffu;

// Of memory that does not change while the kernel runs.
template <class T>
__device__ inline T load_constant(const std::byte* from) {
  return __ldg(reinterpret_cast<const T*>(from));
}

__device__ inline uint4 load_vector(const std::byte* from, int width_bytes) {
  uint4 value = {};
  if (width_bytes == 16) {
    value = load_constant<uint4>(from);
  } else if (width_bytes == 8) {
    const uint2 half = load_constant<uint2>(from);
    value.x = half.x;
    value.y = half.y;
  } else if (width_bytes == 4) {
    value.x = load_constant<unsigned>(from);
  } else if (width_bytes == 2) {
    value.x = load_constant<unsigned short>(from);
  } else {
    value.x = load_constant<unsigned char>(from);
  }
  return value;
}

__device__ inline void store_vector(std::byte* to, const uint4& value, int width_bytes) {
  if (width_bytes == 16) {
    *reinterpret_cast<uint4*>(to) = value;
  } else if (width_bytes == 8) {
    *reinterpret_cast<uint2*>(to) = make_uint2(value.x, value.y);
  } else if (width_bytes == 4) {
    *reinterpret_cast<unsigned*>(to) = value.x;
  } else if (width_bytes == 2) {
    *reinterpret_cast<unsigned short*>(to) = static_cast<unsigned short>(value.x);
  } else {
    *reinterpret_cast<unsigned char*>(to) = static_cast<unsigned char>(value.x);
  }
}

// The tokens of all local ranks are numbered through: first those of local rank 0, then of 1, .. Which local rank has
// this one; number < first_token[num_local_ranks].
__device__ inline int local_rank_of(const LaunchArgs& args, int number) {
  int low = 0, high = args.num_local_ranks;
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (args.first_token[middle] <= number ? low : high) = middle;
  }
  return low;
}

// Blocks draw their work from a counter: equal shares would wait for the multiprocessors that are farther from the
// memory. Lane 0 of one warp asks, all lanes get the answer.
class TicketCounter {
 public:
  __device__ TicketCounter(std::uint32_t* counter, int already_given) : counter_(counter), given_(already_given) {}
  __device__ void ask() {
    if (threadIdx.x % kWarpSize == 0) ticket_ = atomicAdd(counter_, 1u);
  }
  __device__ int answer() const { return given_ + static_cast<int>(__shfl_sync(kFullWarp, ticket_, 0)); }

 private:
  std::uint32_t* counter_;
  int given_;
  unsigned ticket_ = 0;
};

// Whole rows a block holds at once, one vector a thread, as far as 1024 threads go; then equal parts.
inline int threads_for(int num_vectors, int max_threads) {
  if (num_vectors < 1) return kWarpSize;
  const int parts = (num_vectors + max_threads - 1) / max_threads;
  const int per_part = (num_vectors + parts - 1) / parts;
  return (per_part + kWarpSize - 1) / kWarpSize * kWarpSize;
}

}  // namespace a2asim::gpu
