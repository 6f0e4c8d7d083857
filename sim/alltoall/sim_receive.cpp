#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "model/alltoall/experts.h"
#include "model/alltoall/quantization.h"
#include "model/alltoall/routing.h"
#include "model/base/check_invariant.h"
#include "sim/alltoall/sim_alltoall.h"

namespace a2asim {

Result<void> SimAllToAll::sanitize(std::int32_t invalid_expert_id) {
  if (auto ok = check_turn(true, "sanitize"); !ok) return ok;
  for (int r = 0; r < ep_size_; ++r) {
    const AllToAllConfig& config = rank_at(r).config;
    const int p = config.expert_id_payload;
    if (p < 0 || config.payload_bytes_per_token[static_cast<std::size_t>(p)] % 4 != 0) {
      return fail(ErrorKind::bad_input,
                  fmt::format("sanitize: rank {} has no payload of int32 expert ids; set expert_id_payload", r));
    }
  }
  for (int r = 0; r < ep_size_; ++r) {
    if (takes_part(r)) sanitize_rank(r, invalid_expert_id);
  }
  return {};
}

// By this rank's own R and counters: rows at or above the counter, in its own view of the id payload.
void SimAllToAll::sanitize_rank(int r, std::int32_t invalid_expert_id) {
  invalid_expert_id_ = invalid_expert_id;
  if (!has_rows()) return;
  const Rank& rank = rank_at(r);
  const RowsOfRank& reader = rows_of(r);
  const int p = rank.config.expert_id_payload;
  const std::int64_t pitch = reader.regions.bytes_per_token(p);
  A2ASIM_INVARIANT(takes_part(r) && p >= 0 && p < reader.regions.num_payloads(), "ids have a payload");
  const std::int32_t* received = counters(r, rank.at.recv_counters);
  runs_.clear();
  for (int s = 0; s < ep_size_; ++s) {
    const std::int64_t count = reader.runtime_max - received[s];
    if (count <= 0) continue;
    const std::int64_t begin = reader.regions.row(p, s, received[s]);
    runs_.push_back({begin, pitch, count, 0, sent_by(r), p, RowKind::padding});
    if (!is_numeric()) continue;
    std::byte* ids = memory_.at(r, begin, count * pitch);
    // Byte by byte addresses: a payload in front may have left this one unaligned.
    for (std::int64_t i = 0; i < count * pitch; i += 4) std::memcpy(ids + i, &invalid_expert_id, 4);
  }
  shadow_of(r).write(runs_);
}

Result<void> SimAllToAll::check_payloads(const Rank& rank, const ExpertPayloads& payloads) const {
  const AllToAllConfig& config = rank.config;
  const TokenPayloads wanted =
      token_payloads(payloads.type, config.hidden_size, config.top_k, element_bytes(config.combine_type));
  if (config.hidden_size % block_elements(payloads.type) != 0)
    return fail(ErrorKind::bad_input, fmt::format("experts: hidden_size {} is no multiple of {}, the block of a scale",
                                                  config.hidden_size, block_elements(payloads.type)));
  std::vector<int> named = {payloads.hidden_payload, config.expert_id_payload, payloads.weight_payload};
  if (payloads.is_quantised()) named.insert(named.begin() + 1, payloads.scale_payload);
  for (std::size_t role = 0; role < named.size(); ++role) {
    const int payload = named[role];
    const bool known = payload >= 0 && payload < static_cast<int>(config.payload_bytes_per_token.size());
    if (known && config.payload_bytes_per_token[static_cast<std::size_t>(payload)] == wanted.bytes[role]) continue;
    return fail(ErrorKind::bad_input,
                fmt::format("experts: payload {} cannot hold the {}; name one of {} bytes per token", payload,
                            payload_words(payloads.type, static_cast<int>(role)), wanted.bytes[role]));
  }
  return {};
}

Result<void> SimAllToAll::experts(const ExpertPayloads& payloads) {
  if (auto ok = check_turn(true, "experts"); !ok) return ok;
  for (int r = 0; r < ep_size_ && is_numeric(); ++r) {
    if (auto ok = check_payloads(rank_at(r), payloads); !ok) return ok;
  }
  for (int r = 0; r < ep_size_; ++r) {
    if (takes_part(r)) experts_rank(r, payloads);
  }
  return {};
}

void SimAllToAll::experts_rank(int r, const ExpertPayloads& payloads) {
  A2ASIM_INVARIANT(takes_part(r) && is_dispatched_, "experts follow dispatch");
  if (!has_rows()) return;
  check_received(r);
  if (geometry_.refuses_combine.contains(r)) return;  // no room for the output: combine will refuse
  mark_results(r);
  if (is_numeric()) compute_rows(r, payloads);
}

// The shadow's side of the experts' outputs.
void SimAllToAll::mark_results(int r) {
  const RowsOfRank& reader = rows_of(r);
  const std::int64_t pitch = rank_at(r).config.combine_bytes_per_token();
  const std::int32_t* received = counters(r, rank_at(r).at.recv_counters);
  runs_.clear();
  for (int s = 0; s < ep_size_; ++s) {
    if (sent_by(s) == Shadow::kNone) continue;  // a masked source: nobody will read this
    const std::int64_t count = std::min<std::int64_t>(received[s], reader.runtime_max);
    runs_.push_back({reader.regions.combine_row(s, 0), pitch, count, 0, sent_by(s), -1, RowKind::combined});
  }
  shadow_of(r).write(runs_);
}

Result<void> SimAllToAll::give_results(int r, std::span<const std::byte> rows) {
  if (auto ok = check_turn(true, "give_results"); !ok) return ok;
  A2ASIM_INVARIANT(is_rank(r), "results are of a rank");
  if (!takes_part(r) || !is_numeric()) return {};
  check_received(r);
  if (geometry_.refuses_combine.contains(r)) return {};
  mark_results(r);
  const std::int32_t* received = counters(r, rank_at(r).at.recv_counters);
  for (int s = 0; s < ep_size_; ++s) {
    const std::int64_t count = std::min<std::int64_t>(received[s], rows_of(r).runtime_max);
    const auto bytes = static_cast<std::size_t>(count * rank_at(r).config.combine_bytes_per_token());
    if (bytes > rows.size())
      return fail(ErrorKind::bad_input, fmt::format("give_results: rank {} has fewer results than rows", r));
    std::byte* const to = memory_.at(r, rows_of(r).regions.combine_row(s, 0), static_cast<std::int64_t>(bytes));
    std::ranges::copy(rows.first(bytes), to);
    rows = rows.subspan(bytes);
  }
  return {};
}

// Every received row in every payload, against what the senders of this round should have put there.
void SimAllToAll::check_received(int r) {
  A2ASIM_INVARIANT(takes_part(r) && has_rows(), "rows are followed from provenance on");
  const Rank& rank = rank_at(r);
  const int payloads = static_cast<int>(rank.config.payload_bytes_per_token.size());
  std::size_t hint = 0;
  for (int p = 0; p < payloads; ++p) {
    for (int s = 0; s < ep_size_; ++s) {
      if (sent_by(s) == Shadow::kNone || !is_active(rank, s)) continue;
      const RowRead read = inspector_.received_rows(r, s, p);
      if (!shadow_of(r).holds(read.run, hint)) inspect_rows(read);
    }
  }
}

void SimAllToAll::report_garbage_id(int r, std::int32_t id) {
  A2ASIM_INVARIANT(id < 0 || id >= rank_at(r).config.num_experts, "a garbage id is nobody's");
  Finding found = finding(FindingKind::expert_id_out_of_range, Severity::error, Operation::experts, r);
  found.root = root_;
  found.value = id;
  found.limit = rank_at(r).config.num_experts;
  log_.add(std::move(found));
}

// The row's own experts in top-k order, without branches on the ids: they are as good as random.
int SimAllToAll::own_experts(int r, const std::byte* ids, const std::byte* weights, float* factors,
                             std::int32_t* experts) {
  const AllToAllConfig& config = rank_at(r).config;
  const auto first = static_cast<std::uint32_t>(first_expert(r, config.num_experts, ep_size_));
  const auto own = static_cast<std::uint32_t>(num_local_experts(r, config.num_experts, ep_size_));
  const auto num_experts = static_cast<std::uint32_t>(config.num_experts);
  std::array<std::int32_t, kMaxTopK> id;
  std::array<float, kMaxTopK> weight;
  std::memcpy(id.data(), ids, static_cast<std::size_t>(4 * config.top_k));
  std::memcpy(weight.data(), weights, static_cast<std::size_t>(4 * config.top_k));
  int count = 0;
  bool all_valid = true;
  for (int j = 0; j < config.top_k; ++j) {
    const std::int32_t e = id[static_cast<std::size_t>(j)];
    all_valid = all_valid && static_cast<std::uint32_t>(e) < num_experts;
    factors[count] = weight[static_cast<std::size_t>(j)];
    experts[count] = e;
    count += static_cast<std::uint32_t>(e) - first < own ? 1 : 0;
  }
  if (all_valid) return count;
  for (int j = 0; j < config.top_k; ++j) {
    const std::int32_t e = id[static_cast<std::size_t>(j)];
    if (classify_expert_id(e, first, own, config.num_experts, invalid_expert_id_) == ExpertIdClass::out_of_range) {
      report_garbage_id(r, e);
    }
  }
  return count;
}

// Into the first third of scratch_, whose others compute_row() uses.
std::span<float> SimAllToAll::load_row(const Rank& rank, DispatchType type, const std::byte* x,
                                       const std::byte* scales) {
  const auto hidden = static_cast<std::size_t>(rank.config.hidden_size);
  scratch_.resize(3 * hidden);
  const std::span<float> row(scratch_.data(), hidden);
  if (type == DispatchType::bf16)
    rank.kernels.load(x, rank.config.hidden_size, row.data());
  else
    dequantize_row(type, x, scales, row);
  return row;
}

void SimAllToAll::compute_row(const Rank& rank, std::span<const float> x, const float* weights,
                              const std::int32_t* experts, int count, std::byte* output) {
  A2ASIM_INVARIANT(count >= 0 && scratch_.size() == 3 * x.size(), "a row was loaded");
  const std::span<float> result(scratch_.data() + x.size(), x.size()), sum(result.data() + x.size(), x.size());
  std::fill(sum.begin(), sum.end(), 0.0F);
  for (int e = 0; e < count; ++e) {
    if (network_ != nullptr) network_->forward(experts[e], x, result);
    const std::span<const float> values = network_ != nullptr ? std::span<const float>(result) : x;
    const float factor = network_ != nullptr ? weights[e] : closed_form_factor(weights[e], experts[e]);
    for (std::size_t i = 0; i < x.size(); ++i) sum[i] = closed_form_accumulate(sum[i], factor, values[i]);
  }
  rank.kernels.round(sum.data(), rank.config.hidden_size, output);
}

void SimAllToAll::compute_rows(int r, const ExpertPayloads& payloads) {
  const Rank& rank = rank_at(r);
  A2ASIM_INVARIANT(is_numeric() && rank.kernels.experts != nullptr, "experts need numbers");
  const RowsOfRank& reader = rows_of(r);
  const AllToAllConfig& config = rank.config;
  const std::int32_t* received = counters(r, rank.at.recv_counters);
  std::array<float, kMaxTopK + 1> factors;
  std::array<std::int32_t, kMaxTopK + 1> experts;
  const auto pitch = [&](int payload) { return reader.regions.bytes_per_token(payload); };
  // First row of a source in a payload's region.
  const auto rows = [&](int payload, int source, std::int64_t count) {
    return memory_.at(r, reader.regions.row(payload, source, 0), count * pitch(payload));
  };
  const std::int64_t row_bytes = config.combine_bytes_per_token();
  for (int s = 0; s < ep_size_; ++s) {
    const std::int64_t count = std::min<std::int64_t>(received[s], reader.runtime_max);
    if (count == 0) continue;
    const std::byte* hidden = rows(payloads.hidden_payload, s, count);
    const std::byte* ids = rows(config.expert_id_payload, s, count);
    const std::byte* weights = rows(payloads.weight_payload, s, count);
    std::byte* output = memory_.at(r, reader.regions.combine_row(s, 0), count * row_bytes);
    const std::byte* scales = payloads.is_quantised() ? rows(payloads.scale_payload, s, count) : nullptr;
    if (network_ == nullptr && !payloads.is_quantised()) {
      const ExpertRows closed_form{hidden, ids, weights, output, count, config.hidden_size, config.top_k,
                                   static_cast<std::uint32_t>(first_expert(r, config.num_experts, ep_size_)),
                                   static_cast<std::uint32_t>(num_local_experts(r, config.num_experts, ep_size_)),
                                   static_cast<std::uint32_t>(config.num_experts)};
      if (rank.kernels.experts(closed_form)) continue;  // else again, for who to report
    }
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t at = i * 4 * config.top_k;
      const int own = own_experts(r, ids + at, weights + at, factors.data(), experts.data());
      if (network_ == nullptr && !payloads.is_quantised()) continue;
      const std::byte* row_scales = scales == nullptr ? nullptr : scales + i * pitch(payloads.scale_payload);
      const auto x = load_row(rank, payloads.type, hidden + i * pitch(payloads.hidden_payload), row_scales);
      compute_row(rank, x, factors.data(), experts.data(), own, output + i * row_bytes);
    }
  }
}

}  // namespace a2asim
