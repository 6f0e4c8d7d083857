// What the GPU benchmarks share: contents to be sent, and how an error ends the program.
#pragma once

#include <algorithm>
#include <chrono>
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

struct EventDestroy {
  void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
};
using OwnedEvent = std::unique_ptr<std::remove_pointer_t<cudaEvent_t>, EventDestroy>;

inline OwnedEvent make_event() {  // on the current device
  cudaEvent_t event = nullptr;
  must(cudaEventCreate(&event), "creating an event");
  return OwnedEvent(event);
}

inline void mark(const OwnedEvent& event, int device, const gpu::OwnedStream& stream) {
  must(cudaSetDevice(device), "cudaSetDevice");
  must(cudaEventRecord(event.get(), stream.get()), "recording an event");
}

// A device's part in copies whose bytes nobody looks at.
struct Lane {
  gpu::DeviceMemory from, to;
  gpu::OwnedStream stream;
  OwnedEvent start, stop;
};

inline Lane make_lane(int device, std::int64_t bytes) {
  must(cudaSetDevice(device), "cudaSetDevice");
  Lane lane;
  for (gpu::DeviceMemory* end : {&lane.from, &lane.to}) {
    auto memory = gpu::allocate_device(bytes);
    if (!memory) must(tl::unexpected(memory.error()));
    must(cudaMemset(memory->get(), 0x5a, static_cast<std::size_t>(bytes)), "filling");
    *end = std::move(*memory);
  }
  must(cudaDeviceSynchronize(), "filling");
  cudaStream_t stream = nullptr;
  must(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "creating a stream");
  lane.stream.reset(stream);
  lane.start = make_event();
  lane.stop = make_event();
  return lane;
}

inline double us_between(const Lane& lane) {  // waits for the stop
  must(cudaEventSynchronize(lane.stop.get()), "waiting");
  float ms = 0;
  must(cudaEventElapsedTime(&ms, lane.start.get(), lane.stop.get()), "reading events");
  return static_cast<double>(ms) * 1000;
}

// Medians of what two calls in turn take, from the host's point of view.
template <class Dispatch, class Combine>
void time_in_turn(const Dispatch& dispatch, const Combine& combine, double& dispatch_us, double& combine_us) {
  using Clock = std::chrono::steady_clock;
  const auto us = [](Clock::duration taken) { return std::chrono::duration<double, std::micro>(taken).count(); };
  std::vector<double> dispatches, combines;
  constexpr int warm_ups = 2, repetitions = 10;
  for (int i = 0; i < warm_ups + repetitions; ++i) {
    const auto start = Clock::now();
    dispatch();
    const auto middle = Clock::now();
    combine();
    if (i < warm_ups) continue;
    dispatches.push_back(us(middle - start));
    combines.push_back(us(Clock::now() - middle));
  }
  dispatch_us = median(dispatches);
  combine_us = median(combines);
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

// Rows that each rank sends to each, [source][destination].
using RowCounts = std::vector<std::vector<std::int64_t>>;

struct NcclNumbers {
  double alltoall_us = 0;                            // ncclAlltoAll of dispatch's bytes, events
  double dispatch_wall_us = 0, combine_wall_us = 0;  // counts, ncclSend and ncclRecv of rows; and of sums
};
NcclNumbers measure_nccl(const std::vector<int>& devices, const RowCounts& rows, std::int64_t dispatch_bytes,
                         std::int64_t combine_bytes);

// Dispatch and combine of one rank on each of several GPUs, as launches alone.
struct Exchange {
  std::vector<gpu::Stream> streams;  // one a GPU
  std::function<Result<void>()> dispatch, combine, finish;
  std::shared_ptr<void> owner;
};
// FlashInfer's kernels, where the program was built with -DFLASHINFER_SOURCE.
Exchange flashinfer_exchange(const AllToAllConfig& config, std::span<const DispatchInput> inputs);

// The ranks spread over several GPUs, one a GPU: times and bandwidths, one-sided and by NCCL. only: index of a size, or
// -1 for all.
void measure_several_gpus(const std::vector<int>& devices, gpu::PeerMemory peer_memory, int only);

}  // namespace a2asim::bench
