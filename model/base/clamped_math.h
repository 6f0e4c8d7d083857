// Integer arithmetic on numbers that a user gave: the nearest int64 instead of an overflow. The result is only ever
// compared with a limit, so being clamped does not change the answer.
#pragma once

#include <cstdint>
#include <limits>

namespace a2asim {

constexpr std::int64_t clamped_product(std::int64_t a, std::int64_t b) {
  std::int64_t product = 0;
  if (!__builtin_mul_overflow(a, b, &product)) return product;
  return (a < 0) == (b < 0) ? std::numeric_limits<std::int64_t>::max() : std::numeric_limits<std::int64_t>::min();
}

constexpr std::int64_t clamped_sum(std::int64_t a, std::int64_t b) {
  std::int64_t sum = 0;
  if (!__builtin_add_overflow(a, b, &sum)) return sum;
  return a < 0 ? std::numeric_limits<std::int64_t>::min() : std::numeric_limits<std::int64_t>::max();
}

// Rounded up; of a negative number towards zero, as of Python's -(-a // b).
constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return a / b + (a % b > 0 ? 1 : 0); }

}  // namespace a2asim
