#include "sim/alltoall/row_kernels.h"

#include <bit>
#include <cstring>
#include <type_traits>

#include "model/alltoall/experts.h"
#include "model/alltoall/number_types.h"
#include "model/alltoall/reduction.h"
#include "model/alltoall/routing.h"

namespace a2asim {
namespace {

// A number at any address.
template <std::size_t kBytes>
struct LooseStorage;
template <>
struct LooseStorage<1> {
  typedef std::uint8_t Type __attribute__((may_alias));
};
template <>
struct LooseStorage<2> {
  typedef std::uint16_t Type __attribute__((aligned(1), may_alias));
};
template <>
struct LooseStorage<4> {
  typedef std::uint32_t Type __attribute__((aligned(1), may_alias));
};
template <class Number>
using Loose = typename LooseStorage<sizeof(typename Number::Storage)>::Type;

// Element `at` of a row, loaded. Not a lambda: one made for a newer processor could not be inlined into reduction.h.
template <class Number>
struct ElementOfRows {
  const typename Number::Storage* const* row;
  std::int64_t at;
  float operator()(int j) const { return Number::load(row[j][at]); }
};

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

// One result on every processor: the kernels only differ in how many elements an instruction takes, and nothing is
// contracted (-ffp-contract=off).
namespace baseline {
#include "model/base/check_invariant.h"
#include "sim/alltoall/row_kernels.inc"
}

#if defined(__x86_64__) && defined(__GNUC__)  // clang too
#define A2ASIM_HAS_WIDE_KERNELS 1
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2"))), apply_to = function)
#else
#pragma GCC push_options
#pragma GCC target("avx2")
#endif
namespace avx2 {
#include "sim/alltoall/row_kernels.inc"
}
#if defined(__clang__)
#pragma clang attribute pop
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512vl,avx512dq"))), apply_to = function)
#else
#pragma GCC pop_options
#pragma GCC push_options
#pragma GCC target("avx512f,avx512bw,avx512vl,avx512dq")
#endif
namespace avx512 {
#include "sim/alltoall/row_kernels.inc"
}
#if defined(__clang__)
#pragma clang attribute pop
#else
#pragma GCC pop_options
#endif
#endif

InstructionSet widest() {
  for (const InstructionSet set : {InstructionSet::avx512, InstructionSet::avx2})
    if (runs_here(set)) return set;
  return InstructionSet::baseline;
}

}  // namespace

void gather_rows(std::byte* destination, const std::byte* source, const std::int32_t* tokens, std::int64_t count,
                 std::int64_t row_bytes) {
  A2ASIM_INVARIANT(count >= 0 && row_bytes > 0, "rows have a number and a size");
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

bool runs_here([[maybe_unused]] InstructionSet set) {
#if defined(A2ASIM_HAS_WIDE_KERNELS)
  if (set == InstructionSet::avx2) return __builtin_cpu_supports("avx2") != 0;
  if (set == InstructionSet::avx512)
    return __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512bw") != 0 &&
           __builtin_cpu_supports("avx512vl") != 0 && __builtin_cpu_supports("avx512dq") != 0;
#endif
  return set == InstructionSet::baseline;
}

RowKernels row_kernels(DataType type, int top_k, [[maybe_unused]] InstructionSet set) {
  A2ASIM_INVARIANT(runs_here(set) && top_k >= 1, "kernels are asked for that run here");
#if defined(A2ASIM_HAS_WIDE_KERNELS)
  if (set == InstructionSet::avx2) return avx2::row_kernels(type, top_k);
  if (set == InstructionSet::avx512) return avx512::row_kernels(type, top_k);
#endif
  return baseline::row_kernels(type, top_k);
}

RowKernels row_kernels(DataType type, int top_k) { return row_kernels(type, top_k, widest()); }

}  // namespace a2asim
