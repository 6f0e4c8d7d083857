// A second, plain reading of the all-to-all's rules on host memory, for the GPU tests: loops over ranks and tokens,
// one byte array a slice. Shares with the kernels only model/alltoall/workspace.h, routing.h, experts.h and the number types.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "model/alltoall/alltoall.h"
#include "model/alltoall/experts.h"
#include "model/alltoall/number_types.h"
#include "model/alltoall/routing.h"

namespace a2asim::test {

class HostReference {
 public:
  explicit HostReference(std::vector<AllToAllConfig> configs) : configs_(std::move(configs)) {
    for (const AllToAllConfig& config : configs_) {
      slices_.emplace_back(static_cast<std::size_t>(config.workspace_bytes()));
    }
    sent_.resize(configs_.size());
  }

  const std::vector<std::byte>& slice(int rank) const { return slices_[static_cast<std::size_t>(rank)]; }
  const std::vector<std::byte>& output(int rank) const { return sent_[static_cast<std::size_t>(rank)].output; }

  void poison(std::byte value) {
    for (int rank = 0; rank < world(); ++rank) {
      auto& slice = slices_[static_cast<std::size_t>(rank)];
      std::fill(slice.begin() + config(rank).layout().payload_data, slice.end(), value);
    }
  }

  void dispatch(const std::vector<DispatchInput>& inputs) {
    for (int rank = 0; rank < world(); ++rank) {
      if (takes_part(rank, rank)) send(rank, inputs[static_cast<std::size_t>(rank)]);
    }
  }

  void sanitize(std::int32_t invalid) {
    invalid_ = invalid;
    for (int rank = 0; rank < world(); ++rank) {
      if (!takes_part(rank, rank)) continue;
      const auto p = static_cast<std::size_t>(config(rank).expert_id_payload);
      const std::int64_t columns = config(rank).payload_bytes_per_token[p] / 4;
      for (int source = 0; source < world(); ++source) {
        for (std::int64_t slot = received(rank, source); slot < runtime_max(rank); ++slot) {
          for (std::int64_t j = 0; j < columns; ++j) put(rank, row_at(rank, p, source, slot) + 4 * j, invalid);
        }
      }
    }
  }

  void experts(const ExpertPayloads& payloads) {
    for (int rank = 0; rank < world(); ++rank) {
      if (!takes_part(rank, rank)) continue;
      with_number_type(config(rank).combine_type, [&](auto type) { apply_experts<decltype(type)>(rank, payloads); });
    }
  }

  void combine(const std::vector<std::int64_t>& runtime_max) {
    for (int rank = 0; rank < world(); ++rank) {
      if (!takes_part(rank, rank)) continue;
      const WorkspaceLayout at = config(rank).layout();
      put(rank, at.flag_val, get<std::int32_t>(rank, at.flag_val) + 1);
      for (int to = 0; to < world(); ++to) {
        if (takes_part(rank, to)) put(to, at.combine_completion_flags + 4 * rank, get<std::int32_t>(rank, at.flag_val));
      }
    }
    for (int rank = 0; rank < world(); ++rank) {
      if (!takes_part(rank, rank)) continue;
      with_number_type(config(rank).combine_type, [&](auto type) {
        sum_tokens<decltype(type)>(rank, runtime_max[static_cast<std::size_t>(rank)]);
      });
    }
  }

 private:
  struct Sent {
    std::int64_t tokens = 0;
    std::int64_t runtime_max = 0;
    std::vector<std::byte> output;
  };

  int world() const { return static_cast<int>(configs_.size()); }
  const AllToAllConfig& config(int rank) const { return configs_[static_cast<std::size_t>(rank)]; }
  std::int64_t runtime_max(int rank) const { return sent_[static_cast<std::size_t>(rank)].runtime_max; }
  bool takes_part(int rank, int peer) const { return (config(rank).active_rank_mask >> peer & 1) != 0; }

  template <class T>
  T get(int rank, std::int64_t at) const {
    T value;
    std::memcpy(&value, slices_[static_cast<std::size_t>(rank)].data() + at, sizeof(T));
    return value;
  }
  template <class T>
  void put(int rank, std::int64_t at, T value) {
    std::memcpy(slices_[static_cast<std::size_t>(rank)].data() + at, &value, sizeof(T));
  }
  std::int32_t received(int rank, int source) const {
    return get<std::int32_t>(rank, config(rank).layout().recv_counters + 4 * source);
  }
  // Row of (source, slot) of payload p, as this rank computes it.
  std::int64_t row_at(int rank, std::size_t p, int source, std::int64_t slot) const {
    const auto& bytes = config(rank).payload_bytes_per_token;
    std::int64_t before = 0;
    for (std::size_t i = 0; i < p; ++i) before += bytes[i];
    return receive_region(config(rank).layout(), world(), runtime_max(rank), before) +
           receive_row(source, slot, runtime_max(rank)) * bytes[p];
  }
  std::int64_t combine_base(int rank) const {
    return combine_region(config(rank).layout(), world(), runtime_max(rank), config(rank).dispatch_bytes_per_token());
  }

  void send(int rank, const DispatchInput& input) {
    const AllToAllConfig& own = config(rank);
    const WorkspaceLayout at = own.layout();
    sent_[static_cast<std::size_t>(rank)] = {input.local_num_tokens, input.runtime_max_tokens_per_rank, {}};
    std::vector<std::int32_t> slots(configs_.size(), 0);
    for (std::int64_t token = 0; token < input.local_num_tokens; ++token) {
      std::vector<std::int32_t> targets(static_cast<std::size_t>(own.top_k));
      distinct_targets(input.token_selected_experts.data() + token * own.top_k, own.top_k, own.num_experts, own.ep_size,
                       targets.data());
      for (int j = 0; j < own.top_k; ++j) {
        std::int32_t to = targets[static_cast<std::size_t>(j)];
        if (to >= 0 && !takes_part(rank, to)) to = -1;
        const std::int32_t slot = to < 0 ? -1 : slots[static_cast<std::size_t>(to)]++;
        put(rank, at.topk_target_ranks + 4 * (token * own.top_k + j), to);
        put(rank, at.topk_send_indices + 4 * (token * own.top_k + j), slot);
        for (std::size_t p = 0; to >= 0 && p < own.payload_bytes_per_token.size(); ++p) {
          const std::int64_t bytes = own.payload_bytes_per_token[p];
          std::memcpy(slices_[static_cast<std::size_t>(to)].data() + row_at(rank, p, rank, slot),
                      input.payloads[p].data() + token * bytes, static_cast<std::size_t>(bytes));
        }
      }
    }
    put(rank, at.flag_val, get<std::int32_t>(rank, at.flag_val) + 1);
    put(rank, at.local_token_counter, static_cast<std::int32_t>(input.local_num_tokens));
    for (int to = 0; to < world(); ++to) {
      put(rank, at.send_counters + 4 * to, slots[static_cast<std::size_t>(to)]);
      if (!takes_part(rank, to)) continue;
      put(to, at.recv_counters + 4 * rank, slots[static_cast<std::size_t>(to)]);
      put(to, at.dispatch_completion_flags + 4 * rank, get<std::int32_t>(rank, at.flag_val));
    }
  }

  template <class Number>
  void apply_experts(int rank, const ExpertPayloads& payloads) {
    using Storage = typename Number::Storage;
    const AllToAllConfig& own = config(rank);
    const std::int64_t first = first_expert(rank, own.num_experts, own.ep_size);
    const std::int64_t count = num_local_experts(rank, own.num_experts, own.ep_size);
    for (int source = 0; source < world(); ++source) {
      const std::int64_t rows = std::min<std::int64_t>(received(rank, source), runtime_max(rank));
      for (std::int64_t slot = 0; slot < rows; ++slot) {
        const std::int64_t hidden = row_at(rank, static_cast<std::size_t>(payloads.hidden_payload), source, slot);
        const std::int64_t ids = row_at(rank, static_cast<std::size_t>(own.expert_id_payload), source, slot);
        const std::int64_t weights = row_at(rank, static_cast<std::size_t>(payloads.weight_payload), source, slot);
        const std::int64_t to =
            combine_base(rank) + receive_row(source, slot, runtime_max(rank)) * own.combine_bytes_per_token();
        for (std::int64_t i = 0; i < own.hidden_size; ++i) {
          constexpr auto size = static_cast<std::int64_t>(sizeof(Storage));
          const float x = Number::load(get<Storage>(rank, hidden + i * size));
          float sum = 0.0F;
          for (int j = 0; j < own.top_k; ++j) {
            const auto id = get<std::int32_t>(rank, ids + 4 * j);
            if (classify_expert_id(id, first, count, own.num_experts, invalid_) != ExpertIdClass::own) continue;
            sum = closed_form_accumulate(sum, closed_form_factor(get<float>(rank, weights + 4 * j), id), x);
          }
          put(rank, to + i * size, Number::store(sum));
        }
      }
    }
  }

  // Kernels' rule spelled out anew: lists of partial sums, folded as the published shapes say.
  static float sum_of(std::vector<float> v) {
    const auto pairs = [](std::vector<float> in) {
      std::vector<float> out;
      for (std::size_t i = 0; i + 1 < in.size(); i += 2) out.push_back(in[i] + in[i + 1]);
      if (in.size() % 2 == 1) out.push_back(in.back());
      return out;
    };
    const std::size_t k = v.size();
    if (k == 2 || k == 4 || k == 6 || k == 8 || k == 10 || k == 16 || k == 22) {
      while (v.size() > 1) v = pairs(v);
    }
    float sum = v[0];
    for (std::size_t i = 1; i < v.size(); ++i) sum = sum + v[i];
    return sum;
  }

  template <class Number>
  void sum_tokens(int rank, std::int64_t combine_runtime_max) {
    using Storage = typename Number::Storage;
    const AllToAllConfig& own = config(rank);
    const WorkspaceLayout at = own.layout();
    Sent& sent = sent_[static_cast<std::size_t>(rank)];
    sent.output.assign(static_cast<std::size_t>(sent.tokens * own.combine_bytes_per_token()), std::byte{0});
    for (std::int64_t token = 0; token < sent.tokens; ++token) {
      for (std::int64_t i = 0; i < own.hidden_size; ++i) {
        std::vector<float> parts;
        for (int j = 0; j < own.top_k; ++j) {
          const std::int64_t entry = 4 * (token * own.top_k + j);
          const auto to = get<std::int32_t>(rank, at.topk_target_ranks + entry);
          const auto slot = get<std::int32_t>(rank, at.topk_send_indices + entry);
          const std::int64_t from = combine_base(rank) +
                                    receive_row(rank, slot, combine_runtime_max) * own.combine_bytes_per_token() +
                                    i * static_cast<std::int64_t>(sizeof(Storage));
          parts.push_back(to < 0 ? 0.0F : Number::load(get<Storage>(to, from)));
        }
        const Storage bits = Number::store(sum_of(parts));
        std::memcpy(sent.output.data() + (token * own.hidden_size + i) * static_cast<std::int64_t>(sizeof(Storage)),
                    &bits, sizeof(bits));
      }
    }
  }

  std::vector<AllToAllConfig> configs_;
  std::vector<std::vector<std::byte>> slices_;
  std::vector<Sent> sent_;
  std::int32_t invalid_ = -1;
};

}  // namespace a2asim::test
