// The number types of combine: unpacking to float32 and rounding back once, to nearest even.
// The same bits as model/alltoall/number_types.h, NaN included (CUDA's canonical one).
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>

#include <cstdint>

#include "gpu/launch.h"

namespace a2asim::gpu {

// Per type: elements in a 32-bit word, element i of a word as float32, float32s packed into a word, and -0.0 in every
// element (the identity of addition: x + -0.0 is x also for x = -0.0).
template <NumberType>
struct Number;

template <>
struct Number<NumberType::bfloat16> {
  static constexpr int per_word = 2;
  static constexpr std::uint32_t negative_zeros = 0x80008000u;
  static __device__ float unpack(std::uint32_t word, int i) {
    return __uint_as_float(i == 0 ? word << 16 : word & 0xffff0000u);
  }
  static __device__ std::uint32_t pack(const float (&value)[2]) {
    const __nv_bfloat162 both = __floats2bfloat162_rn(value[0], value[1]);
    std::uint32_t word;
    memcpy(&word, &both, sizeof(word));
    return word;
  }
};

template <>
struct Number<NumberType::float16> {
  static constexpr int per_word = 2;
  static constexpr std::uint32_t negative_zeros = 0x80008000u;
  static __device__ float unpack(std::uint32_t word, int i) {
    return __half2float(__ushort_as_half(static_cast<unsigned short>(i == 0 ? word & 0xffffu : word >> 16)));
  }
  static __device__ std::uint32_t pack(const float (&value)[2]) {
    return static_cast<std::uint32_t>(__half_as_ushort(__float2half_rn(value[1]))) << 16 |
           __half_as_ushort(__float2half_rn(value[0]));
  }
};

template <>
struct Number<NumberType::float32> {
  static constexpr int per_word = 1;
  static constexpr std::uint32_t negative_zeros = 0x80000000u;
  static __device__ float unpack(std::uint32_t word, int) { return __uint_as_float(word); }
  static __device__ std::uint32_t pack(const float (&value)[1]) {
    return isnan(value[0]) ? 0x7fffffffu : __float_as_uint(value[0]);
  }
};

template <>
struct Number<NumberType::float8_e4m3> {
  static constexpr int per_word = 4;
  static constexpr std::uint32_t negative_zeros = 0x80808080u;
  static __device__ float unpack(std::uint32_t word, int i) {
    const auto bits = static_cast<__nv_fp8_storage_t>(word >> (8 * i) & 0xffu);
    return __half2float(__half(__nv_cvt_fp8_to_halfraw(bits, __NV_E4M3)));
  }
  static __device__ std::uint32_t pack(const float (&value)[4]) {
    std::uint32_t word = 0;
    for (int i = 0; i < 4; ++i) {
      const std::uint32_t bits = __nv_cvt_float_to_fp8(value[i], __NV_SATFINITE, __NV_E4M3);
      word |= (isnan(value[i]) ? 0x7fu : bits) << (8 * i);
    }
    return word;
  }
};

}  // namespace a2asim::gpu
