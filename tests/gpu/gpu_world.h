// Drawing inputs, running a round on the GPU and on the oracle, and comparing every byte.
#pragma once

#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "gpu/cuda_alltoall.h"
#include "gpu/replicated_alltoall.h"
#include "model/base/random.h"
#include "sim/conformance/oracle.h"
#include "tests/main/skip.h"

namespace a2asim::test {
using conformance::difference;
using conformance::Oracle;

// True, and a counted skip, where there is no device.
inline bool skip_without_device() {
  const auto devices = gpu::usable_devices();
  if (devices) return false;
  skip(devices.error().message);
  return true;
}

// compute-sanitizer runs one kernel at a time, so launches that meet by flags would wait for each other forever.
inline bool launches_are_serial() { return std::getenv("A2ASIM_SERIAL_LAUNCHES") != nullptr; }

struct RankInput {
  std::vector<std::int32_t> experts;
  std::vector<std::vector<std::byte>> payloads;
  std::int64_t tokens = 0;
};

// Random bits in every payload, NaN and infinity among them; the id payload holds the ids, the weights small numbers.
inline RankInput draw_input(Random& random, const AllToAllConfig& config, std::int64_t tokens, int weight_payload) {
  RankInput input;
  input.tokens = tokens;
  for (std::int64_t i = 0; i < tokens * config.top_k; ++i) {
    input.experts.push_back(static_cast<std::int32_t>(random.between(0, config.num_experts - 1)));
  }
  for (std::size_t p = 0; p < config.payload_bytes_per_token.size(); ++p) {
    std::vector<std::byte> bytes(static_cast<std::size_t>(tokens * config.payload_bytes_per_token[p]));
    for (std::byte& byte : bytes) byte = static_cast<std::byte>(random.next() >> 13);
    if (static_cast<int>(p) == config.expert_id_payload && !input.experts.empty() &&
        bytes.size() == input.experts.size() * 4) {
      std::memcpy(bytes.data(), input.experts.data(), bytes.size());
    }
    if (static_cast<int>(p) == weight_payload) {
      for (std::size_t i = 0; i + 4 <= bytes.size(); i += 4) {
        const float weight = static_cast<float>(random.between(-1000, 1000)) / 700.0F;
        std::memcpy(bytes.data() + i, &weight, 4);
      }
    }
    input.payloads.push_back(std::move(bytes));
  }
  return input;
}

inline DispatchInput view_of(const RankInput& input, std::int64_t runtime_max) {
  DispatchInput view;
  view.runtime_max_tokens_per_rank = runtime_max;
  view.local_num_tokens = input.tokens;
  view.token_selected_experts = input.experts;
  for (const auto& payload : input.payloads) view.payloads.emplace_back(payload);
  return view;
}

// The usual payloads of SGLang: hidden states, expert ids, weights.
inline AllToAllConfig usual_config(int ep_size, int top_k, std::int64_t experts, std::int64_t max_tokens,
                                   std::int64_t hidden, DataType type = DataType::bfloat16) {
  AllToAllConfig config;
  config.ep_size = ep_size;
  config.top_k = top_k;
  config.num_experts = experts;
  config.max_num_tokens = max_tokens;
  config.combine_type = type;
  config.hidden_size = hidden;
  config.payload_bytes_per_token = {hidden * element_bytes(type), 4 * top_k, 4 * top_k};
  config.max_top_k = std::max(kMaxTopKWorkspace, top_k);
  return config;
}

// The same calls on the GPU and on the reference.
class World {
 public:
  explicit World(const std::vector<AllToAllConfig>& configs, const gpu::CudaOptions& options = {})
      : World(configs, make_device(configs, options)) {}
  // Another backend whose ranks are all local.
  World(const std::vector<AllToAllConfig>& configs, Result<std::unique_ptr<AllToAll>> made)
      : configs_(configs.size() == 1
                     ? std::vector<AllToAllConfig>(static_cast<std::size_t>(configs[0].ep_size), configs[0])
                     : configs),
        reference_(configs_) {
    REQUIRE_MESSAGE(made.has_value(), (made ? std::string() : made.error().message));
    device_ = std::move(*made);
  }

  AllToAll& device() { return *device_; }
  Oracle& reference() { return reference_; }
  const AllToAllConfig& config(std::size_t rank) const { return configs_[rank]; }

  void poison(std::byte value) {
    reference_.poison(value);
    ok(device_->poison(value));
  }

  static void ok(const Result<void>& result) {
    REQUIRE_MESSAGE(result.has_value(), (result ? std::string() : result.error().message));
  }

  void compare_slices(const char* after) {
    for (int rank = 0; rank < static_cast<int>(configs_.size()); ++rank) {
      auto slice = device_->read_slice(rank);
      REQUIRE(slice.has_value());
      const std::string found = difference(*slice, reference_.slice(rank));
      CHECK_MESSAGE(found.empty(), "slice of rank ", rank, " after ", after, ": ", found);
    }
    if (const auto* cuda = dynamic_cast<gpu::CudaAllToAll*>(device_.get())) ok(cuda->check_red_zones());
    if (auto* all = dynamic_cast<gpu::ReplicatedAllToAll*>(device_.get())) ok(all->check_red_zones());
  }

  void compare_outputs(const std::vector<std::vector<std::byte>>& outputs) {
    for (int rank = 0; rank < static_cast<int>(configs_.size()); ++rank) {
      const std::string found = difference(outputs[static_cast<std::size_t>(rank)], reference_.output(rank));
      CHECK_MESSAGE(found.empty(), "output of rank ", rank, ": ", found);
    }
  }

  // One eager round, compared after every call.
  void round(const std::vector<RankInput>& inputs, const std::vector<std::int64_t>& runtime_max, std::int32_t invalid,
             const ExpertPayloads& payloads, bool with_experts = true) {
    std::vector<DispatchInput> views;
    for (std::size_t r = 0; r < inputs.size(); ++r) views.push_back(view_of(inputs[r], runtime_max[r]));
    ok(device_->dispatch(views));
    reference_.dispatch(views);
    compare_slices("dispatch");
    ok(device_->sanitize(invalid));
    reference_.sanitize(invalid);
    compare_slices("sanitize");
    if (with_experts) {
      ok(device_->experts(payloads));
      reference_.experts(payloads);
      compare_slices("experts");
    }
    std::vector<std::vector<std::byte>> outputs;
    ok(device_->combine(runtime_max, outputs));
    reference_.combine(runtime_max);
    compare_slices("combine");
    compare_outputs(outputs);
  }

 private:
  static Result<std::unique_ptr<AllToAll>> make_device(const std::vector<AllToAllConfig>& configs,
                                                       const gpu::CudaOptions& options) {
    if (options.group == nullptr) {
      auto made = gpu::CudaAllToAll::create(configs, options);
      if (!made) return tl::unexpected(made.error());
      return std::unique_ptr<AllToAll>(std::move(*made));
    }
    auto made = gpu::ReplicatedAllToAll::create(configs, options);
    if (!made) return tl::unexpected(made.error());
    return std::unique_ptr<AllToAll>(std::move(*made));
  }

  std::vector<AllToAllConfig> configs_;
  Oracle reference_;
  std::unique_ptr<AllToAll> device_;
};

inline constexpr ExpertPayloads kUsual = {0, 2};

inline std::int64_t largest(const std::vector<std::int64_t>& tokens) {
  return std::max<std::int64_t>(1, *std::max_element(tokens.begin(), tokens.end()));
}

inline std::vector<RankInput> draw_inputs(Random& random, const AllToAllConfig& config,
                                          const std::vector<std::int64_t>& tokens) {
  std::vector<RankInput> inputs;
  for (const std::int64_t count : tokens) inputs.push_back(draw_input(random, config, count, kUsual.weight_payload));
  return inputs;
}

// Several rounds with changing sizes on one poisoned workspace: what earlier rounds left must stay where it was.
inline void run_rounds(World& world, std::uint64_t seed, int rounds) {
  const AllToAllConfig& config = world.config(0);
  world.poison(std::byte{0xff});
  Random random(seed);
  for (int round = 0; round < rounds; ++round) {
    std::vector<std::int64_t> tokens;
    for (int r = 0; r < config.ep_size; ++r) {
      tokens.push_back(random.chance(1, 4) ? 0 : random.between(0, config.max_num_tokens));
    }
    const std::int64_t runtime_max = random.between(largest(tokens), config.max_num_tokens);
    world.round(draw_inputs(random, config, tokens), std::vector<std::int64_t>(tokens.size(), runtime_max),
                round % 2 == 0 ? -1 : static_cast<std::int32_t>(config.num_experts), kUsual);
  }
}

inline void run_rounds(const AllToAllConfig& config, std::uint64_t seed, int rounds,
                       const gpu::CudaOptions& options = {}) {
  World world({config}, options);
  run_rounds(world, seed, rounds);
}

// One rank a launch, with so many tokens as one kernel dispatches, one more, and none.
using TokenPairs = std::vector<std::pair<int, int>>;  // of the first rank, of each other

inline void run_few_and_many(const AllToAllConfig& config, const TokenPairs& pairs, const gpu::CudaOptions& options,
                             std::uint64_t seed) {
  World world({config}, options);
  world.poison(std::byte{0xff});
  Random random(seed);
  const auto ranks = static_cast<std::size_t>(config.ep_size);
  for (const auto& [first, others] : pairs) {
    std::vector<std::int64_t> tokens(ranks, others);
    tokens[0] = first;
    for (int repeated = 0; repeated < 2; ++repeated) {
      world.round(draw_inputs(random, config, tokens), std::vector<std::int64_t>(ranks, config.max_num_tokens), -1,
                  kUsual);
    }
  }
}

// One rank a launch. Then more ids than a block fetches ahead, of experts that the ranks do not share evenly; and rows
// of more vectors than it fetches ahead.
inline void run_few_and_many(const gpu::CudaOptions& options, std::uint64_t seed) {
  const int ranks = static_cast<int>(options.devices.size());
  const TokenPairs pairs = {{256, 257}, {257, 256}, {1, 300}, {0, 33}, {256, 0}, {0, 0}};
  run_few_and_many(usual_config(ranks, 8, 64, 300, 512), pairs, options, seed);
  run_few_and_many(usual_config(ranks, 22, 67, 300, 16), pairs, options, seed + 1);
  run_few_and_many(usual_config(ranks, 4, 8, 20, 10400), {{20, 3}}, options, seed + 2);
}

inline std::vector<DispatchInput> views_of(const std::vector<RankInput>& inputs, std::int64_t runtime_max) {
  std::vector<DispatchInput> views;
  for (const RankInput& input : inputs) views.push_back(view_of(input, runtime_max));
  return views;
}

// Capture, and replay of two buckets in turn.
inline void run_graphs(World& world, std::uint64_t seed) {
  const AllToAllConfig& config = world.config(0);
  const auto ranks = static_cast<std::size_t>(config.ep_size);
  world.poison(std::byte{0xff});
  Random random(seed);
  const auto bucket = [&](std::int64_t rows) {
    return draw_inputs(random, config, std::vector<std::int64_t>(ranks, rows));
  };
  const auto small = world.device().capture(views_of(bucket(4), 4), -1, kUsual);
  const auto big = world.device().capture(views_of(bucket(16), 16), -1, kUsual);
  REQUIRE_MESSAGE(small.has_value(), (small ? std::string() : small.error().message));
  REQUIRE_MESSAGE(big.has_value(), (big ? std::string() : big.error().message));
  world.compare_slices("capture");  // nothing ran
  const auto replay = [&](const std::vector<GraphId>& graphs, const std::vector<RankInput>& inputs,
                          const std::vector<std::int64_t>& baked) {
    std::vector<std::vector<std::byte>> outputs;
    World::ok(world.device().replay(graphs, views_of(inputs, 5), outputs));
    std::vector<DispatchInput> views;
    for (std::size_t r = 0; r < ranks; ++r) views.push_back(view_of(inputs[r], baked[r]));
    world.reference().dispatch(views);
    world.reference().sanitize(-1);
    world.reference().experts(kUsual);
    world.reference().combine(baked);
    world.compare_slices("replay");
    world.compare_outputs(outputs);
  };
  for (int round = 0; round < 3; ++round) {
    replay(std::vector<GraphId>(ranks, *small), bucket(4), std::vector<std::int64_t>(ranks, 4));
    replay(std::vector<GraphId>(ranks, *big), bucket(16), std::vector<std::int64_t>(ranks, 16));
  }
}

}  // namespace a2asim::test
