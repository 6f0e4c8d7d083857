#include "sim/alltoall/batch_data.h"

#include <algorithm>
#include <cstring>

#include "model/alltoall/number_types.h"
#include "model/alltoall/quantization.h"
#include "model/alltoall/routing.h"
#include "model/base/check_invariant.h"

namespace a2asim {
namespace {

std::int32_t draw_expert(const AllToAllConfig& config, RoutingPattern routing, Random& random) {
  if (routing != RoutingPattern::one_rank)
    return static_cast<std::int32_t>(random.below(static_cast<std::uint32_t>(config.num_experts)));
  const int last = config.ep_size - 1;
  const auto count = static_cast<std::uint32_t>(num_local_experts(last, config.num_experts, config.ep_size));
  return static_cast<std::int32_t>(first_expert(last, config.num_experts, config.ep_size) + random.below(count));
}

// A router's experts are distinct; where there are too few, repeats it is.
void draw_token(const AllToAllConfig& config, RoutingPattern routing, Random& random, std::int32_t* ids) {
  A2ASIM_INVARIANT(ids != nullptr && config.top_k >= 1, "a token has positions for ids");
  const bool distinct = routing == RoutingPattern::distinct && config.num_experts >= config.top_k;
  for (int j = 0; j < config.top_k; ++j) {
    do {
      ids[j] = draw_expert(config, routing, random);
    } while (distinct && std::find(ids, ids + j, ids[j]) != ids + j);
  }
}

template <class T>
std::vector<std::byte> bytes_of(const std::vector<T>& values) {
  const auto bytes = std::as_bytes(std::span(values));
  return {bytes.begin(), bytes.end()};
}

std::vector<std::byte> draw_bytes(std::int64_t count, Random& random) {
  A2ASIM_INVARIANT(count >= 0, "bytes are counted");
  std::vector<std::byte> bytes(static_cast<std::size_t>(count));
  std::uint64_t word = 0;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    word = i % 8 == 0 ? random.next() : word >> 8;
    bytes[i] = static_cast<std::byte>(word & 0xFF);
  }
  return bytes;
}

std::vector<std::byte> draw_hidden(DataType type, std::int64_t bytes, Random& random) {
  A2ASIM_INVARIANT(bytes >= 0, "bytes are counted");
  std::vector<std::byte> hidden(static_cast<std::size_t>(bytes));
  with_number_type(type, [&]<class Number>(Number) {
    for (std::size_t at = 0; at + sizeof(typename Number::Storage) <= hidden.size();
         at += sizeof(typename Number::Storage)) {
      const auto bits = Number::store(static_cast<float>(random.between(-2, 2)));
      std::memcpy(hidden.data() + at, &bits, sizeof bits);
    }
  });
  return hidden;
}

}  // namespace

void draw_quantised(DispatchType type, std::int64_t rows, std::int64_t hidden_size, Random& random, QuantisedRows& to) {
  const std::int64_t block = block_elements(type);
  A2ASIM_INVARIANT(rows >= 0 && hidden_size % block == 0, "quantised rows have whole blocks");
  const TokenPayloads one = token_payloads(type, hidden_size, 1);
  const auto code_bytes = static_cast<std::size_t>(one.bytes[0]), scale_bytes = static_cast<std::size_t>(one.bytes[1]);
  std::vector<float> row(static_cast<std::size_t>(hidden_size));
  for (std::int64_t i = 0; i < rows; ++i) {
    float unit = 1.0F;
    for (std::int64_t x = 0; x < hidden_size; ++x) {
      if (x % block == 0) unit = 1.0F / static_cast<float>(1U << random.below(4));
      row[static_cast<std::size_t>(x)] = unit * static_cast<float>(random.between(-2, 2));
    }
    to.codes.resize(to.codes.size() + code_bytes);
    to.scales.resize(to.scales.size() + scale_bytes);
    quantize_row(type, row, to.codes.data() + to.codes.size() - code_bytes,
                 to.scales.data() + to.scales.size() - scale_bytes);
  }
}

Result<std::vector<double>> decode_hidden(const AllToAllConfig& config, DispatchType type,
                                          std::span<const std::byte> hidden, std::span<const std::byte> scales) {
  if (type == DispatchType::bf16) return decode(config.combine_type, hidden);
  const auto elements = static_cast<std::size_t>(block_elements(type));
  A2ASIM_INVARIANT(hidden.size() == scales.size() * elements / (type == DispatchType::nvfp4 ? 2 : 1),
                   "every block has a scale");
  std::vector<float> values(scales.size() * elements);
  dequantize_row(type, hidden.data(), scales.data(), values);
  return std::vector<double>(values.begin(), values.end());
}

TokenBatch::TokenBatch(const AllToAllConfig& config, const ExpertPayloads& payloads, std::int64_t tokens,
                     RoutingPattern routing, Random& random)
    : tokens_(tokens), expert_ids_(static_cast<std::size_t>(tokens * config.top_k)), weights_(expert_ids_.size()) {
  A2ASIM_INVARIANT(tokens >= 0 && config.num_experts >= 1, "a batch has a size and experts to choose");
  for (std::int64_t t = 0; t < tokens; ++t) draw_token(config, routing, random, expert_ids_.data() + t * config.top_k);
  for (float& weight : weights_) weight = 1.0F / static_cast<float>(1U << random.below(3));
  QuantisedRows quantised;
  if (payloads.is_quantised()) draw_quantised(payloads.type, tokens, config.hidden_size, random, quantised);
  for (int p = 0; p < static_cast<int>(config.payload_bytes_per_token.size()); ++p) {
    const std::int64_t bytes = tokens * config.payload_bytes_per_token[static_cast<std::size_t>(p)];
    if (p == config.expert_id_payload && bytes == tokens * 4 * config.top_k) {
      payloads_.push_back(bytes_of(expert_ids_));
    } else if (p == payloads.weight_payload) {
      payloads_.push_back(bytes_of(weights_));
    } else if (payloads.is_quantised() && (p == payloads.hidden_payload || p == payloads.scale_payload)) {
      payloads_.push_back(p == payloads.hidden_payload ? quantised.codes : quantised.scales);
    } else if (p == payloads.hidden_payload) {
      payloads_.push_back(draw_hidden(config.combine_type, bytes, random));
    } else {
      payloads_.push_back(draw_bytes(bytes, random));
    }
  }
}

DispatchInput TokenBatch::input(std::int64_t runtime_max_tokens_per_rank) const {
  A2ASIM_INVARIANT(std::ssize(expert_ids_) % std::max<std::int64_t>(tokens_, 1) == 0, "every token has top_k ids");
  DispatchInput input{runtime_max_tokens_per_rank, tokens_, expert_ids_, {}};
  input.payloads.assign(payloads_.begin(), payloads_.end());
  return input;
}

Result<ReferenceResult> TokenBatch::reference(const AllToAllConfig& config, const ExpertPayloads& payloads,
                                             const ExpertNetwork& experts) const {
  A2ASIM_INVARIANT(payloads.hidden_payload >= 0 && payloads.hidden_payload < std::ssize(payloads_),
                   "hidden states are there");
  const auto scales = payloads.is_quantised() ? payload(payloads.scale_payload) : std::span<const std::byte>();
  const auto hidden = decode_hidden(config, payloads.type, payload(payloads.hidden_payload), scales);
  if (!hidden) return tl::unexpected(hidden.error());
  return reference_moe({tokens_, config.top_k, config.num_experts, config.hidden_size, expert_ids_, weights_, *hidden},
                       experts);
}

}  // namespace a2asim
