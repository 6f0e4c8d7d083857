// Numbers: drawn ones, those that Python's int() reads, and those that do not fit.
#include <doctest/doctest.h>

#include <array>
#include <limits>
#include <string>
#include <vector>

#include "model/base/clamped_math.h"
#include "model/base/python_int.h"
#include "model/base/random.h"

namespace a2asim {
namespace {

constexpr std::int64_t kLeast = std::numeric_limits<std::int64_t>::min();
constexpr std::int64_t kMost = std::numeric_limits<std::int64_t>::max();

TEST_CASE("random: the numbers of xoshiro256** seeded by splitmix64, as its authors publish them") {
  Random zero(0), other(42);
  for (const std::uint64_t expected :
       {0x99ec5f36cb75f2b4U, 0xbf6e1f784956452aU, 0x1a5f849d4933e6e0U, 0x6aa594f1262d2d2cU})
    CHECK(zero.next() == expected);
  for (const std::uint64_t expected :
       {0x15780b2e0c2ec716U, 0x6104d9866d113a7eU, 0xae17533239e499a1U, 0xecb8ad4703b360a1U})
    CHECK(other.next() == expected);
}

TEST_CASE("random: ranges have both ends, and a chance is its ratio") {
  Random random(1);
  std::array<int, 4> below{}, between{};
  int happened = 0, never = 0, always = 0;
  for (int i = 0; i < 4000; ++i) {
    ++below[random.below(4)];
    const std::int64_t value = random.between(-1, 2);
    REQUIRE((value >= -1 && value <= 2));
    ++between[static_cast<std::size_t>(value + 1)];
    happened += random.chance(1, 4) ? 1 : 0;
    never += random.chance(0, 3) ? 1 : 0;
    always += random.chance(3, 3) ? 1 : 0;
  }
  for (const int count : below) CHECK(std::abs(count - 1000) < 150);
  for (const int count : between) CHECK(std::abs(count - 1000) < 150);
  CHECK(std::abs(happened - 1000) < 150);
  CHECK(never == 0);
  CHECK(always == 4000);
  CHECK(random.between(7, 7) == 7);
}

TEST_CASE("python int: what int() reads, and what it refuses") {
  const std::vector<std::pair<std::string, std::int64_t>> good = {{"0", 0},
                                                                  {"-0", 0},
                                                                  {"+7", 7},
                                                                  {"007", 7},
                                                                  {" 12 ", 12},
                                                                  {"\t1\n\r\f\v", 1},
                                                                  {"4_096", 4096},
                                                                  {"1_0_0", 100},
                                                                  {"-1_0", -10},
                                                                  {"9", 9},
                                                                  {"\x1c\x1d\x1e\x1f"
                                                                   "5",
                                                                   5},
                                                                  {"9223372036854775807", kMost},
                                                                  {"-9223372036854775808", kLeast},
                                                                  {"-9223372036854775807", -kMost}};
  for (const auto& [text, value] : good) {
    CAPTURE(text);
    CHECK(python_int(text).status == PythonInt::Status::ok);
    CHECK(python_int(text).value == value);
  }
  for (const std::string text : {"",    " ",   "-", "+",  "--1", "+-1", "- 1", "_1", "1_", "1__0", "1 0", "1.0",
                                 "1e3", "0x1", "a", "1a", "a1",  "-_1", "+1_", "1-", "/",  ":",    "1/2", "1:"}) {
    CAPTURE(text);
    CHECK(python_int(text).status == PythonInt::Status::invalid);
  }
  for (const auto& [text, nearest] :
       std::vector<std::pair<std::string, std::int64_t>>{{"9223372036854775808", kMost},
                                                         {"9223372036854775810", kMost},
                                                         {"99999999999999999999", kMost},
                                                         {"-9223372036854775809", kLeast},
                                                         {"-99999999999999999999", kLeast},
                                                         {std::string(4300, '9'), kMost}}) {
    CAPTURE(text);
    CHECK(python_int(text).status == PythonInt::Status::too_large);
    CHECK(python_int(text).value == nearest);
  }
  CHECK(python_int(std::string(4299, '0') + "1").value == 1);
  CHECK(python_int(std::string(4300, '0') + "1").status == PythonInt::Status::invalid);
  CHECK(python_int("0_" + std::string(4299, '1')).status == PythonInt::Status::too_large);  // underscores are no digits
}

TEST_CASE("clamped: the exact result where it fits, else the nearest int64") {
  using Wide = __int128;
  const auto nearest = [](Wide value) {
    return value > kMost ? kMost : value < kLeast ? kLeast : static_cast<std::int64_t>(value);
  };
  const std::int64_t half = std::int64_t{1} << 31;
  for (const std::int64_t a : {kLeast, kLeast + 1, -half, std::int64_t{-2}, std::int64_t{-1}, std::int64_t{0},
                               std::int64_t{1}, std::int64_t{2}, half, 4 * half, kMost - 1, kMost})
    for (const std::int64_t b : {kLeast, -4 * half, std::int64_t{-3}, std::int64_t{-1}, std::int64_t{0},
                                 std::int64_t{1}, std::int64_t{3}, half, kMost}) {
      CAPTURE(a);
      CAPTURE(b);
      CHECK(clamped_product(a, b) == nearest(Wide{a} * b));
      CHECK(clamped_sum(a, b) == nearest(Wide{a} + b));
    }
  for (std::int64_t a = -9; a <= 9; ++a)
    for (std::int64_t b = 1; b <= 4; ++b) {
      std::int64_t up = -9;  // the least multiple that reaches a
      while (up * b < a) ++up;
      CHECK(ceil_div(a, b) == up);
    }
}

}  // namespace
}  // namespace a2asim
