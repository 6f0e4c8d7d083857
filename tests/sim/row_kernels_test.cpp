// One result on every processor: the kernels of all instruction sets give the same bits.
#include "sim/alltoall/row_kernels.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <span>
#include <vector>

#include "model/base/random.h"
#include "tests/main/skip.h"

namespace a2asim {
namespace {

constexpr std::int64_t kMost = 200;
constexpr DataType kTypes[] = {DataType::bfloat16, DataType::float16, DataType::float32, DataType::float8_e4m3};

// Any bits: infinities, NaN and subnormals among them.
std::vector<std::byte> random_row(Random& random, std::int64_t bytes) {
  std::vector<std::byte> row(static_cast<std::size_t>(bytes));
  for (std::byte& byte : row) byte = static_cast<std::byte>(random.below(256));
  return row;
}

// What all kernels make of one input, one after the other.
std::vector<std::byte> results(const RowKernels& kernels, DataType type, int top_k, std::int64_t elements) {
  Random random(static_cast<std::uint64_t>(elements));
  const std::int64_t bytes = elements * element_bytes(type);
  std::vector<std::byte> all, output(static_cast<std::size_t>(bytes));
  const auto keep = [&] { all.insert(all.end(), output.begin(), output.end()); };
  std::vector<std::vector<std::byte>> rows;
  std::vector<const std::byte*> addresses;
  std::vector<float> values(static_cast<std::size_t>(elements));
  for (int j = 0; j < top_k; ++j) {
    rows.push_back(random_row(random, bytes));
    addresses.push_back(rows.back().data());
  }
  for (const std::uint32_t num_local : {1U, 4U, 64U}) {
    std::vector<std::int32_t> ids;
    std::vector<float> weights;
    for (int j = 0; j < top_k; ++j) {
      ids.push_back(static_cast<std::int32_t>(random.between(-1, 64)));
      weights.push_back(static_cast<float>(random.below(1U << 20)) / 3.0F);
    }
    const bool valid =
        kernels.experts({addresses[0], std::as_bytes(std::span(ids)).data(), std::as_bytes(std::span(weights)).data(),
                         output.data(), 1, elements, top_k, 0, num_local, 64});
    CHECK(valid == std::ranges::all_of(ids, [](std::int32_t id) { return id >= 0 && id < 64; }));
    keep();
  }
  kernels.combine(addresses.data(), top_k, elements, output.data());
  keep();
  kernels.load(addresses[0], elements, values.data());
  for (float& value : values) value *= 1.0001F;
  kernels.round(values.data(), elements, output.data());
  keep();
  return all;
}

}  // namespace

TEST_CASE("row kernels: every instruction set gives the bits of the baseline") {
  int compared = 0;
  for (const InstructionSet set : {InstructionSet::avx2, InstructionSet::avx512}) {
    if (!runs_here(set)) continue;
    for (const DataType type : kTypes) {
      for (const int top_k : {1, 2, 3, 6, 8, 10, 16, 22}) {
        for (const std::int64_t elements : {std::int64_t{1}, std::int64_t{31}, std::int64_t{64}, kMost}) {
          CAPTURE(name(type));
          CAPTURE(top_k);
          CAPTURE(elements);
          const auto expected = results(row_kernels(type, top_k, InstructionSet::baseline), type, top_k, elements);
          CHECK(results(row_kernels(type, top_k, set), type, top_k, elements) == expected);
          ++compared;
        }
      }
    }
  }
  if (compared == 0) test::skip("this processor has only the baseline");
}

}  // namespace a2asim
