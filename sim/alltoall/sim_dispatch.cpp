#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "model/alltoall/error.h"
#include "model/alltoall/routing.h"
#include "model/base/check_invariant.h"
#include "sim/alltoall/sim_alltoall.h"

namespace a2asim {
namespace {

constexpr std::int64_t kMaxTokens = std::int64_t{1} << 30;  // keeps every product of workspace.h inside int64

}  // namespace

Result<void> SimAllToAll::check_inputs(std::span<const DispatchInput> inputs) const {
  if (inputs.size() != ranks_.size()) {
    return fail(ErrorKind::bad_input,
                fmt::format("dispatch: {} inputs for {} ranks; give one a rank", inputs.size(), ep_size_));
  }
  for (std::size_t r = 0; r < inputs.size(); ++r) {
    const DispatchInput& input = inputs[r];
    const AllToAllConfig& config = ranks_[r].config;
    if (input.local_num_tokens < 0 || input.local_num_tokens > kMaxTokens ||
        input.runtime_max_tokens_per_rank < -kMaxTokens || input.runtime_max_tokens_per_rank > kMaxTokens) {
      return fail(ErrorKind::bad_input,
                  fmt::format("dispatch: rank {} has {} tokens and runtime_max_tokens_per_rank {}; give 0 to {}", r,
                              input.local_num_tokens, input.runtime_max_tokens_per_rank, kMaxTokens));
    }
    if (!has_rows()) continue;
    if (auto ok = check_spans(config, static_cast<int>(r), input, is_numeric()); !ok) return ok;
  }
  return {};
}

Result<void> SimAllToAll::dispatch(std::span<const DispatchInput> inputs) {
  if (auto ok = check_turn(false, "dispatch"); !ok) return ok;
  if (auto ok = check_inputs(inputs); !ok) return ok;
  judge_geometry(inputs);
  if (taking_part_.empty())
    return fail(ErrorKind::runtime_error, "dispatch: no rank takes part (all absent, masked or refusing)");

  advance_flags();
  dispatch_round_ = round_;
  A2ASIM_INVARIANT(!is_dispatched_ && !stuck_, "dispatch and combine take turns");
  if (has_rows()) {
    release_records();
    for (int r = 0; r < ep_size_; ++r) {
      if (!takes_part(r)) continue;
      const DispatchInput& input = inputs[static_cast<std::size_t>(r)];
      route(r, input);
      send(r, input);
    }
    if (equal_configs_ && geometry_.same_r && geometry_.receive_overflow.empty()) {
      shadow_uniform_round();
    } else {
      for (int r = 0; r < ep_size_; ++r) {
        if (takes_part(r)) shadow_writer(r);
      }
    }
  }
  for (Rank& rank : ranks_) rank.wanted_slots.clear();
  if (auto ok = exchange_flags(Operation::dispatch, &WorkspaceLayout::dispatch_completion_flags); !ok) return ok;
  is_dispatched_ = true;
  return {};
}

// Fills geometry_ and taking_part_: a rank whose host check raises launches nothing, and its peers wait for it.
void SimAllToAll::judge_geometry(std::span<const DispatchInput> inputs) {
  A2ASIM_INVARIANT(inputs.size() == ranks_.size(), "every rank has its input");
  taking_part_ = ranks_not_absent();
  RankMask table_overflow;
  for (std::size_t r = 0; r < ranks_.size(); ++r) {
    Rank& rank = ranks_[r];
    const DispatchInput& input = inputs[r];
    rank.tokens = input.local_num_tokens;
    rows_[r].runtime_max = input.runtime_max_tokens_per_rank;
    rows_[r].regions = rank.config.regions(rows_[r].runtime_max);
    rank_geometry_[r].runtime_max_tokens_per_rank = rows_[r].runtime_max;
    rank_geometry_[r].local_num_tokens = rank.tokens;
    if (rank.tokens * rank.config.top_k > rank.config.max_num_tokens * rank.config.max_top_k) {
      table_overflow.add(static_cast<int>(r));
    }
    if (has_rows()) {
      rank.tainted.assign(static_cast<std::size_t>(rank.tokens), 0);
      rank.in_doubt.assign(static_cast<std::size_t>(rank.tokens), 0);
    }
  }
  geometry_ = check_geometry(rank_geometry_, taking_part_);
  geometry_.same_layout = geometry_.same_layout && equal_configs_;
  root_.reset();
  report_geometry();
  for (const int r : taking_part_& table_overflow) {
    Finding found = finding(FindingKind::receive_overflow, Severity::error, Operation::dispatch, r);
    found.value = rank_at(r).tokens;
    found.limit = rows_of(r).runtime_max;
    found.subject = "more rows than its top-k tables hold";
    log_.add(std::move(found));
  }
  taking_part_ -= geometry_.refuses_dispatch | table_overflow;
}

void SimAllToAll::report_geometry() {
  A2ASIM_INVARIANT(geometry_.disagreeing_rank < ep_size_, "who disagrees is a rank");
  if (!geometry_.receive_overflow.empty()) root_ = FindingKind::receive_overflow;
  if (geometry_.disagreeing_rank >= 0) {
    root_ = FindingKind::geometry_disagreement;
    const int first = taking_part_.first();
    const RankGeometry& one = rank_geometry_[static_cast<std::size_t>(first)];
    const RankGeometry& other = rank_geometry_[static_cast<std::size_t>(geometry_.disagreeing_rank)];
    Finding found =
        finding(FindingKind::geometry_disagreement, Severity::error, Operation::dispatch, geometry_.disagreeing_rank);
    found.peer = first;
    found.value = other.runtime_max_tokens_per_rank;
    found.limit = one.runtime_max_tokens_per_rank;
    if (found.value == found.limit) {
      const bool cap_differs = one.max_num_tokens != other.max_num_tokens;
      found.subject = cap_differs ? "max_num_tokens" : "payload bytes per token";
      found.value = cap_differs ? other.max_num_tokens : other.dispatch_bytes_per_token;
      found.limit = cap_differs ? one.max_num_tokens : one.dispatch_bytes_per_token;
    }
    log_.add(std::move(found));
  }
  for (int r = 0; r < ep_size_; ++r) {
    const Rank& rank = rank_at(r);
    if ((geometry_.over_capacity | geometry_.refuses_dispatch).contains(r)) {
      Finding found = finding(FindingKind::over_capacity, Severity::error, Operation::dispatch, r);
      found.value = rows_of(r).runtime_max;
      found.limit = rank.config.max_num_tokens;
      log_.add(std::move(found));
    }
    if (geometry_.receive_overflow.contains(r)) {
      Finding found = finding(FindingKind::receive_overflow, Severity::error, Operation::dispatch, r);
      found.value = rank.tokens;
      found.limit = rows_of(r).runtime_max;
      log_.add(std::move(found));
    }
  }
  if (geometry_.largest_r > geometry_.largest_tokens) {
    Finding found = finding(FindingKind::wasted, Severity::note, Operation::dispatch, -1);
    found.value = ep_size_ * (geometry_.largest_r - geometry_.largest_tokens);
    found.limit = ep_size_ * geometry_.largest_r;
    log_.add(std::move(found));
  }
  traffic_.rows_reserved += geometry_.reserved_rows;
}

void SimAllToAll::release_records() {
  for (RowsOfRank& rows : rows_) {
    if (rows.record != Shadow::kNone) records_.close(rows.record);
    rows.record = Shadow::kNone;
  }
}

// FlashInfer's division truncates towards zero, so slightly negative ids land on rank 0; others leave the tables.
// TensorRT-LLM's newer kernels skip them all.
int SimAllToAll::route_stray_id(int rank, std::int64_t token, std::int32_t id) {
  const AllToAllConfig& config = rank_at(rank).config;
  A2ASIM_INVARIANT(id < 0 || id >= config.num_experts, "a stray id is nobody's");
  if (config.skips_invalid_ids) return -1;
  const int target = id < 0 ? target_rank(id, config.num_experts, ep_size_) : -1;
  const bool lands = target == 0;
  Finding found = finding(FindingKind::expert_id_out_of_range, lands ? Severity::warning : Severity::error,
                          Operation::dispatch, rank);
  found.token = token;
  found.value = id;
  found.limit = config.num_experts;
  log_.add(std::move(found));
  return lands ? 0 : -1;
}

// The dispatch kernel's first half: targets, slots in token order, send counters.
void SimAllToAll::route(int r, const DispatchInput& input) {
  Rank& rank = rank_at(r);
  const int top_k = rank.config.top_k;
  const std::int64_t entries = rank.tokens * top_k;
  A2ASIM_INVARIANT(takes_part(r) && std::ssize(input.token_selected_experts) == entries, "inputs were checked");
  std::vector<std::int32_t>& scratch = routed_tables_;
  if (!is_numeric() && std::ssize(scratch) < 2 * entries) scratch.resize(static_cast<std::size_t>(2 * entries));
  std::int32_t* targets = is_numeric() ? memory_.words(r, rank.at.topk_target_ranks, entries) : scratch.data();
  std::int32_t* slots = is_numeric() ? memory_.words(r, rank.at.topk_send_indices, entries) : targets + entries;
  std::array<std::int32_t, kMaxRanks> sent = {};
  std::array<std::int32_t*, kMaxRanks> tokens = {};
  // By destination and slot; one more than there can be, and an odd number of cache lines apart, because lists that
  // begin at one cache set push each other out.
  const std::int64_t stride = ((rank.tokens / 16 + 1) | 1) * 16;
  if (std::ssize(routed_tokens_) < ep_size_ * stride)
    routed_tokens_.resize(static_cast<std::size_t>(ep_size_ * stride));
  for (int d = 0; d < ep_size_; ++d) tokens[static_cast<std::size_t>(d)] = routed_tokens_.data() + d * stride;
  const auto num_experts = static_cast<std::uint32_t>(rank.config.num_experts);
  const std::int8_t* rank_of_expert = rank.rank_of_expert.data();
  const std::int32_t* ids = input.token_selected_experts.data();
  const std::uint64_t inactive = ~rank.config.active_rank_mask;
  for (std::int64_t t = 0; t < rank.tokens; ++t) {
    std::uint64_t seen = inactive;  // a masked rank is treated as served: its tokens are dropped
    for (std::int64_t at = t * top_k; at < (t + 1) * top_k; ++at) {
      const std::int32_t id = ids[at];
      const int d = static_cast<std::uint32_t>(id) < num_experts ? rank_of_expert[id] : route_stray_id(r, t, id);
      if (d < 0) {
        targets[at] = slots[at] = -1;
        continue;
      }
      // Whether a destination was seen is as good as random: select, do not branch.
      const auto destination = static_cast<std::size_t>(d);
      const std::int32_t slot = sent[destination];
      const auto is_new = static_cast<std::int32_t>(~(seen >> d) & 1U);
      seen |= std::uint64_t{1} << d;
      targets[at] = is_new != 0 ? d : -1;
      slots[at] = is_new != 0 ? slot : -1;
      tokens[destination][slot] = static_cast<std::int32_t>(t);  // one past the last slot when it is not new
      sent[destination] = slot + is_new;
    }
  }
  follow_slots(r, {targets, static_cast<std::size_t>(entries)}, {slots, static_cast<std::size_t>(entries)}, tokens);
  *memory_.words(r, rank.at.local_token_counter, 1) = static_cast<std::int32_t>(rank.tokens);
  std::copy_n(sent.begin(), ep_size_, counters(r, rank.at.send_counters));
  const Shadow::RecordId record = records_.open({r, round_, context_.step});
  A2ASIM_INVARIANT(rows_of(r).record == Shadow::kNone, "a rank routes once a round");
  rows_of(r).record = record;
  for (int d = 0; d < ep_size_; ++d) {
    const auto destination = static_cast<std::size_t>(d);
    records_.set_tokens(record, d, {tokens[destination], static_cast<std::size_t>(sent[destination])});
  }
}

// The slots that another backend gave out, in place of token order; they were checked to be a permutation.
void SimAllToAll::follow_slots(int r, std::span<const std::int32_t> targets, std::span<std::int32_t> slots,
                               const std::array<std::int32_t*, kMaxRanks>& tokens) {
  const std::vector<std::int32_t>& wanted = rank_at(r).wanted_slots;
  if (wanted.size() != slots.size()) return;
  const auto top_k = static_cast<std::size_t>(rank_at(r).config.top_k);
  for (std::size_t at = 0; at < slots.size(); ++at) {
    if (targets[at] < 0) continue;
    slots[at] = wanted[at];
    tokens[static_cast<std::size_t>(targets[at])][wanted[at]] = static_cast<std::int32_t>(at / top_k);
  }
}

Result<void> SimAllToAll::set_slots(int rank, std::vector<std::int32_t> slots, const DispatchInput& input) {
  A2ASIM_INVARIANT(is_rank(rank), "slots are of a rank");
  const AllToAllConfig& config = rank_at(rank).config;
  const auto top_k = static_cast<std::size_t>(config.top_k);
  const auto wrong = [&](std::string_view what) {
    return fail(ErrorKind::runtime_error, fmt::format("rank {}: {}", rank, what));
  };
  if (slots.size() != input.token_selected_experts.size()) return wrong("there is not a slot for every position");
  std::array<std::vector<bool>, kMaxRanks> seen;
  std::array<std::int32_t, kMaxTopK> targets;
  const auto is_stray = [&](std::int32_t id) { return id < 0 || id >= config.num_experts; };
  if (std::ranges::any_of(input.token_selected_experts, is_stray)) return wrong("an id is of no expert");
  for (std::size_t at = 0; at < slots.size(); at += top_k) {
    distinct_targets(input.token_selected_experts.data() + at, config.top_k, config.num_experts, ep_size_,
                     targets.data());
    for (std::size_t j = 0; j < top_k; ++j) {
      if (targets[j] < 0 || !is_active(rank_at(rank), targets[j])) continue;
      std::vector<bool>& of = seen[static_cast<std::size_t>(targets[j])];
      const std::int32_t slot = slots[at + j];
      if (slot < 0 || slot >= std::ssize(slots)) return wrong("a slot is out of range");
      if (of.size() <= static_cast<std::size_t>(slot)) of.resize(static_cast<std::size_t>(slot) + 1, false);
      if (of[static_cast<std::size_t>(slot)]) return wrong("a slot is given twice");
      of[static_cast<std::size_t>(slot)] = true;
    }
  }
  for (const std::vector<bool>& of : seen)
    if (std::ranges::find(of, false) != of.end()) return wrong("a slot is left out");
  rank_at(rank).wanted_slots = std::move(slots);
  return {};
}

// The second half: payload rows, then receive counters. All rows of one (destination, payload) are consecutive.
void SimAllToAll::send(int r, const DispatchInput& input) {
  A2ASIM_INVARIANT(sent_by(r) != Shadow::kNone, "a rank sends what it has routed");
  const Rank& rank = rank_at(r);
  const int payloads = static_cast<int>(rank.config.payload_bytes_per_token.size());
  for (int d = 0; d < ep_size_; ++d) {
    if (!is_active(rank, d)) continue;
    const std::int32_t count = counters(r, rank.at.send_counters)[d];
    counters(d, rank.at.recv_counters)[r] = count;
    traffic_.rows_sent += count;
    traffic_.dispatch_bytes += count * rank_geometry_[static_cast<std::size_t>(r)].dispatch_bytes_per_token;
    if (count == 0 || !is_numeric()) continue;
    if (count > rows_of(r).runtime_max || !equal_configs_) {
      send_row_by_row(r, d, input);
      continue;
    }
    const std::int32_t* tokens = records_.tokens(sent_by(r), d).data();
    for (int p = 0; p < payloads; ++p) {
      const Shadow::Run run = inspector_.sent_run(r, d, p);
      gather_rows(memory_.at(d, run.begin, run.end() - run.begin), input.payloads[static_cast<std::size_t>(p)].data(),
                  tokens, count, run.pitch_bytes);
    }
  }
}

// Rows may overtake each other or leave the slice here, so each is written, in the kernel's order, only if it fits.
void SimAllToAll::send_row_by_row(int r, int d, const DispatchInput& input) {
  const int payloads = static_cast<int>(rank_at(r).config.payload_bytes_per_token.size());
  const std::int64_t count = inspector_.sent_run(r, d, 0).count;
  const std::int32_t* tokens = records_.tokens(sent_by(r), d).data();
  A2ASIM_INVARIANT(count > 0 && is_numeric(), "there are rows to move");
  for (std::int64_t slot = 0; slot < count; ++slot) {
    for (int p = 0; p < payloads; ++p) {
      const Shadow::Run run = inspector_.sent_run(r, d, p);
      const std::int64_t begin = run.begin + slot * run.pitch_bytes;
      if (begin + run.pitch_bytes > memory_.slice_bytes(d)) continue;
      const std::byte* row = input.payloads[static_cast<std::size_t>(p)].data() + tokens[slot] * run.pitch_bytes;
      std::memcpy(memory_.at(d, begin, run.pitch_bytes), row, static_cast<std::size_t>(run.pitch_bytes));
    }
  }
}

// Everybody has the same geometry and nobody overflows: the runs of a slice are disjoint and come in ascending order.
void SimAllToAll::shadow_uniform_round() {
  A2ASIM_INVARIANT(equal_configs_ && geometry_.same_r, "everybody has one geometry");
  const int payloads = static_cast<int>(rank_at(0).config.payload_bytes_per_token.size());
  for (int d = 0; d < ep_size_; ++d) {
    runs_.clear();
    for (int p = 0; p < payloads; ++p) {
      for (int r = 0; r < ep_size_; ++r) {
        if (takes_part(r)) runs_.push_back(inspector_.sent_run(r, d, p));
      }
    }
    shadow_of(d).write(runs_);
  }
}

// One writer's rows, over what lower ranks wrote in this round.
void SimAllToAll::shadow_writer(int r) {
  A2ASIM_INVARIANT(takes_part(r) && sent_by(r) != Shadow::kNone, "who writes has routed");
  const Rank& rank = rank_at(r);
  const int payloads = static_cast<int>(rank.config.payload_bytes_per_token.size());
  for (int d = 0; d < ep_size_; ++d) {
    const std::int64_t count = inspector_.sent_run(r, d, 0).count;
    if (count == 0) continue;
    std::int64_t end = 0;  // of the payload that reaches farthest: not always the last one
    for (int p = 0; p < payloads; ++p) end = std::max(end, inspector_.sent_run(r, d, p).end());
    if (count > rows_of(r).runtime_max || end > memory_.slice_bytes(d)) {
      Finding found = finding(FindingKind::receive_overflow, Severity::error, Operation::dispatch, r);
      found.root = root_ == FindingKind::receive_overflow ? std::nullopt : root_;
      found.peer = d;
      found.value = count;
      found.limit = rows_of(r).runtime_max;
      if (end > memory_.slice_bytes(d))
        found.subject = fmt::format(
            "{} bytes past the end of the slice: where slices lie side by side, over the next rank's counters, and "
            "dispatch can hang",
            end - memory_.slice_bytes(d));
      log_.add(std::move(found));
    }
    const bool overlaps_itself = count > rows_of(r).runtime_max;
    const std::int64_t group = overlaps_itself ? 1 : count;
    for (std::int64_t slot = 0; slot < count; slot += group) {
      runs_.clear();
      for (int p = 0; p < payloads; ++p) {
        Shadow::Run run = inspector_.sent_run(r, d, p);
        run.begin += slot * run.pitch_bytes;
        run.first_slot = slot;
        run.count = std::clamp<std::int64_t>((memory_.slice_bytes(d) - run.begin) / run.pitch_bytes, 0, group);
        if (overlaps_itself) {
          shadow_of(d).write(std::span(&run, 1));
        } else {
          runs_.push_back(run);
        }
      }
      shadow_of(d).write(runs_);
    }
  }
}

}  // namespace a2asim
