// What the GPU benchmarks share: contents to be sent, and how an error ends the program.
#pragma once

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "gpu/cuda_alltoall.h"
#include "model/base/random.h"

namespace a2asim::bench {

struct Configuration {
  int ep_size;
  std::vector<std::int64_t> tokens;  // one a rank, or one for all
  std::int64_t hidden_size;
  int top_k;
  std::int64_t num_experts;
  double published_dispatch_us;  // FlashInfer fb28d72 on an H200, through graphs
  double published_combine_us;
};

inline void must(const Result<void>& result) {
  if (result) return;
  std::fprintf(stderr, "a2asim-bench-gpu: %s\n", result.error().message.c_str());
  std::exit(1);
}

inline void must(int code, const char* what) { must(gpu::cuda_result(code, what)); }

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// Rows, with their bytes, of every rank of one configuration.
struct Batch {
  std::vector<std::vector<std::int32_t>> experts;
  std::vector<std::vector<std::byte>> hidden, weights;
  std::int64_t tokens = 0;
  std::int64_t copies = 0;  // distinct (token, destination)
  std::int64_t runtime_max = 1;
};

inline Batch draw(const Configuration& shape) {
  Batch batch;
  Random random(0x5eed);
  for (int r = 0; r < shape.ep_size; ++r) {
    const std::int64_t tokens = shape.tokens[shape.tokens.size() == 1 ? 0 : static_cast<std::size_t>(r)];
    batch.runtime_max = std::max(batch.runtime_max, tokens);
    batch.tokens += tokens;
    std::vector<std::int32_t> experts;
    for (std::int64_t t = 0; t < tokens; ++t) {
      std::vector<std::int32_t> row;  // top_k distinct experts, as a router gives them
      while (static_cast<int>(row.size()) < shape.top_k) {
        const auto expert = static_cast<std::int32_t>(random.between(0, shape.num_experts - 1));
        if (std::find(row.begin(), row.end(), expert) == row.end()) row.push_back(expert);
      }
      std::vector<std::int32_t> targets(row.size());
      batch.copies += distinct_targets(row.data(), shape.top_k, shape.num_experts, shape.ep_size, targets.data());
      experts.insert(experts.end(), row.begin(), row.end());
    }
    batch.experts.push_back(std::move(experts));
    std::vector<std::uint16_t> hidden(static_cast<std::size_t>(tokens * shape.hidden_size));
    for (std::uint16_t& bits : hidden) bits = static_cast<std::uint16_t>(0x3c00 + (random.next() >> 40 & 0x83ff));
    std::vector<std::byte> bytes(hidden.size() * 2);
    if (!bytes.empty()) std::memcpy(bytes.data(), hidden.data(), bytes.size());
    batch.hidden.push_back(std::move(bytes));
    std::vector<std::byte> weights(static_cast<std::size_t>(tokens * shape.top_k * 4));
    for (std::byte& byte : weights) byte = static_cast<std::byte>(0x3e);  // 0.18 each
    batch.weights.push_back(std::move(weights));
  }
  return batch;
}

inline std::vector<DispatchInput> inputs_of(const Configuration& shape, const Batch& batch) {
  std::vector<DispatchInput> inputs;
  for (std::size_t r = 0; r < batch.experts.size(); ++r) {
    DispatchInput input;
    input.runtime_max_tokens_per_rank = batch.runtime_max;
    input.local_num_tokens = static_cast<std::int64_t>(batch.experts[r].size()) / shape.top_k;
    input.token_selected_experts = batch.experts[r];
    input.payloads = {batch.hidden[r], std::as_bytes(std::span(batch.experts[r])), batch.weights[r]};
    inputs.push_back(std::move(input));
  }
  return inputs;
}

// Payloads as SGLang's: hidden states in bfloat16, expert ids, weights.
inline AllToAllConfig config_of(const Configuration& shape, const Batch& batch) {
  AllToAllConfig config;
  config.ep_size = shape.ep_size;
  config.top_k = shape.top_k;
  config.num_experts = shape.num_experts;
  config.max_num_tokens = batch.runtime_max;
  config.hidden_size = shape.hidden_size;
  config.payload_bytes_per_token = {2 * shape.hidden_size, 4 * shape.top_k, 4 * shape.top_k};
  return config;
}

// The ranks spread over several GPUs, one a GPU: times and bandwidths, one-sided and by NCCL. only: index of a size, or
// -1 for all.
void measure_several_gpus(const std::vector<int>& devices, gpu::PeerMemory peer_memory, int only);

}  // namespace a2asim::bench
