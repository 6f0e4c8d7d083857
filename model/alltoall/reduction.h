// The shape in which combine sums a token's top_k rows in float32: floating-point addition is not associative, so the
// shape is part of the result. FlashInfer: moeA2ACombineKernel (moeAlltoAllKernels.cu).
//
//   2, 4, 8, 16   balanced tree of neighbours
//   6             ((01)+(23)) + (45)
//   10            (((01)+(23)) + ((45)+(67))) + (89)
//   22            ((0..7) + (8..15)) + (16..21), the eights balanced, the last ((16 17)+(18 19)) + (20 21)
//   others        left to right
//
// Every addition takes subnormal numbers for zero and gives none: FlashInfer compiles with -use_fast_math. With one
// position nothing is added: the row is only rounded, and of float32, which needs no rounding, not a bit changes.
#pragma once

#include <bit>
#include <cstdint>

namespace a2asim {

// A subnormal number becomes the zero of its sign.
constexpr float flushed(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  return std::bit_cast<float>((bits & 0x7F800000U) == 0 ? bits & 0x80000000U : bits);
}
constexpr float add_flushed(float a, float b) { return flushed(flushed(a) + flushed(b)); }

constexpr bool has_tree_shape(int top_k) {
  return top_k == 2 || top_k == 4 || top_k == 6 || top_k == 8 || top_k == 10 || top_k == 16 || top_k == 22;
}

// values(i) gives row i; count is a power of two.
template <int kFirst, int kCount, class Values>
constexpr float sum_balanced(const Values& values) {
  if constexpr (kCount == 1) {
    return values(kFirst);
  } else {
    return add_flushed(sum_balanced<kFirst, kCount / 2>(values),
                       sum_balanced<kFirst + kCount / 2, kCount / 2>(values));
  }
}

template <int kTopK, class Values>
constexpr float sum_in_combine_shape(const Values& values) {
  if constexpr (kTopK == 6 || kTopK == 10) {
    return add_flushed(sum_balanced<0, kTopK - 2>(values), sum_balanced<kTopK - 2, 2>(values));
  } else if constexpr (kTopK == 22) {
    return add_flushed(sum_balanced<0, 16>(values),
                       add_flushed(sum_balanced<16, 4>(values), sum_balanced<20, 2>(values)));
  } else if constexpr (has_tree_shape(kTopK)) {
    return sum_balanced<0, kTopK>(values);
  } else {
    float sum = values(0);
    for (int i = 1; i < kTopK; ++i) sum = add_flushed(sum, values(i));
    return sum;
  }
}

}  // namespace a2asim
