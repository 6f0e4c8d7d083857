#include "model/alltoall/quantization.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "model/alltoall/number_types.h"
#include "model/base/check_invariant.h"

namespace a2asim {
namespace {

struct Float4E2M1 {
  static float load(std::uint32_t bits) {
    const float magnitude = detail::expand_magnitude<1, 1>(bits & 7U);
    return (bits & 8U) != 0 ? -magnitude : magnitude;
  }
  static std::uint32_t store(float value) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    return std::min<std::uint32_t>(detail::round_magnitude<1, 1>(bits & 0x7FFFFFFFU), 7U) | (bits >> 31 << 3);
  }
};

// A power of two: 2^(bits - 127), 0xFF is NaN.
struct Float8E8M0 {
  static float load(std::uint32_t bits) {
    return std::bit_cast<float>(bits == 0 ? 0x400000U : bits == 0xFF ? 0x7FC00000U : bits << 23);
  }
  // The least that is not below a magnitude.
  static std::uint32_t store_up(float magnitude) {
    const auto bits = std::bit_cast<std::uint32_t>(magnitude);
    return bits <= 0x400000U ? 0 : (bits >> 23) + ((bits & 0x7FFFFFU) != 0 ? 1 : 0);
  }
};

float largest_of(std::span<const float> block) {
  float largest = 0.0F;
  for (const float x : block) largest = std::max(largest, std::abs(x));
  return largest;
}

void quantize_nvfp4(std::span<const float> block, std::byte* codes, std::byte& scale) {
  const Float8E4M3::Storage bits = Float8E4M3::store(kNvfp4GlobalScale * (largest_of(block) / 6.0F));
  const float factor = bits == 0 ? 0.0F : kNvfp4GlobalScale / Float8E4M3::load(bits);
  scale = std::byte{bits};
  for (std::size_t i = 0; i < block.size(); i += 2)
    codes[i / 2] = static_cast<std::byte>(Float4E2M1::store(block[i] * factor) |
                                          Float4E2M1::store(block[i + 1] * factor) << 4);
}

void quantize_mxfp8(std::span<const float> block, std::byte* codes, std::byte& scale) {
  const std::uint32_t bits = Float8E8M0::store_up(largest_of(block) / 448.0F);
  scale = static_cast<std::byte>(bits);
  for (std::size_t i = 0; i < block.size(); ++i)
    codes[i] = std::byte{Float8E4M3::store(block[i] / Float8E8M0::load(bits))};
}

void dequantize_nvfp4(const std::byte* codes, std::byte scale, std::span<float> block) {
  const float factor = Float8E4M3::load(std::to_integer<Float8E4M3::Storage>(scale));
  for (std::size_t i = 0; i < block.size(); ++i) {
    const auto code = std::to_integer<std::uint32_t>(codes[i / 2]) >> (i % 2 * 4) & 0xFU;
    block[i] = Float4E2M1::load(code) * factor / kNvfp4GlobalScale;
  }
}

void dequantize_mxfp8(const std::byte* codes, std::byte scale, std::span<float> block) {
  const float factor = Float8E8M0::load(std::to_integer<std::uint32_t>(scale));
  for (std::size_t i = 0; i < block.size(); ++i)
    block[i] = Float8E4M3::load(std::to_integer<Float8E4M3::Storage>(codes[i])) * factor;
}

// each(block, its codes, its scale)
template <class Row, class Each>
void for_blocks(DispatchType type, Row row, const Each& each) {
  const auto elements = static_cast<std::size_t>(block_elements(type));
  A2ASIM_INVARIANT(type != DispatchType::bf16 && row.size() % elements == 0, "a quantised row has whole blocks");
  const std::size_t bytes = type == DispatchType::nvfp4 ? elements / 2 : elements;
  for (std::size_t block = 0; block * elements < row.size(); ++block)
    each(row.subspan(block * elements, elements), block * bytes, block);
}

}  // namespace

void quantize_row(DispatchType type, std::span<const float> row, std::byte* codes, std::byte* scales) {
  const auto quantize = type == DispatchType::nvfp4 ? quantize_nvfp4 : quantize_mxfp8;
  for_blocks(type, row, [&](std::span<const float> block, std::size_t code, std::size_t scale) {
    quantize(block, codes + code, scales[scale]);
  });
}

void dequantize_row(DispatchType type, const std::byte* codes, const std::byte* scales, std::span<float> row) {
  const auto dequantize = type == DispatchType::nvfp4 ? dequantize_nvfp4 : dequantize_mxfp8;
  for_blocks(type, row, [&](std::span<float> block, std::size_t code, std::size_t scale) {
    dequantize(codes + code, scales[scale], block);
  });
}

}  // namespace a2asim
