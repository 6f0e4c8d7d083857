// What every byte must be, by the plainest reading of the all-to-all's rules: loops over ranks, tokens and positions,
// one byte array a slice. The one oracle of conformance, GPU tests (real and pretended) and property laws.
//
//   Oracle oracle(configs); oracle.poison(std::byte{0xff});
//   oracle.dispatch(inputs); oracle.sanitize(-1); oracle.experts({0, 2}); oracle.combine(runtime_max);
//   oracle.slice(rank), oracle.output(rank)    byte for byte what any backend must have
//   oracle.follow(slots)                       before dispatch: slots in a backend's own order, [rank][T, top_k]
//
// Shares with the backends only where counters lie (WorkspaceLayout), experts.h and the number types. Owners of
// experts, regions, rows and sums are counted out anew.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <vector>

#include "model/alltoall/alltoall.h"
#include "model/alltoall/experts.h"
#include "model/alltoall/number_types.h"

namespace a2asim::conformance {

// Ranges counted out one by one: not the formula that backends use. -1: nobody's.
inline int owner_of(std::int64_t expert, const AllToAllConfig& config) {
  std::int64_t end = 0;
  for (int rank = 0; expert >= 0 && rank < config.ep_size; ++rank) {
    end += config.num_experts / config.ep_size + (rank < config.num_experts % config.ep_size ? 1 : 0);
    if (expert < end) return rank;
  }
  return -1;
}

// First difference of two byte arrays, as text; empty if there is none.
inline std::string difference(std::span<const std::byte> found, std::span<const std::byte> wanted) {
  if (found.size() != wanted.size())
    return "sizes " + std::to_string(found.size()) + " and " + std::to_string(wanted.size());
  if (found.empty() || std::memcmp(found.data(), wanted.data(), found.size()) == 0) return "";
  const auto at = std::mismatch(found.begin(), found.end(), wanted.begin());
  return "byte " + std::to_string(at.first - found.begin()) + " of " + std::to_string(found.size()) + ": " +
         std::to_string(static_cast<int>(*at.first)) + ", expected " + std::to_string(static_cast<int>(*at.second));
}

class Oracle {
 public:
  explicit Oracle(std::vector<AllToAllConfig> configs) : configs_(std::move(configs)) {
    for (const AllToAllConfig& config : configs_) {
      slices_.emplace_back(static_cast<std::size_t>(config.workspace_bytes()));
      owners_.emplace_back();
      for (std::int64_t e = 0; e < config.num_experts; ++e) owners_.back().push_back(owner_of(e, config));
    }
    sent_.resize(configs_.size());
  }

  const std::vector<std::byte>& slice(int rank) const { return slices_[static_cast<std::size_t>(rank)]; }
  const std::vector<std::byte>& output(int rank) const { return sent_[static_cast<std::size_t>(rank)].output; }
  std::int32_t received(int rank, int source) const {
    return get<std::int32_t>(rank, config(rank).layout().recv_counters + 4 * source);
  }

  // All rows of payload p that `rank` reads of `source`, by its own R.
  std::vector<std::byte> rows(int rank, int source, int p) const {
    const auto begin = slice(rank).begin() + row(rank, p, source, 0);
    return {begin, begin + rows_of(rank, source) * config(rank).payload_bytes_per_token[static_cast<std::size_t>(p)]};
  }
  std::int64_t rows_of(int rank, int source) const {
    return std::clamp<std::int64_t>(received(rank, source), 0, sent(rank).runtime_max);
  }
  // In place of experts(): bytes for the rows of every source in turn.
  void give_results(int rank, std::span<const std::byte> rows) {
    for (int source = 0; source < world(); ++source) {
      const auto bytes = static_cast<std::size_t>(rows_of(rank, source) * config(rank).combine_bytes_per_token());
      const std::int64_t to =
          combine_base(rank) + source * sent(rank).runtime_max * config(rank).combine_bytes_per_token();
      std::ranges::copy(rows.first(bytes), slices_[static_cast<std::size_t>(rank)].begin() + to);
      rows = rows.subspan(bytes);
    }
  }
  void follow(std::vector<std::vector<std::int32_t>> slots) { given_slots_ = std::move(slots); }

  void poison(std::byte value) {
    for (int rank = 0; rank < world(); ++rank) {
      auto& slice = slices_[static_cast<std::size_t>(rank)];
      std::fill(slice.begin() + config(rank).layout().payload_data, slice.end(), value);
    }
  }

  void dispatch(std::span<const DispatchInput> inputs) {
    for (int rank = 0; rank < world(); ++rank) {
      if (takes_part(rank, rank)) send(rank, inputs[static_cast<std::size_t>(rank)]);
    }
  }

  void sanitize(std::int32_t invalid) {
    for (int rank = 0; rank < world(); ++rank) {
      if (!takes_part(rank, rank)) continue;
      const int p = config(rank).expert_id_payload;
      const std::int64_t bytes = config(rank).payload_bytes_per_token[static_cast<std::size_t>(p)];
      for (int source = 0; source < world(); ++source) {
        for (std::int64_t slot = received(rank, source); slot < sent(rank).runtime_max; ++slot) {
          for (std::int64_t at = 0; at < bytes; at += 4) put(rank, row(rank, p, source, slot) + at, invalid);
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

  void combine(std::span<const std::int64_t> runtime_max) {
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

  // A whole round; every rank's R at combine is its own of dispatch.
  void round(std::span<const DispatchInput> inputs, std::int32_t invalid, const ExpertPayloads& payloads) {
    std::vector<std::int64_t> runtime_max;
    for (const DispatchInput& input : inputs) runtime_max.push_back(input.runtime_max_tokens_per_rank);
    dispatch(inputs);
    sanitize(invalid);
    experts(payloads);
    combine(runtime_max);
  }

 private:
  struct Sent {
    std::int64_t tokens = 0;
    std::int64_t runtime_max = 0;
    std::vector<std::byte> output;
  };

  int world() const { return static_cast<int>(configs_.size()); }
  const AllToAllConfig& config(int rank) const { return configs_[static_cast<std::size_t>(rank)]; }
  const Sent& sent(int rank) const { return sent_[static_cast<std::size_t>(rank)]; }
  bool takes_part(int rank, int peer) const { return (config(rank).active_rank_mask >> peer & 1) != 0; }
  int owner(int rank, std::int32_t expert) const {
    const auto& owners = owners_[static_cast<std::size_t>(rank)];
    return expert >= 0 && expert < std::ssize(owners) ? owners[static_cast<std::size_t>(expert)] : -1;
  }

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
  // Row of (source, slot) of payload p, as this rank computes it: behind all rows of the payloads in front.
  std::int64_t row(int rank, int p, int source, std::int64_t slot) const {
    const AllToAllConfig& own = config(rank);
    const std::int64_t rows = own.ep_size * sent(rank).runtime_max;
    std::int64_t at = own.layout().payload_data;
    for (int i = 0; i < p; ++i) at += rows * own.payload_bytes_per_token[static_cast<std::size_t>(i)];
    return at + (source * sent(rank).runtime_max + slot) * own.payload_bytes_per_token[static_cast<std::size_t>(p)];
  }
  std::int64_t combine_base(int rank) const {
    std::int64_t at = row(rank, 0, 0, 0);
    for (const std::int64_t bytes : config(rank).payload_bytes_per_token)
      at += config(rank).ep_size * sent(rank).runtime_max * bytes;
    while (at % 128 != 0) ++at;
    return at;
  }

  void send(int rank, const DispatchInput& input) {
    const AllToAllConfig& own = config(rank);
    const WorkspaceLayout at = own.layout();
    sent_[static_cast<std::size_t>(rank)] = {input.local_num_tokens, input.runtime_max_tokens_per_rank, {}};
    std::vector<std::int32_t> slots(configs_.size(), 0);
    for (std::int64_t token = 0; token < input.local_num_tokens; ++token) {
      std::vector<int> seen;
      for (int j = 0; j < own.top_k; ++j) {
        const std::int64_t entry = token * own.top_k + j;
        int to = owner(rank, input.token_selected_experts[static_cast<std::size_t>(entry)]);
        const bool is_new = std::find(seen.begin(), seen.end(), to) == seen.end();
        seen.push_back(to);
        if (to >= 0 && (!is_new || !takes_part(rank, to))) to = -1;
        std::int32_t slot = to < 0 ? -1 : slots[static_cast<std::size_t>(to)]++;
        if (to >= 0 && !given_slots_.empty())
          slot = given_slots_[static_cast<std::size_t>(rank)][static_cast<std::size_t>(entry)];
        put(rank, at.topk_target_ranks + 4 * entry, static_cast<std::int32_t>(to));
        put(rank, at.topk_send_indices + 4 * entry, slot);
        for (std::size_t p = 0; to >= 0 && p < own.payload_bytes_per_token.size(); ++p) {
          const std::int64_t bytes = own.payload_bytes_per_token[p];
          std::memcpy(slices_[static_cast<std::size_t>(to)].data() + row(rank, static_cast<int>(p), rank, slot),
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
    constexpr auto size = static_cast<std::int64_t>(sizeof(Storage));
    const AllToAllConfig& own = config(rank);
    for (int source = 0; source < world(); ++source) {
      const std::int64_t rows = std::min<std::int64_t>(received(rank, source), sent(rank).runtime_max);
      for (std::int64_t slot = 0; slot < rows; ++slot) {
        const std::int64_t hidden = row(rank, payloads.hidden_payload, source, slot);
        const std::int64_t to =
            combine_base(rank) + (source * sent(rank).runtime_max + slot) * own.combine_bytes_per_token();
        std::vector<std::pair<std::int32_t, float>> chosen;  // this rank's experts and their weights, in top-k order
        for (int j = 0; j < own.top_k; ++j) {
          const auto id = get<std::int32_t>(rank, row(rank, own.expert_id_payload, source, slot) + 4 * j);
          const auto weight = get<float>(rank, row(rank, payloads.weight_payload, source, slot) + 4 * j);
          if (owner(rank, id) == rank) chosen.emplace_back(id, weight);
        }
        for (std::int64_t i = 0; i < own.hidden_size; ++i) {
          const float x = Number::load(get<Storage>(rank, hidden + i * size));
          float sum = 0.0F;
          for (const auto& [id, weight] : chosen) sum = closed_form_accumulate(sum, closed_form_factor(weight, id), x);
          put(rank, to + i * size, Number::store(sum));
        }
      }
    }
  }

  // Kernels' rule spelled out anew: lists of partial sums, folded in pairs for the published counts, else in order.
  static constexpr std::size_t kMostPositions = 64;
  // As -use_fast_math has it.
  static float without_subnormal(float x) {
    return std::abs(x) < std::numeric_limits<float>::min() ? std::copysign(0.0F, x) : x;
  }
  static float plus(float a, float b) { return without_subnormal(without_subnormal(a) + without_subnormal(b)); }
  static float sum_of(std::array<float, kMostPositions> v, int count) {
    const int folded[] = {2, 4, 6, 8, 10, 16, 22};
    const bool folds = std::find(std::begin(folded), std::end(folded), count) != std::end(folded);
    const auto at = [&](int i) -> float& { return v[static_cast<std::size_t>(i)]; };
    for (int left = count; folds && left > 1; left = (left + 1) / 2) {
      for (int i = 0; i + 1 < left; i += 2) at(i / 2) = plus(at(i), at(i + 1));
      if (left % 2 == 1) at(left / 2) = at(left - 1);
    }
    for (int i = 1; !folds && i < count; ++i) at(0) = plus(at(0), at(i));
    return at(0);
  }

  template <class Number>
  void sum_tokens(int rank, std::int64_t combine_runtime_max) {
    using Storage = typename Number::Storage;
    constexpr auto size = static_cast<std::int64_t>(sizeof(Storage));
    const AllToAllConfig& own = config(rank);
    const WorkspaceLayout at = own.layout();
    Sent& sent = sent_[static_cast<std::size_t>(rank)];
    sent.output.assign(static_cast<std::size_t>(sent.tokens * own.combine_bytes_per_token()), std::byte{0});
    const std::int64_t base = combine_base(rank);
    for (std::int64_t token = 0; token < sent.tokens; ++token) {
      for (std::int64_t i = 0; i < own.hidden_size; ++i) {
        std::array<float, kMostPositions> parts = {};
        for (int j = 0; j < own.top_k; ++j) {
          const std::int64_t entry = 4 * (token * own.top_k + j);
          const auto to = get<std::int32_t>(rank, at.topk_target_ranks + entry);
          const auto slot = get<std::int32_t>(rank, at.topk_send_indices + entry);
          const std::int64_t from = base + (rank * combine_runtime_max + slot) * own.combine_bytes_per_token();
          if (to >= 0) parts[static_cast<std::size_t>(j)] = Number::load(get<Storage>(to, from + i * size));
        }
        Storage bits = Number::store(sum_of(parts, own.top_k));
        if constexpr (Number::type == DataType::float32)
          if (own.top_k == 1) bits = std::bit_cast<Storage>(parts[0]);  // nothing is added, nothing rounded
        std::memcpy(sent.output.data() + (token * own.hidden_size + i) * size, &bits, sizeof(bits));
      }
    }
  }

  std::vector<AllToAllConfig> configs_;
  std::vector<std::vector<std::byte>> slices_;
  std::vector<std::vector<int>> owners_;  // [rank][expert]
  std::vector<Sent> sent_;
  std::vector<std::vector<std::int32_t>> given_slots_;
};

}  // namespace a2asim::conformance
