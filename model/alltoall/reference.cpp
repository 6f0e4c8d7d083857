#include "model/alltoall/reference.h"

#include <fmt/format.h>

#include <Eigen/Core>
#include <algorithm>
#include <cmath>
#include <cstring>

#include "model/alltoall/experts.h"
#include "model/alltoall/number_types.h"
#include "model/base/random.h"

namespace a2asim {
namespace {

Result<void> expect_size(std::string_view what, std::size_t size, std::int64_t wanted) {
  if (static_cast<std::int64_t>(size) == wanted) return {};
  return fail(ErrorKind::bad_input, fmt::format("reference: {} has {} entries; give {}", what, size, wanted));
}

template <class Scalar>
void scale_row(std::int64_t expert, std::span<const Scalar> x, std::span<Scalar> y) {
  const auto scale = static_cast<Scalar>(closed_form_scale(static_cast<std::int32_t>(expert)));
  for (std::size_t i = 0; i < x.size(); ++i) y[i] = scale * x[i];
}

}  // namespace

void ClosedFormExperts::forward(std::int64_t expert, std::span<const float> x, std::span<float> y) const {
  scale_row(expert, x, y);
}
void ClosedFormExperts::forward(std::int64_t expert, std::span<const double> x, std::span<double> y) const {
  scale_row(expert, x, y);
}

FeedForwardExperts::FeedForwardExperts(std::int64_t num_experts, std::int64_t hidden_size, std::int64_t inner_size,
                                       std::uint64_t seed)
    : hidden_size_(hidden_size), inner_size_(inner_size) {
  Random random(seed);
  weights_.resize(static_cast<std::size_t>(num_experts * 2 * inner_size * hidden_size));
  for (float& weight : weights_) weight = static_cast<float>(random.between(-1, 1));
  weights64_.assign(weights_.begin(), weights_.end());
}

template <class Scalar>
void FeedForwardExperts::apply(const std::vector<Scalar>& weights, std::int64_t expert, std::span<const Scalar> x,
                               std::span<Scalar> y) const {
  using Matrix = Eigen::Matrix<Scalar, Eigen::Dynamic, Eigen::Dynamic>;
  using Vector = Eigen::Matrix<Scalar, Eigen::Dynamic, 1>;
  const Scalar* up = weights.data() + expert * 2 * inner_size_ * hidden_size_;
  const Scalar* down = up + inner_size_ * hidden_size_;
  const Eigen::Map<const Vector> input(x.data(), hidden_size_);
  Vector inner = Eigen::Map<const Matrix>(up, inner_size_, hidden_size_) * input;
  // Not max(0, x): that would turn a NaN, which must stay visible, into 0.
  inner = inner.unaryExpr([](Scalar value) { return value < Scalar{0} ? Scalar{0} : value; }).eval();
  Eigen::Map<Vector>(y.data(), hidden_size_).noalias() =
      Eigen::Map<const Matrix>(down, hidden_size_, inner_size_) * inner;
}

void FeedForwardExperts::forward(std::int64_t expert, std::span<const float> x, std::span<float> y) const {
  apply(weights_, expert, x, y);
}
void FeedForwardExperts::forward(std::int64_t expert, std::span<const double> x, std::span<double> y) const {
  apply(weights64_, expert, x, y);
}

Result<ReferenceResult> reference_moe(const ReferenceInput& in, const ExpertNetwork& experts) {
  if (auto ok = expect_size("expert ids", in.expert_ids.size(), in.tokens * in.top_k); !ok)
    return tl::unexpected(ok.error());
  if (auto ok = expect_size("weights", in.weights.size(), in.tokens * in.top_k); !ok) return tl::unexpected(ok.error());
  if (auto ok = expect_size("hidden", in.hidden.size(), in.tokens * in.hidden_size); !ok)
    return tl::unexpected(ok.error());

  const auto hidden = static_cast<std::size_t>(in.hidden_size);
  ReferenceResult result;
  result.output.assign(in.hidden.size(), 0.0);
  result.magnitude.assign(in.hidden.size(), 0.0);
  std::vector<double> expert_output(hidden);
  for (std::size_t pair = 0; pair < in.expert_ids.size(); ++pair) {
    const std::int32_t expert = in.expert_ids[pair];
    if (expert < 0 || expert >= in.num_experts) continue;
    const std::size_t row = pair / static_cast<std::size_t>(in.top_k) * hidden;
    experts.forward(expert, in.hidden.subspan(row, hidden), std::span(expert_output));
    const double weight = static_cast<double>(in.weights[pair]);
    for (std::size_t i = 0; i < hidden; ++i) {
      result.output[row + i] += weight * expert_output[i];
      result.magnitude[row + i] += std::abs(weight * expert_output[i]);
    }
  }
  return result;
}

Result<std::vector<double>> decode(DataType type, std::span<const std::byte> bytes) {
  std::vector<double> values(bytes.size() / static_cast<std::size_t>(element_bytes(type)));
  const bool known = with_number_type(type, [&]<class Number>(Number) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      typename Number::Storage bits;
      std::memcpy(&bits, bytes.data() + i * sizeof bits, sizeof bits);
      values[i] = static_cast<double>(Number::load(bits));
    }
  });
  if (!known) return fail(ErrorKind::bad_input, "decode: opaque bytes are no numbers; give a float type");
  return values;
}

double tolerance(Tolerance kind, DataType type, double output, double magnitude) {
  double bound = 0.0;
  with_number_type(type, [&]<class Number>(Number) {
    const double unit_roundoff = std::ldexp(1.0, -Number::precision_bits);
    const double smallest = std::ldexp(1.0, Number::min_exponent - Number::precision_bits);  // half a subnormal step
    const double summed = std::abs(output) + (kind == Tolerance::accumulated ? magnitude : 0.0);
    // The float32 sums inside add up to kMaxTopK roundings of 2^-24 of the magnitude.
    bound = unit_roundoff * summed + std::ldexp(magnitude, -19) + smallest;
  });
  return bound;
}

}  // namespace a2asim
