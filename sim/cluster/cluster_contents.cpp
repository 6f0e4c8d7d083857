#include "sim/cluster/cluster_contents.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "model/alltoall/number_types.h"
#include "model/alltoall/routing.h"
#include "model/base/check_invariant.h"

namespace a2asim {

ClusterContents::ClusterContents(const AllToAllConfig& config, const ExpertPayloads& payloads, Fidelity fidelity,
                                 const Routing& routing, std::uint64_t seed)
    : config_(config), payloads_(payloads), routing_(routing), has_bytes_(fidelity == Fidelity::numeric) {
  for (int rank = 0; rank < config.ep_size; ++rank) {
    const std::uint64_t own = seed + 0x9E3779B97F4A7C15U * static_cast<std::uint64_t>(2 * rank + 1);
    pools_.push_back({Random(own), Random(~own), {}, {}, {}, 0, {}, {}, {}, {}, {}});
  }
}

std::int64_t ClusterContents::bytes_per_row() const {
  A2ASIM_INVARIANT(config_.top_k >= 1, "a row has expert ids");
  return has_bytes_ ? config_.dispatch_bytes_per_token() : 4 * config_.top_k;
}

// Positions begin..end of the token's ids: experts of [first, first + count) that it does not have yet, as far as there
// are any.
void ClusterContents::draw_distinct(Random& random, std::int64_t first, std::int64_t count, int begin, int end,
                                    std::int32_t* ids) const {
  A2ASIM_INVARIANT(count >= 1 && begin <= end, "there is an expert to choose");
  for (int j = begin; j < end; ++j) {
    const bool can_differ = count > j;
    do {
      ids[j] = static_cast<std::int32_t>(first + random.below(static_cast<std::uint32_t>(count)));
    } while (can_differ && std::find(ids, ids + j, ids[j]) != ids + j);
  }
}

void ClusterContents::draw_ids(Random& random, std::int64_t token, std::int32_t* ids) const {
  const std::int64_t experts = config_.num_experts;
  int drawn = 0;
  switch (routing_.kind) {
    case Routing::Kind::round_robin:
      for (int j = 0; j < config_.top_k; ++j) ids[j] = static_cast<std::int32_t>((token * config_.top_k + j) % experts);
      return;
    case Routing::Kind::hot_rank: {
      const int rank = static_cast<int>(routing_.rank);
      const std::int64_t owned = num_local_experts(rank, experts, config_.ep_size);
      drawn = static_cast<int>(std::min<std::int64_t>(owned, config_.top_k));
      draw_distinct(random, first_expert(rank, experts, config_.ep_size), owned, 0, drawn, ids);
      break;
    }
    case Routing::Kind::uniform:
      break;
  }
  draw_distinct(random, 0, experts, drawn, config_.top_k, ids);
}

void ClusterContents::draw_hidden(Pool& pool, std::int64_t rows) const {
  A2ASIM_INVARIANT(rows >= pool.rows, "a pool only grows");
  if (payloads_.is_quantised())
    return draw_quantised(payloads_.type, rows - pool.rows, config_.hidden_size, pool.value_random, pool.hidden);
  std::vector<std::byte>& hidden = pool.hidden.codes;
  const auto wanted = static_cast<std::size_t>(rows * config_.combine_bytes_per_token());
  std::size_t at = hidden.size();
  hidden.resize(wanted);
  with_number_type(config_.combine_type, [&]<class Number>(Number) {
    for (; at < wanted; at += sizeof(typename Number::Storage)) {
      const auto bits = Number::store(static_cast<float>(pool.value_random.between(-2, 2)));
      std::memcpy(hidden.data() + at, &bits, sizeof bits);
    }
  });
}

Result<void> ClusterContents::reserve(int rank, std::int64_t rows) {
  A2ASIM_INVARIANT(rank >= 0 && rank < config_.ep_size && rows >= 0, "rows are of a rank");
  Pool& own = pool(rank);
  const std::int64_t wanted = rows + kWindows - 1;
  if (wanted <= own.rows) return {};
  const std::int64_t most_rows = (kMaxBytes - drawn_bytes_) / bytes_per_row();
  if (wanted - own.rows > most_rows) {
    return fail(ErrorKind::bad_input,
                fmt::format("rank {} would carry {} rows of {} bytes, more than {} GiB with the others': give fewer "
                            "tokens, or a lower fidelity (--fidelity geometry)",
                            rank, rows, bytes_per_row(), kMaxBytes >> 30));
  }
  drawn_bytes_ += (wanted - own.rows) * bytes_per_row();
  const int top_k = config_.top_k;
  own.ids.resize(static_cast<std::size_t>(wanted * top_k));
  for (std::int64_t t = own.rows; t < wanted; ++t) draw_ids(own.routing_random, t, own.ids.data() + t * top_k);
  if (has_bytes_) {
    for (std::size_t i = own.weights.size(); i < own.ids.size(); ++i)
      own.weights.push_back(1.0F / static_cast<float>(1U << own.value_random.below(3)));
    draw_hidden(own, wanted);
  }
  own.rows = wanted;
  return {};
}

void ClusterContents::fill(int rank, std::int64_t rows, std::int64_t round, DispatchInput& input) const {
  const Pool& own = pool(rank);
  A2ASIM_INVARIANT(rows == 0 || rows + kWindows - 1 <= own.rows, "rows were reserved");
  const auto count = static_cast<std::size_t>(rows * config_.top_k);
  // A rank that never had rows has no pool yet.
  const std::int64_t first = rows == 0 ? 0 : window(rank, round);
  const std::int64_t first_ids = rows == 0 ? 0 : id_window(rank, round);
  input.token_selected_experts = std::span(own.ids).subspan(static_cast<std::size_t>(first_ids * config_.top_k), count);
  input.payloads.clear();
  if (!has_bytes_) return;
  const auto push = [&](const std::vector<std::byte>& all, int payload) {
    const std::size_t bytes = bytes_of(payload);
    input.payloads.push_back(std::span(all).subspan(static_cast<std::size_t>(first) * bytes,
                                                    static_cast<std::size_t>(rows) * bytes));
  };
  push(own.hidden.codes, payloads_.hidden_payload);
  if (payloads_.is_quantised()) push(own.hidden.scales, payloads_.scale_payload);
  input.payloads.push_back(std::as_bytes(input.token_selected_experts));
  input.payloads.push_back(
      std::as_bytes(std::span(own.weights).subspan(static_cast<std::size_t>(first * config_.top_k), count)));
}

void ClusterContents::fill_dummy(int rank, std::int32_t padding_id, DispatchInput& input) {
  A2ASIM_INVARIANT(rank >= 0 && rank < config_.ep_size, "a dummy token is of a rank");
  Pool& own = pool(rank);
  const auto top_k = static_cast<std::size_t>(config_.top_k);
  own.dummy_route.assign(top_k, static_cast<std::int32_t>(first_expert(rank, config_.num_experts, config_.ep_size)));
  input.token_selected_experts = own.dummy_route;
  input.payloads.clear();
  if (!has_bytes_) return;
  own.dummy_ids.assign(top_k, padding_id);
  own.dummy_weights.assign(top_k, 0.0F);
  own.dummy_hidden.assign(bytes_of(payloads_.hidden_payload), std::byte{0});
  input.payloads.push_back(own.dummy_hidden);
  if (payloads_.is_quantised()) {
    own.dummy_scales.assign(bytes_of(payloads_.scale_payload), std::byte{0});  // what zeros are quantised to
    input.payloads.push_back(own.dummy_scales);
  }
  input.payloads.push_back(std::as_bytes(std::span(own.dummy_ids)));
  input.payloads.push_back(std::as_bytes(std::span(own.dummy_weights)));
}

Result<ReferenceResult> ClusterContents::reference(int rank, std::int64_t rows, std::int64_t round, RankMask dead,
                                                   const ExpertNetwork& experts) const {
  A2ASIM_INVARIANT(has_bytes_ && rows >= 1, "an oracle needs numbers");
  DispatchInput tokens;
  fill(rank, rows, round, tokens);
  std::vector<std::int32_t> ids(tokens.token_selected_experts.begin(), tokens.token_selected_experts.end());
  for (std::int32_t& id : ids) {
    if (dead.contains(target_rank(id, config_.num_experts, config_.ep_size))) id = -1;
  }
  const auto scales = payloads_.is_quantised() ? tokens.payloads[1] : std::span<const std::byte>();
  const auto hidden = decode_hidden(config_, payloads_.type, tokens.payloads[0], scales);
  if (!hidden) return tl::unexpected(hidden.error());
  const std::span<const float> weights = std::span(pool(rank).weights)
                                             .subspan(static_cast<std::size_t>(window(rank, round) * config_.top_k),
                                                      static_cast<std::size_t>(rows * config_.top_k));
  return reference_moe({rows, config_.top_k, config_.num_experts, config_.hidden_size, ids, weights, *hidden}, experts);
}

}  // namespace a2asim
