// Quantised rows by hand: every number here was worked out from the formats, none was taken from the code.
#include "model/alltoall/quantization.h"

#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

namespace a2asim {
namespace {

struct Row {
  std::vector<int> codes, scales;
  bool operator==(const Row&) const = default;
};

Row quantised(DispatchType type, std::vector<float> values) {
  const auto block = static_cast<std::size_t>(block_elements(type));
  values.resize((values.size() + block - 1) / block * block);
  std::vector<std::byte> codes(type == DispatchType::nvfp4 ? values.size() / 2 : values.size());
  std::vector<std::byte> scales(values.size() / block);
  quantize_row(type, values, codes.data(), scales.data());
  Row row;
  for (const std::byte one : codes) row.codes.push_back(std::to_integer<int>(one));
  for (const std::byte one : scales) row.scales.push_back(std::to_integer<int>(one));
  return row;
}

// One block whose first codes are these, the others 0.
std::vector<float> values_of(DispatchType type, std::vector<int> codes, int scale) {
  const auto block = static_cast<std::size_t>(block_elements(type));
  std::vector<std::byte> bytes;
  for (const int code : codes) bytes.push_back(static_cast<std::byte>(code));
  bytes.resize(block);
  const auto scale_byte = static_cast<std::byte>(scale);
  std::vector<float> values(block);
  dequantize_row(type, bytes.data(), &scale_byte, values);
  return values;
}

// 8 codes of a block of 16, the first in the low half of the first byte; the others are 0.
std::vector<int> packed(const std::vector<int>& codes) {
  std::vector<int> bytes(8);
  for (std::size_t i = 0; i < codes.size(); ++i) bytes[i / 2] |= codes[i] << (i % 2 * 4);
  return bytes;
}

}  // namespace

// Largest 2: the scale is 1344 * 2 / 6 = 448 (0x7E), an element x is rounded as x * 1344 / 448 = 3 x: 2 has code 7
// (6.0), 1 has code 5 (3.0).
TEST_CASE("quantization: NVFP4 of small whole numbers is exact, two codes a byte, the first one low") {
  const Row row = quantised(DispatchType::nvfp4, {2, 1, 0, -1, -2});
  CHECK(row.scales == std::vector<int>{0x7E});
  CHECK(row.codes == packed({7, 5, 0, 0xD, 0xF}));
  const std::vector<float> back = values_of(DispatchType::nvfp4, row.codes, row.scales[0]);
  CHECK(std::vector<float>(back.begin(), back.begin() + 6) == std::vector<float>{2, 1, 0, -1, -2, 0});
  // Half of all: the next power of two of the scale, 224 = 0x76; blocks are their own.
  const Row two = quantised(DispatchType::nvfp4, {1, 0.5F, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, -0.25F});
  CHECK(two.scales == std::vector<int>{0x76, 0x66});
  CHECK(two.codes[0] == 0x57);
  CHECK(two.codes[8] == 0x0F);
}

// With largest 2 an element x has 3 x as what is rounded to 0, 0.5, 1, 1.5, 2, 3, 4, 6.
TEST_CASE("quantization: NVFP4 rounds to the nearest code, ties to the even one") {
  const float third = 1.0F / 3.0F;
  const auto code = [&](float tripled) {
    return quantised(DispatchType::nvfp4, {2, tripled * third}).codes[0] >> 4;
  };
  const std::vector<std::pair<float, int>> rounded = {{0.2F, 0}, {0.3F, 1}, {0.7F, 1}, {0.8F, 2},  {1.2F, 2}, {1.3F, 3},
                                                      {1.7F, 3}, {1.8F, 4}, {2.4F, 4}, {2.6F, 5},  {3.4F, 5}, {3.6F, 6},
                                                      {4.9F, 6}, {5.1F, 7}, {6, 7},    {-0.3F, 9}, {-5.1F, 15}};
  for (const auto& [tripled, wanted] : rounded) {
    CAPTURE(tripled);
    CHECK(code(tripled) == wanted);
  }
  // A third, three times, is exact in float32.
  std::vector<float> between = {6, 0.25F, 0.75F, 1.25F, 1.75F, 2.5F, 3.5F, 5};
  for (float& one : between) one /= 3;
  const Row ties = quantised(DispatchType::nvfp4, between);
  CHECK(ties.scales == std::vector<int>{0x7E});
  CHECK(ties.codes == packed({7, 0, 2, 2, 4, 4, 6, 6}));
}

TEST_CASE("quantization: NVFP4 beyond what a scale holds, below it, and zeros") {
  CHECK(quantised(DispatchType::nvfp4, {}) == Row{});
  CHECK(quantised(DispatchType::nvfp4, {0, 0}) == Row{packed({}), {0}});
  // Larger than 2: the scale stays 448, the codes saturate.
  const Row large = quantised(DispatchType::nvfp4, {1000, -1000, 2, 1});
  CHECK(large.scales == std::vector<int>{0x7E});
  CHECK(large.codes == packed({7, 0xF, 7, 5}));
  // The least scale, 2^-9: 1344 * largest / 6 = 2^-9. A quarter of it rounds to 0, which makes all codes 0.
  const float least = std::ldexp(6.0F / 1344.0F, -9);
  CHECK(quantised(DispatchType::nvfp4, {least}).scales == std::vector<int>{1});
  CHECK(quantised(DispatchType::nvfp4, {least}).codes[0] == 7);
  CHECK(quantised(DispatchType::nvfp4, {least / 4, least / 4}) == Row{packed({}), {0}});
  // A subnormal scale of 3 * 2^-9.
  CHECK(quantised(DispatchType::nvfp4, {3 * least}).scales == std::vector<int>{3});
  CHECK(values_of(DispatchType::nvfp4, {7}, 3)[0] == 6 * std::ldexp(3.0F, -9) / 1344);
}

// 448 is the largest code, 0x7E: a block of largest 2 has scale 2^-7 (2 / 448 is above 2^-8), and 2 is 256 = 0x78.
TEST_CASE("quantization: MXFP8 has the least power of two that makes all fit") {
  const Row row = quantised(DispatchType::mxfp8, {2, 1, -0.5F, 0});
  CHECK(row.scales == std::vector<int>{127 - 7});
  CHECK(std::vector<int>(row.codes.begin(), row.codes.begin() + 5) == std::vector<int>{0x78, 0x70, 0xE8, 0, 0});
  const std::vector<float> back = values_of(DispatchType::mxfp8, row.codes, row.scales[0]);
  CHECK(std::vector<float>(back.begin(), back.begin() + 4) == std::vector<float>{2, 1, -0.5F, 0});
  CHECK(quantised(DispatchType::mxfp8, {448}).scales == std::vector<int>{127});
  CHECK(quantised(DispatchType::mxfp8, {448}).codes[0] == 0x7E);
  CHECK(quantised(DispatchType::mxfp8, {std::nextafter(448.0F, 500.0F)}).scales == std::vector<int>{128});
  CHECK(quantised(DispatchType::mxfp8, {224}).scales == std::vector<int>{126});
  // Ties: 17 lies between 16 = 0x58 and 18 = 0x59, 19 between 18 and 20 = 0x5A; largest 448 keeps the scale at 1.
  const Row ties = quantised(DispatchType::mxfp8, {448, 17, 19, -17});
  CHECK(std::vector<int>(ties.codes.begin(), ties.codes.begin() + 4) == std::vector<int>{0x7E, 0x58, 0x5A, 0xD8});
}

TEST_CASE("quantization: MXFP8 at both ends of float32, and zeros") {
  CHECK(quantised(DispatchType::mxfp8, {0}) == Row{std::vector<int>(32), {0}});
  const float largest = std::numeric_limits<float>::max();
  CHECK(quantised(DispatchType::mxfp8, {largest}).scales == std::vector<int>{127 + 120});  // 2^128 / 448 > 2^119
  const float least = std::numeric_limits<float>::denorm_min();
  CHECK(quantised(DispatchType::mxfp8, {least}).scales == std::vector<int>{0});
  CHECK(quantised(DispatchType::mxfp8, {least}).codes[0] == 0);  // 2^-149 is 2^-22 of 2^-127
  CHECK(quantised(DispatchType::mxfp8, {std::ldexp(256.0F, -127)}).scales == std::vector<int>{0});
  CHECK(quantised(DispatchType::mxfp8, {std::ldexp(256.0F, -127)}).codes[0] == 0x78);
  CHECK(quantised(DispatchType::mxfp8, {std::ldexp(449.0F, -127)}).scales == std::vector<int>{1});
  CHECK(values_of(DispatchType::mxfp8, {0x78}, 0)[0] == std::ldexp(1.0F, -119));
  CHECK(values_of(DispatchType::mxfp8, {0x78}, 1)[0] == std::ldexp(1.0F, -118));
}

TEST_CASE("quantization: a scale of all bits set is NaN under every code, as unwritten memory is") {
  for (const DispatchType type : {DispatchType::nvfp4, DispatchType::mxfp8})
    for (const float value : values_of(type, {0x77, 0xFF}, 0xFF)) CHECK(std::isnan(value));
  // e2m1 has no NaN: unwritten codes under a written scale are numbers; e4m3 has one.
  CHECK(values_of(DispatchType::nvfp4, {0xFF}, 0x7E)[0] == -2);
  CHECK(std::isnan(values_of(DispatchType::mxfp8, {0xFF}, 127)[0]));
}

}  // namespace a2asim
