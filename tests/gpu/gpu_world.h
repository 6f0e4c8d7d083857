// Drawing inputs, running a round on the GPU and on the host reference, and comparing every byte.
#pragma once

#include <doctest/doctest.h>

#include <cstdio>
#include <cstdlib>
#include <string>

#include "gpu/cuda_alltoall.h"
#include "host_reference.h"
#include "model/random.h"

namespace a2asim::test {

// True, and a counted skip, where there is no device.
inline bool skip_without_device() {
  const auto devices = gpu::usable_devices();
  if (devices) return false;
  std::printf("SKIPPED: %s\n", devices.error().message.c_str());
  return true;
}

// compute-sanitizer runs one kernel at a time, so launches that meet by flags would wait for each other for ever.
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

// First difference of two byte arrays, as text; empty if there is none.
inline std::string difference(const std::vector<std::byte>& a, const std::vector<std::byte>& b) {
  if (a.size() != b.size()) return "sizes " + std::to_string(a.size()) + " and " + std::to_string(b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (a[i] != b[i]) {
      return "byte " + std::to_string(i) + " of " + std::to_string(a.size()) + ": " +
             std::to_string(static_cast<int>(a[i])) + ", expected " + std::to_string(static_cast<int>(b[i]));
    }
  }
  return "";
}

// The same calls on the GPU and on the reference.
class World {
 public:
  explicit World(std::vector<AllToAllConfig> configs, gpu::CudaOptions options = {})
      : configs_(configs.size() == 1
                     ? std::vector<AllToAllConfig>(static_cast<std::size_t>(configs[0].ep_size), configs[0])
                     : configs),
        reference_(configs_) {
    auto made = gpu::CudaAllToAll::create(configs_, options);
    REQUIRE_MESSAGE(made.has_value(), (made ? std::string() : made.error().message));
    device_ = std::move(*made);
  }

  gpu::CudaAllToAll& device() { return *device_; }
  HostReference& reference() { return reference_; }
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
    ok(device_->check_red_zones());
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
  std::vector<AllToAllConfig> configs_;
  HostReference reference_;
  std::unique_ptr<gpu::CudaAllToAll> device_;
};

}  // namespace a2asim::test
