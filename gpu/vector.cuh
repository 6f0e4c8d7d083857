// Copies of 1 to 16 bytes, and how a block walks the rows of all its local ranks.
#pragma once

#include "gpu/protocol.cuh"

namespace a2asim::gpu {

inline constexpr int kWarpSize = 32;
inline constexpr unsigned kFullWarp = 0xffffffffu;

template <class T>
__device__ inline T load_once(const std::byte* from) {  // read once: leave the caches to others
  return __ldcs(reinterpret_cast<const T*>(from));
}

__device__ inline uint4 load_vector(const std::byte* from, int width_bytes) {
  uint4 value = {};
  if (width_bytes == 16) {
    value = load_once<uint4>(from);
  } else if (width_bytes == 8) {
    const uint2 half = load_once<uint2>(from);
    value.x = half.x;
    value.y = half.y;
  } else if (width_bytes == 4) {
    value.x = load_once<unsigned>(from);
  } else if (width_bytes == 2) {
    value.x = load_once<unsigned short>(from);
  } else {
    value.x = load_once<unsigned char>(from);
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

// Walks the tokens of all local ranks in one numbering: first all of local rank 0, then of 1, ..
class TokenCursor {
 public:
  __device__ TokenCursor(const LaunchArgs& args, int first) : args_(args), index_(first) { settle(); }
  __device__ bool done() const { return local_ >= args_.num_local_ranks; }
  __device__ void advance(int by) {
    index_ += by;
    settle();
  }
  __device__ const RankArgs& rank() const { return args_.ranks[local_]; }
  __device__ int token() const { return index_; }

 private:
  __device__ void settle() {
    while (local_ < args_.num_local_ranks && index_ >= args_.ranks[local_].num_tokens) {
      index_ -= args_.ranks[local_].num_tokens;
      ++local_;
    }
  }

  const LaunchArgs& args_;
  int index_;      // token within the local rank
  int local_ = 0;  // local rank
};

// Whole rows a block holds at once, one vector a thread, as far as 1024 threads go; then equal parts.
inline int threads_for(int num_vectors, int max_threads) {
  const int parts = (num_vectors + max_threads - 1) / max_threads;
  const int per_part = parts == 0 ? 1 : (num_vectors + parts - 1) / parts;
  const int threads = (per_part + kWarpSize - 1) / kWarpSize * kWarpSize;
  return threads < kWarpSize ? kWarpSize : threads;
}

}  // namespace a2asim::gpu
