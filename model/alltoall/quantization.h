// Hidden states as quantised rows, with the same bits from every compiler: float32 operations that are rounded once,
// no library. Blocks of elements share a scale, as FlashInfer's fp4_quantize (scales not swizzled) and mxfp8_quantize
// have them:
//
//   nvfp4  blocks of 16: e2m1, two a byte, the first in the low half. Scale: e4m3 of 1344 * largest / 6.
//          A code is x * (1344 / scale) rounded, its value code * scale / 1344.
//   mxfp8  blocks of 32: e4m3. Scale: a power of two as its exponent (ue8m0), the least with largest <= 448 * scale.
//          A code is x / scale rounded, its value code * scale.
//
// Rounded to nearest, ties to even; beyond the largest magnitude (6, 448) that one. 1344 = 448 * 6 / 2 is the global
// scale of a layer that was calibrated with values up to 2: both sides know it, it is not sent. Scales of all bits set
// are NaN, as are the values under them; e2m1 has no NaN: its 0xF is -6.
#pragma once

#include <cstddef>
#include <span>

#include "model/alltoall/payloads.h"

namespace a2asim {

inline constexpr float kNvfp4GlobalScale = 448.0F * 6.0F / 2.0F;

// row: finite numbers, whole blocks. codes and scales: as many bytes as token_payloads() says.
void quantize_row(DispatchType type, std::span<const float> row, std::byte* codes, std::byte* scales);
void dequantize_row(DispatchType type, const std::byte* codes, const std::byte* scales, std::span<float> row);

}  // namespace a2asim
