// bfloat16, float16, float32 and float8_e4m3 as bits: load to float32, round back once (to nearest, ties to even).
//
// Written without branches on data, so that loops over rows vectorise. Equal bit for bit to Eigen's types (a test says
// so) except for NaN, which is CUDA's canonical one: 0x7fff, 0x7fff, 0x7fffffff, 0x7f. float8_e4m3 saturates to 448.
#pragma once

#include <bit>
#include <cstdint>

#include "model/alltoall/alltoall.h"

namespace a2asim {

struct Bfloat16 {
  using Storage = std::uint16_t;
  static constexpr DataType type = DataType::bfloat16;
  static constexpr int precision_bits = 8;  // significand, the hidden bit included
  static constexpr int min_exponent = -126;
  static constexpr float load(Storage bits) { return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16); }
  static constexpr Storage store(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t rounded = (bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16;
    return static_cast<Storage>((bits & 0x7FFFFFFFU) > 0x7F800000U ? 0x7FFFU : rounded);
  }
};

struct Float32 {
  using Storage = std::uint32_t;
  static constexpr DataType type = DataType::float32;
  static constexpr int precision_bits = 24;
  static constexpr int min_exponent = -126;
  static constexpr float load(Storage bits) { return std::bit_cast<float>(bits); }
  static constexpr Storage store(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    return (bits & 0x7FFFFFFFU) > 0x7F800000U ? 0x7FFFFFFFU : bits;
  }
};

namespace detail {

// Magnitude of a small format with kMantissa stored bits and this exponent bias, as float32; exact, subnormals too.
template <int kMantissa, int kBias>
constexpr float expand_magnitude(std::uint32_t bits) {
  constexpr float scale = std::bit_cast<float>(static_cast<std::uint32_t>(127 + 127 - kBias) << 23);
  return std::bit_cast<float>(bits << (23 - kMantissa)) * scale;
}

// Bits of the nearest magnitude; too large values give bits beyond the format's largest, for the caller to cap.
template <int kMantissa, int kBias>
constexpr std::uint32_t round_magnitude(std::uint32_t float_bits) {
  constexpr std::uint32_t min_normal = static_cast<std::uint32_t>(127 - kBias + 1) << 23;
  // Adding this power of two leaves a subnormal's bits, rounded by the adder, at the bottom of the sum.
  constexpr std::uint32_t magic = static_cast<std::uint32_t>(127 - kBias + (23 - kMantissa) + 1) << 23;
  const float shifted = std::bit_cast<float>(float_bits) + std::bit_cast<float>(magic);
  const std::uint32_t subnormal = std::bit_cast<std::uint32_t>(shifted) - magic;
  const std::uint32_t odd = (float_bits >> (23 - kMantissa)) & 1U;
  const std::uint32_t half = (1U << (22 - kMantissa)) - 1U;
  const std::uint32_t rebias = static_cast<std::uint32_t>(127 - kBias) << 23;
  const std::uint32_t normal = (float_bits - rebias + half + odd) >> (23 - kMantissa);
  return float_bits < min_normal ? subnormal : normal;
}

}  // namespace detail

struct Float16 {
  using Storage = std::uint16_t;
  static constexpr DataType type = DataType::float16;
  static constexpr int precision_bits = 11;
  static constexpr int min_exponent = -14;
  static constexpr float load(Storage bits) {
    const std::uint32_t magnitude = bits & 0x7FFFU;
    const auto finite = std::bit_cast<std::uint32_t>(detail::expand_magnitude<10, 15>(magnitude));
    const std::uint32_t special = 0x7F800000U | ((magnitude & 0x3FFU) << 13);
    const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x8000U) << 16;
    return std::bit_cast<float>((magnitude < 0x7C00U ? finite : special) | sign);
  }
  static constexpr Storage store(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
    const std::uint32_t rounded = detail::round_magnitude<10, 15>(magnitude);
    // From 65520 on everything rounds to infinity; compared in float32, where the carry cannot wrap.
    const std::uint32_t capped = magnitude >= 0x477FF000U ? 0x7C00U : rounded;
    return static_cast<Storage>(magnitude > 0x7F800000U ? 0x7FFFU : capped | ((bits >> 16) & 0x8000U));
  }
};

struct Float8E4M3 {
  using Storage = std::uint8_t;
  static constexpr DataType type = DataType::float8_e4m3;
  static constexpr int precision_bits = 4;
  static constexpr int min_exponent = -6;
  static constexpr float load(Storage bits) {
    const std::uint32_t magnitude = bits & 0x7FU;
    const auto finite = std::bit_cast<std::uint32_t>(detail::expand_magnitude<3, 7>(magnitude));
    const std::uint32_t sign = static_cast<std::uint32_t>(bits & 0x80U) << 24;
    return std::bit_cast<float>((magnitude == 0x7FU ? 0x7FC00000U : finite) | sign);
  }
  static constexpr Storage store(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    const std::uint32_t magnitude = bits & 0x7FFFFFFFU;
    const std::uint32_t capped = magnitude >= 0x43E00000U ? 0x7EU : detail::round_magnitude<3, 7>(magnitude);
    return static_cast<Storage>(magnitude > 0x7F800000U ? 0x7FU : capped | ((bits >> 24) & 0x80U));
  }
};

// Calls f with a value of the struct above for this type; opaque bytes have no numbers: returns false.
template <class F>
constexpr bool with_number_type(DataType type, F&& f) {
  switch (type) {
    case DataType::bfloat16:
      f(Bfloat16{});
      return true;
    case DataType::float16:
      f(Float16{});
      return true;
    case DataType::float32:
      f(Float32{});
      return true;
    case DataType::float8_e4m3:
      f(Float8E4M3{});
      return true;
    case DataType::opaque:
      return false;
  }
  return false;
}

}  // namespace a2asim
