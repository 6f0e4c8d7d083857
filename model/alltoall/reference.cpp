#include "model/alltoall/reference.h"

#include <fmt/format.h>

#include <Eigen/Core>
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "model/alltoall/experts.h"
#include "model/alltoall/number_types.h"
#include "model/base/random.h"
#include "model/alltoall/reduction.h"
#include "model/alltoall/routing.h"

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

// Every reduction shape by the number of rows, from the same text as the kernels.
template <int kTopK>
float sum_shape(const float* rows) {
  return sum_in_combine_shape<kTopK>([rows](int i) { return rows[i]; });
}

float sum_rows(int top_k, const float* rows) {
  switch (top_k) {
    case 2:
      return sum_shape<2>(rows);
    case 4:
      return sum_shape<4>(rows);
    case 6:
      return sum_shape<6>(rows);
    case 8:
      return sum_shape<8>(rows);
    case 10:
      return sum_shape<10>(rows);
    case 16:
      return sum_shape<16>(rows);
    case 22:
      return sum_shape<22>(rows);
    default:
      break;
  }
  float sum = rows[0];
  for (int i = 1; i < top_k; ++i) sum += rows[i];
  return sum;
}

// One element of one token: partials per destination, rounded to Number, then combined.
template <class Number>
typename Number::Storage combine_element(const AllToAllConfig& config, const std::int32_t* ids, const float* weights,
                                         const std::int32_t* targets, float x) {
  std::array<float, kMaxTopK> rows = {};
  for (int j = 0; j < config.top_k; ++j) {
    if (targets[j] < 0) continue;
    float partial = 0.0F;
    for (int i = 0; i < config.top_k; ++i) {
      if (target_rank(ids[i], config.num_experts, config.ep_size) != targets[j]) continue;
      partial = closed_form_accumulate(partial, closed_form_factor(weights[i], ids[i]), x);
    }
    rows[static_cast<std::size_t>(j)] = Number::load(Number::store(partial));
  }
  return Number::store(sum_rows(config.top_k, rows.data()));
}

template <class Number>
void combine_all(const AllToAllConfig& config, std::int64_t tokens, const std::int32_t* ids, const float* weights,
                 const std::byte* hidden, std::byte* output) {
  using Storage = typename Number::Storage;
  std::array<std::int32_t, kMaxTopK> targets = {};
  for (std::int64_t t = 0; t < tokens; ++t) {
    const std::int32_t* row_ids = ids + t * config.top_k;
    distinct_targets(row_ids, config.top_k, config.num_experts, config.ep_size, targets.data());
    for (std::int64_t i = t * config.hidden_size; i < (t + 1) * config.hidden_size; ++i) {
      const std::size_t at = static_cast<std::size_t>(i) * sizeof(Storage);
      Storage bits;
      std::memcpy(&bits, hidden + at, sizeof bits);
      bits = combine_element<Number>(config, row_ids, weights + t * config.top_k, targets.data(), Number::load(bits));
      std::memcpy(output + at, &bits, sizeof bits);
    }
  }
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

Result<std::vector<std::byte>> reference_alltoall(const AllToAllConfig& config, std::int64_t tokens,
                                                  std::span<const std::int32_t> expert_ids,
                                                  std::span<const float> weights, std::span<const std::byte> hidden) {
  if (auto ok = validate(config); !ok) return tl::unexpected(ok.error());
  const std::int64_t bytes = tokens * config.combine_bytes_per_token();
  if (auto ok = expect_size("expert ids", expert_ids.size(), tokens * config.top_k); !ok)
    return tl::unexpected(ok.error());
  if (auto ok = expect_size("weights", weights.size(), tokens * config.top_k); !ok) return tl::unexpected(ok.error());
  if (auto ok = expect_size("hidden bytes", hidden.size(), bytes); !ok) return tl::unexpected(ok.error());
  const bool in_range = std::all_of(expert_ids.begin(), expert_ids.end(),
                                    [&](std::int32_t id) { return id >= 0 && id < config.num_experts; });
  if (!in_range) return fail(ErrorKind::bad_input, "reference: an expert id is outside [0, num_experts)");

  std::vector<std::byte> output(hidden.size());
  const bool known = with_number_type(config.combine_type, [&]<class Number>(Number) {
    combine_all<Number>(config, tokens, expert_ids.data(), weights.data(), hidden.data(), output.data());
  });
  if (!known) return fail(ErrorKind::bad_input, "reference: opaque bytes cannot be combined; give a float type");
  return output;
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
