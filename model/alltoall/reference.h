// The oracle: the dense mixture-of-experts result, computed without any all-to-all, in float64.
//
// output[t] = sum over j < top_k of weight[t, j] * expert(id[t, j])(hidden[t]). An id outside [0, num_experts)
// contributes nothing (padding rows). Duplicate experts count as often as they appear.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "model/alltoall/alltoall.h"

namespace a2asim {

// What one expert does to a row, before the weight. Both precisions, so that the simulated ranks and the oracle share
// one definition.
class ExpertNetwork {
 public:
  virtual ~ExpertNetwork() = default;
  ExpertNetwork(const ExpertNetwork&) = delete;
  ExpertNetwork& operator=(const ExpertNetwork&) = delete;
  // x, y: [hidden_size]; 0 <= expert < num_experts. y is overwritten and does not overlap x.
  virtual void forward(std::int64_t expert, std::span<const float> x, std::span<float> y) const = 0;
  virtual void forward(std::int64_t expert, std::span<const double> x, std::span<double> y) const = 0;

 protected:
  ExpertNetwork() = default;
};

// scale(e) * x: AllToAll::experts in the form the oracle wants.
class ClosedFormExperts final : public ExpertNetwork {
 public:
  void forward(std::int64_t expert, std::span<const float> x, std::span<float> y) const override;
  void forward(std::int64_t expert, std::span<const double> x, std::span<double> y) const override;
};

// down * relu(up * x), the weights drawn from {-1, 0, 1}: with small integers in x every product and sum is exact in
// float32, so the order of summation cannot show.
class FeedForwardExperts final : public ExpertNetwork {
 public:
  // Memory: num_experts * 2 * inner_size * hidden_size * 12 bytes.
  FeedForwardExperts(std::int64_t num_experts, std::int64_t hidden_size, std::int64_t inner_size, std::uint64_t seed);
  void forward(std::int64_t expert, std::span<const float> x, std::span<float> y) const override;
  void forward(std::int64_t expert, std::span<const double> x, std::span<double> y) const override;

 private:
  template <class Scalar>
  void apply(const std::vector<Scalar>& weights, std::int64_t expert, std::span<const Scalar> x,
             std::span<Scalar> y) const;

  std::int64_t hidden_size_;
  std::int64_t inner_size_;
  std::vector<float> weights_;     // [num_experts][up [inner, hidden], down [hidden, inner]], column major
  std::vector<double> weights64_;  // the same numbers
};

struct ReferenceInput {
  std::int64_t tokens = 0;
  int top_k = 1;
  std::int64_t num_experts = 1;
  std::int64_t hidden_size = 1;
  std::span<const std::int32_t> expert_ids;  // [tokens, top_k]
  std::span<const float> weights;            // [tokens, top_k]
  std::span<const double> hidden;            // [tokens, hidden_size]
};

struct ReferenceResult {
  std::vector<double> output;     // [tokens, hidden_size]
  std::vector<double> magnitude;  // the same, the sum of absolute values: what rounding errors are relative to
};

// bad_input if a span's size does not fit the shape.
Result<ReferenceResult> reference_moe(const ReferenceInput& input, const ExpertNetwork& experts);

// [count] numbers of a type as float64; bad_input for opaque bytes.
Result<std::vector<double>> decode(DataType type, std::span<const std::byte> bytes);

// How far an output may be from the oracle.
enum class Tolerance : std::uint8_t {
  one_rounding,  // inputs chosen so that all partial sums are exact: only the last rounding shows
  accumulated,   // each rank's partial sum is rounded too
};
// The bound for one element; the type is not opaque.
double tolerance(Tolerance kind, DataType type, double output, double magnitude);

}  // namespace a2asim
