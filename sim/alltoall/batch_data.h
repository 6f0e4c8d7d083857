// Contents for one dispatch: routing, hidden states and weights, drawn from a seed so that every result is exact.
//
// Hidden states are 0, +-1 or +-2 and weights 1/4, 1/2 or 1: with the closed-form experts every partial sum of up to
// eight experts is exact in bfloat16, float16 and float32, so an output differs from the oracle only where a row does.
// Of quantised rows each block has a power of two of its own before it: no sum spans blocks, and scales differ.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "model/alltoall/alltoall.h"
#include "model/base/random.h"
#include "model/alltoall/reference.h"

namespace a2asim {

enum class RoutingPattern : std::uint8_t {
  distinct,      // top_k different experts, uniform: what a router gives
  with_repeats,  // uniform, repeats allowed
  one_rank,      // all tokens to the experts of the last rank: the largest receive count
};

struct QuantisedRows {
  std::vector<std::byte> codes, scales;
};
// Appends rows of `hidden_size` elements.
void draw_quantised(DispatchType type, std::int64_t rows, std::int64_t hidden_size, Random& random, QuantisedRows& to);
// Rows of hidden states as float64; scales: empty for rows that are not quantised. bad_input for opaque bytes.
Result<std::vector<double>> decode_hidden(const AllToAllConfig& config, DispatchType type,
                                          std::span<const std::byte> hidden, std::span<const std::byte> scales);

// One rank's batch. Payloads: ids, hidden and weights where the config says they are, all others random bytes.
class TokenBatch {
 public:
  TokenBatch() = default;
  // payloads.hidden_payload / weight_payload < 0: there is none.
  TokenBatch(const AllToAllConfig& config, const ExpertPayloads& payloads, std::int64_t tokens, RoutingPattern routing,
            Random& random);

  // Spans into this object: valid until it is moved or destroyed.
  DispatchInput input(std::int64_t runtime_max_tokens_per_rank) const;
  Result<ReferenceResult> reference(const AllToAllConfig& config, const ExpertPayloads& payloads,
                                    const ExpertNetwork& experts) const;

  std::int64_t tokens() const { return tokens_; }
  const std::vector<std::int32_t>& expert_ids() const { return expert_ids_; }
  std::vector<std::int32_t>& expert_ids() { return expert_ids_; }  // routing only: the id payload stays as drawn
  const std::vector<float>& weights() const { return weights_; }
  std::span<const std::byte> payload(int p) const { return payloads_[static_cast<std::size_t>(p)]; }

 private:
  std::int64_t tokens_ = 0;
  std::vector<std::int32_t> expert_ids_;  // [tokens, top_k]
  std::vector<float> weights_;            // [tokens, top_k]
  std::vector<std::vector<std::byte>> payloads_;
};

}  // namespace a2asim
