// Number types against Eigen's, the oracle, and the reduction shape.
#include "model/alltoall/reference.h"

#include <doctest/doctest.h>

#include <Eigen/Core>
#include <bit>
#include <cmath>
#include <cstring>

#include "model/alltoall/number_types.h"
#include "model/base/random.h"
#include "model/alltoall/reduction.h"
#include "sim/alltoall/batch_data.h"
#include "sim/alltoall/row_kernels.h"
#include "sim/conformance/oracle.h"

namespace a2asim {
namespace {

float some_float(Random& random) {
  // Every exponent is as likely as any other, subnormals and specials included.
  return std::bit_cast<float>(static_cast<std::uint32_t>(random.next() >> 32));
}

std::uint16_t eigen_bits(Eigen::half value) { return value.x; }
std::uint16_t eigen_bits(Eigen::bfloat16 value) { return value.value; }

template <class Number, class Type>
void check_against_eigen() {
  int wrong = 0;
  for (std::uint32_t bits = 0; bits < 0x10000U; ++bits) {
    const auto narrow = static_cast<std::uint16_t>(bits);
    const float ours = Number::load(narrow);
    const auto theirs = static_cast<float>(std::bit_cast<Type>(narrow));
    wrong += std::isnan(theirs) ? !std::isnan(ours)
                                : std::bit_cast<std::uint32_t>(ours) != std::bit_cast<std::uint32_t>(theirs);
    // What was loaded is stored back to the same bits; NaN to the one NaN.
    wrong += std::isnan(theirs) ? Number::store(ours) != 0x7FFF : Number::store(ours) != narrow;
  }
  Random random(1);
  for (int i = 0; i < 300'000; ++i) {
    const float value = some_float(random);
    if (std::isnan(value)) continue;
    wrong += Number::store(value) != eigen_bits(static_cast<Type>(value));
  }
  CHECK(wrong == 0);
}

TEST_CASE("bfloat16 and float16 have Eigen's bits") {
  check_against_eigen<Bfloat16, Eigen::bfloat16>();
  check_against_eigen<Float16, Eigen::half>();
  CHECK(Bfloat16::store(std::nanf("")) == 0x7FFF);
  CHECK(Float16::store(-std::nanf("")) == 0x7FFF);
  CHECK(Float32::store(-std::nanf("")) == 0x7FFFFFFF);
}

TEST_CASE("float8_e4m3: the nearest of its 253 numbers, ties to even, saturating") {
  Random random(2);
  int wrong = 0;
  for (int i = 0; i < 20'000; ++i) {
    const float value = static_cast<float>(random.between(-500'000, 500'000)) / 1024.0F;
    const float rounded = Float8E4M3::load(Float8E4M3::store(value));
    double nearest = 1e9;
    for (std::uint32_t bits = 0; bits < 256; ++bits) {
      const float other = Float8E4M3::load(static_cast<std::uint8_t>(bits));
      if (!std::isnan(other)) nearest = std::min(nearest, std::abs(static_cast<double>(other - value)));
    }
    wrong += std::abs(static_cast<double>(rounded - value)) != nearest;
  }
  CHECK(wrong == 0);
  CHECK(Float8E4M3::load(0x7E) == 448.0F);
  CHECK(Float8E4M3::store(1e9F) == 0x7E);
  CHECK(Float8E4M3::store(-1e9F) == 0xFE);
  CHECK(Float8E4M3::load(Float8E4M3::store(17.0F)) == 16.0F);  // a tie between 16 and 18: even significand
  CHECK(Float8E4M3::load(Float8E4M3::store(19.0F)) == 20.0F);
  CHECK(Float8E4M3::load(1) == std::ldexp(1.0F, -9));
  CHECK(std::isnan(Float8E4M3::load(0x7F)));
}

// Powers of two far apart: which of them survive tells in which order they were added.
TEST_CASE("the reduction shape of combine") {
  const auto sum = [](int top_k, std::vector<float> rows) {
    std::vector<const std::byte*> pointers;
    for (float& row : rows) pointers.push_back(reinterpret_cast<const std::byte*>(&row));
    float result = 0;
    row_kernels(DataType::float32, top_k).combine(pointers.data(), top_k, 1, reinterpret_cast<std::byte*>(&result));
    return result;
  };
  const float big = 0x1p24F;
  // In pairs the last 1 survives in 1 - big; left to right both are lost in big.
  CHECK(sum(4, {big, 1, 1, -big}) == 1.0F);
  CHECK(sum(3, {big, 1, -big}) == 0.0F);
  CHECK(sum(12, {big, 1, 1, -big, 0, 0, 0, 0, 0, 0, 0, 0}) == 0.0F);
  CHECK(sum(6, {big, 0, -big, 0, 1, 1}) == 2.0F);  // +(45) last
  CHECK(sum(6, {big, 0, 0, 0, -big, 1}) == 1.0F);  // -big + 1 is exact
  CHECK(sum(8, {big, 1, 0, 0, -big, 0, 0, 0}) == 0.0F);
  CHECK(sum(8, {1, 1, 0, 0, big, 0, -big, 0}) == 2.0F);  // left to right would give 0 or 2 by way of big + 2
  CHECK(sum(12, {1, 0, 0, 0, big, 0, -big, 0, 0, 0, 0, 0}) == 0.0F);
  CHECK(sum(8, {1, 0, 0, 0, big, 0, -big, 0}) == 1.0F);
  CHECK(sum(10, {big, 0, 0, 0, -big, 0, 0, 0, 1, 1}) == 2.0F);
  std::vector<float> rows(22, 0.0F);
  rows[0] = big;
  rows[8] = -big;
  rows[16] = 1;
  rows[21] = 1;
  CHECK(sum(22, rows) == 2.0F);
  CHECK(std::signbit(sum(2, {-0.0F, 0.0F})) == false);  // an unused position adds +0.0
}

TEST_CASE("row kernels: any length, any address of the input") {
  Random random(3);
  for (const std::int64_t elements : {1, 2, 63, 64, 65, 200}) {
    std::vector<std::byte> raw(static_cast<std::size_t>(elements) * 2 + 1),
        output(static_cast<std::size_t>(elements) * 2);
    for (std::byte& byte : raw) byte = static_cast<std::byte>(random.below(0x40));
    const std::int32_t ids[2] = {1, 2};  // scales 0.5 and 0.75
    const float weights[2] = {1.0F, 1.0F};
    const ExpertRows rows{.hidden = raw.data() + 1,
                          .ids = reinterpret_cast<const std::byte*>(ids),
                          .weights = reinterpret_cast<const std::byte*>(weights),
                          .output = output.data(),
                          .count = 1,
                          .elements = elements,
                          .top_k = 2,
                          .first_expert = 0,
                          .num_local_experts = 4,
                          .num_experts = 4};
    CHECK(row_kernels(DataType::bfloat16, 2).experts(rows));
    int wrong = 0;
    for (std::int64_t i = 0; i < elements; ++i) {
      std::uint16_t in, out;
      std::memcpy(&in, raw.data() + 1 + 2 * i, 2);
      std::memcpy(&out, output.data() + 2 * i, 2);
      const float x = Bfloat16::load(in);
      wrong += out != Bfloat16::store((0.0F + 0.5F * x) + 0.75F * x);
    }
    CHECK(wrong == 0);
  }
  CHECK((row_kernels(DataType::opaque, 8).combine == nullptr));
}

TEST_CASE("the oracle by hand") {
  const std::vector<std::int32_t> ids = {0, 3, 2, 2, -1, 9};
  const std::vector<float> weights = {0.5F, 1.0F, 1.0F, 0.25F, 1.0F, 1.0F};
  const std::vector<double> hidden = {4.0, -8.0, 2.0};
  const auto result = reference_moe({3, 2, 4, 1, ids, weights, hidden}, ClosedFormExperts());
  REQUIRE(result.has_value());
  CHECK(result->output[0] == 0.5 * 0.25 * 4 + 1.0 * 1.0 * 4);
  CHECK(result->output[1] == -8 * 0.75 * 1.25);  // a repeated expert counts twice
  CHECK(result->magnitude[1] == 8 * 0.75 * 1.25);
  CHECK(result->output[2] == 0.0);  // padding and garbage count nothing
  CHECK(!reference_moe({3, 2, 4, 2, ids, weights, hidden}, ClosedFormExperts()).has_value());
}

TEST_CASE("feed-forward experts: exact in float32, and different from each other") {
  const FeedForwardExperts experts(4, 16, 12, 5);
  Random random(6);
  std::vector<float> x(16), y(16), first(16);
  for (float& value : x) value = static_cast<float>(random.between(-2, 2));
  std::vector<double> x64(x.begin(), x.end()), y64(16);
  for (std::int64_t expert = 0; expert < 4; ++expert) {
    experts.forward(expert, std::span<const float>(x), std::span(y));
    experts.forward(expert, std::span<const double>(x64), std::span(y64));
    CHECK(std::equal(y.begin(), y.end(), y64.begin(), [](float a, double b) { return static_cast<double>(a) == b; }));
    if (expert == 0) first = y;
    if (expert > 0) CHECK((y != first));
  }
  x[3] = std::nanf("");
  experts.forward(0, std::span<const float>(x), std::span(y));
  CHECK(std::any_of(y.begin(), y.end(), [](float value) { return std::isnan(value); }));
}

TEST_CASE("exact inputs: the all-to-all's order equals the oracle within one rounding") {
  for (const DataType type : {DataType::bfloat16, DataType::float16, DataType::float32}) {
    AllToAllConfig config;
    config.ep_size = 5;
    config.top_k = 8;
    config.num_experts = 23;
    config.hidden_size = 7;
    config.combine_type = type;
    config.payload_bytes_per_token = {7 * element_bytes(type), 32, 32};
    Random random(7);
    const TokenBatch batch(config, {0, 2}, 50, RoutingPattern::distinct, random);
    config.max_num_tokens = 50;
    conformance::Oracle oracle(std::vector<AllToAllConfig>(5, config));
    std::vector<DispatchInput> inputs(5, {50, 0, {}, std::vector<std::span<const std::byte>>(3)});
    inputs[0] = batch.input(50);
    oracle.round(inputs, -1, {0, 2});
    const auto dense = batch.reference(config, {0, 2}, ClosedFormExperts());
    REQUIRE(dense.has_value());
    const auto values = decode(type, oracle.output(0));
    int wrong = 0;
    for (std::size_t i = 0; i < values->size(); ++i) {
      const double bound = tolerance(Tolerance::one_rounding, type, dense->output[i], dense->magnitude[i]);
      wrong += !(std::abs((*values)[i] - dense->output[i]) <= bound);
    }
    CHECK(wrong == 0);
  }
}

}  // namespace
}  // namespace a2asim
