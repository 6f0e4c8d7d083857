#include "sim/row_kernels.h"

#include <cstring>
#include <type_traits>

#include "model/experts.h"
#include "model/number_types.h"
#include "model/reduction.h"

namespace a2asim {
namespace {

// Elements handled at a time: a full block has a constant trip count, which even a cautious vectoriser takes.
constexpr std::int64_t kBlock = 64;

template <std::size_t kRow_bytes>
void gather_fixed(std::byte* __restrict destination, const std::byte* __restrict source, const std::int32_t* tokens,
                  std::int64_t count) {
  for (std::int64_t i = 0; i < count; ++i) {
    std::memcpy(destination + static_cast<std::size_t>(i) * kRow_bytes,
                source + static_cast<std::size_t>(tokens[i]) * kRow_bytes, kRow_bytes);
  }
}

// Calls block(first, count) for consecutive blocks; count is a compile-time kBlock but for the last.
template <class Block>
inline void for_blocks(std::int64_t elements, const Block& block) {
  std::int64_t first = 0;
  for (; first + kBlock <= elements; first += kBlock) block(first, std::integral_constant<std::int64_t, kBlock>{});
  if (first < elements) block(first, elements - first);
}

template <class Number>
inline void load_block(const std::byte* x, std::int64_t first, std::int64_t count, float* __restrict values) {
  using Storage = typename Number::Storage;
  Storage bits[kBlock];
  std::memcpy(bits, x + static_cast<std::size_t>(first) * sizeof(Storage),
              static_cast<std::size_t>(count) * sizeof(Storage));
  for (std::int64_t i = 0; i < count; ++i) values[i] = Number::load(bits[i]);
}

template <class Number>
inline void store_block(const float* __restrict values, std::int64_t first, std::int64_t count, std::byte* output) {
  using Storage = typename Number::Storage;
  Storage bits[kBlock];
  for (std::int64_t i = 0; i < count; ++i) bits[i] = Number::store(values[i]);
  std::memcpy(output + static_cast<std::size_t>(first) * sizeof(Storage), bits,
              static_cast<std::size_t>(count) * sizeof(Storage));
}

// The usual few experts of a row in one pass.
template <class Number, int kCount>
void expert_row_of(const std::byte* x, const float* factors, std::int64_t elements, std::byte* output) {
  using Storage = typename Number::Storage;
  float factor[kCount];
  for (int e = 0; e < kCount; ++e) factor[e] = factors[e];
  for_blocks(elements, [&](std::int64_t first, auto n) {
    Storage in[kBlock], out[kBlock];
    std::memcpy(in, x + static_cast<std::size_t>(first) * sizeof(Storage),
                static_cast<std::size_t>(n) * sizeof(Storage));
    for (std::int64_t i = 0; i < n; ++i) {
      const float value = Number::load(in[i]);
      float sum = 0.0F;
      for (int e = 0; e < kCount; ++e) sum = closed_form_accumulate(sum, factor[e], value);
      out[i] = Number::store(sum);
    }
    std::memcpy(output + static_cast<std::size_t>(first) * sizeof(Storage), out,
                static_cast<std::size_t>(n) * sizeof(Storage));
  });
}

template <class Number>
void expert_row(const std::byte* x, const float* factors, int count, std::int64_t elements, std::byte* output) {
  switch (count) {
    case 1:
      return expert_row_of<Number, 1>(x, factors, elements, output);
    case 2:
      return expert_row_of<Number, 2>(x, factors, elements, output);
    case 3:
      return expert_row_of<Number, 3>(x, factors, elements, output);
    default:
      break;
  }
  for_blocks(elements, [&](std::int64_t first, auto n) {
    float values[kBlock], sums[kBlock] = {};
    load_block<Number>(x, first, n, values);
    for (int e = 0; e < count; ++e) {
      for (std::int64_t i = 0; i < n; ++i) sums[i] = closed_form_accumulate(sums[i], factors[e], values[i]);
    }
    store_block<Number>(sums, first, n, output);
  });
}

template <class Number, int kTopK>
void combine_tree(const std::byte* const* rows, int, std::int64_t elements, std::byte* output) {
  using Storage = typename Number::Storage;
  const Storage* row[kTopK];
  for (int j = 0; j < kTopK; ++j) row[j] = reinterpret_cast<const Storage*>(rows[j]);
  for_blocks(elements, [&](std::int64_t first, auto n) {
    float sums[kBlock];
    for (std::int64_t i = 0; i < n; ++i) {
      sums[i] = sum_in_combine_shape<kTopK>([&](int j) { return Number::load(row[j][first + i]); });
    }
    store_block<Number>(sums, first, n, output);
  });
}

template <class Number>
void combine_left_to_right(const std::byte* const* rows, int top_k, std::int64_t elements, std::byte* output) {
  for_blocks(elements, [&](std::int64_t first, auto n) {
    float sums[kBlock], values[kBlock];
    load_block<Number>(rows[0], first, n, sums);
    for (int j = 1; j < top_k; ++j) {
      load_block<Number>(rows[j], first, n, values);
      for (std::int64_t i = 0; i < n; ++i) sums[i] += values[i];
    }
    store_block<Number>(sums, first, n, output);
  });
}

template <class Number>
CombineRowKernel combine_shape(int top_k) {
  switch (top_k) {
    case 2:
      return combine_tree<Number, 2>;
    case 4:
      return combine_tree<Number, 4>;
    case 6:
      return combine_tree<Number, 6>;
    case 8:
      return combine_tree<Number, 8>;
    case 10:
      return combine_tree<Number, 10>;
    case 16:
      return combine_tree<Number, 16>;
    case 22:
      return combine_tree<Number, 22>;
    default:
      return combine_left_to_right<Number>;
  }
}

template <class Number>
void round_row(const float* values, std::int64_t elements, std::byte* output) {
  for_blocks(elements, [&](std::int64_t first, auto n) { store_block<Number>(values + first, first, n, output); });
}

template <class Number>
void load_row(const std::byte* x, std::int64_t elements, float* values) {
  for_blocks(elements, [&](std::int64_t first, auto n) { load_block<Number>(x, first, n, values + first); });
}

}  // namespace

void gather_rows(std::byte* destination, const std::byte* source, const std::int32_t* tokens, std::int64_t count,
                 std::int64_t row_bytes) {
  switch (row_bytes) {
    case 4:
      return gather_fixed<4>(destination, source, tokens, count);
    case 8:
      return gather_fixed<8>(destination, source, tokens, count);
    case 16:
      return gather_fixed<16>(destination, source, tokens, count);
    case 32:
      return gather_fixed<32>(destination, source, tokens, count);
    case 64:
      return gather_fixed<64>(destination, source, tokens, count);
    case 128:
      return gather_fixed<128>(destination, source, tokens, count);
    default:
      break;
  }
  for (std::int64_t i = 0; i < count; ++i) {
    std::memcpy(destination + i * row_bytes, source + tokens[i] * row_bytes, static_cast<std::size_t>(row_bytes));
  }
}

ExpertRowKernel expert_row_kernel(DataType type) {
  ExpertRowKernel kernel = nullptr;
  with_number_type(type, [&]<class Number>(Number) { kernel = expert_row<Number>; });
  return kernel;
}

CombineRowKernel combine_row_kernel(DataType type, int top_k) {
  CombineRowKernel kernel = nullptr;
  with_number_type(type, [&]<class Number>(Number) { kernel = combine_shape<Number>(top_k); });
  return kernel;
}

RoundRowKernel round_row_kernel(DataType type) {
  RoundRowKernel kernel = nullptr;
  with_number_type(type, [&]<class Number>(Number) { kernel = round_row<Number>; });
  return kernel;
}

LoadRowKernel load_row_kernel(DataType type) {
  LoadRowKernel kernel = nullptr;
  with_number_type(type, [&]<class Number>(Number) { kernel = load_row<Number>; });
  return kernel;
}

}  // namespace a2asim
