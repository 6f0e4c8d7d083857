#include "sim/conformance/results.h"

#include <cstring>

#include "model/alltoall/experts.h"
#include "model/alltoall/number_types.h"
#include "model/alltoall/quantization.h"
#include "model/alltoall/routing.h"
#include "model/base/check_invariant.h"
#include "model/base/random.h"

namespace a2asim::conformance {
namespace {

// One row: [hidden_size] of Number in and out.
template <class Number>
class RowExperts {
 public:
  RowExperts(const AllToAllConfig& config, int rank, DispatchType type, const ExpertNetwork* network)
      : config_(config),
        type_(type),
        first_(first_expert(rank, config.num_experts, config.ep_size)),
        count_(num_local_experts(rank, config.num_experts, config.ep_size)),
        network_(network),
        x_(static_cast<std::size_t>(config.hidden_size)),
        y_(x_.size()),
        sum_(x_.size()) {}

  // scales: of quantised hidden states.
  void apply(const std::byte* hidden, const std::byte* scales, const std::byte* ids, const std::byte* weights,
             std::byte* out) {
    A2ASIM_INVARIANT(hidden != nullptr && ids != nullptr && weights != nullptr,
                     "a row has hidden states, ids, weights");
    if (type_ != DispatchType::bf16) dequantize_row(type_, hidden, scales, x_);
    for (std::size_t i = 0; i < x_.size() && type_ == DispatchType::bf16; ++i)
      x_[i] = Number::load(read<typename Number::Storage>(hidden, i));
    std::fill(sum_.begin(), sum_.end(), 0.0F);
    for (std::size_t j = 0; j < static_cast<std::size_t>(config_.top_k); ++j) {
      const auto id = read<std::int32_t>(ids, j);
      if (classify_expert_id(id, first_, count_, config_.num_experts, -1) != ExpertIdClass::own) continue;
      add(id, read<float>(weights, j));
    }
    for (std::size_t i = 0; i < sum_.size(); ++i) {
      const auto bits = Number::store(sum_[i]);
      std::memcpy(out + i * sizeof bits, &bits, sizeof bits);
    }
  }

 private:
  template <class T>
  static T read(const std::byte* from, std::size_t i) {
    T value;
    std::memcpy(&value, from + i * sizeof value, sizeof value);
    return value;
  }
  void add(std::int32_t id, float weight) {
    A2ASIM_INVARIANT(id >= first_ && id < first_ + count_, "a rank runs its own experts");
    if (network_ != nullptr) network_->forward(id, std::span<const float>(x_), y_);
    const float factor = network_ != nullptr ? weight : closed_form_factor(weight, id);
    const std::vector<float>& rows = network_ != nullptr ? y_ : x_;
    for (std::size_t i = 0; i < sum_.size(); ++i) sum_[i] = closed_form_accumulate(sum_[i], factor, rows[i]);
  }

  const AllToAllConfig& config_;
  DispatchType type_;
  std::int64_t first_, count_;
  const ExpertNetwork* network_;
  std::vector<float> x_, y_, sum_;
};

}  // namespace

std::vector<std::byte> closed_form_results(const AllToAllConfig& config, int rank, const Received& received,
                                           const ExpertPayloads& payloads, const ExpertNetwork* network) {
  const auto hidden_payload = static_cast<std::size_t>(payloads.hidden_payload);
  const auto id_payload = static_cast<std::size_t>(config.expert_id_payload);
  const auto weight_payload = static_cast<std::size_t>(payloads.weight_payload);
  A2ASIM_INVARIANT(hidden_payload < received.payloads.size() && id_payload < received.payloads.size() &&
                       weight_payload < received.payloads.size(),
                   "experts read hidden states, ids and weights");
  const std::int64_t pitch = config.combine_bytes_per_token();
  std::vector<std::byte> results(static_cast<std::size_t>(received.num_rows() * pitch));
  std::byte* out = results.data();
  with_number_type(config.combine_type, [&]<class Number>(Number) {
    RowExperts<Number> experts(config, rank, payloads.type, network);
    for (std::size_t s = 0; s < received.rows.size(); ++s) {
      const auto row = [&](std::size_t payload, std::int64_t i) {
        return received.payloads[payload][s].data() + i * config.payload_bytes_per_token[payload];
      };
      for (std::int64_t i = 0; i < received.rows[s]; ++i, out += pitch) {
        const std::byte* const scales =
            payloads.is_quantised() ? row(static_cast<std::size_t>(payloads.scale_payload), i) : nullptr;
        experts.apply(row(hidden_payload, i), scales, row(id_payload, i), row(weight_payload, i), out);
      }
    }
  });
  return results;
}

std::vector<std::byte> numbers_of_rows(const AllToAllConfig& config, std::span<const std::byte> rows,
                                       std::int64_t row_bytes) {
  A2ASIM_INVARIANT(row_bytes > 0 && std::ssize(rows) % row_bytes == 0, "rows are whole");
  const std::int64_t count = std::ssize(rows) / row_bytes;
  std::vector<std::byte> results(static_cast<std::size_t>(count * config.combine_bytes_per_token()));
  std::byte* out = results.data();
  with_number_type(config.combine_type, [&]<class Number>(Number) {
    for (std::int64_t row = 0; row < count; ++row) {
      std::uint64_t hash = 0xCBF29CE484222325U;
      for (const std::byte byte :
           rows.subspan(static_cast<std::size_t>(row * row_bytes), static_cast<std::size_t>(row_bytes)))
        hash = (hash ^ std::to_integer<std::uint64_t>(byte)) * 0x100000001B3U;
      Random random(hash);
      for (std::int64_t i = 0; i < config.hidden_size; ++i) {
        const auto bits = Number::store(static_cast<float>(random.between(-2, 2)));
        std::memcpy(out, &bits, sizeof bits);
        out += sizeof bits;
      }
    }
  });
  return results;
}

}  // namespace a2asim::conformance
