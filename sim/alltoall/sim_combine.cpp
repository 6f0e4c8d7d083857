#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "model/alltoall/routing.h"
#include "model/base/check_invariant.h"
#include "sim/alltoall/sim_alltoall.h"

namespace a2asim {

Result<void> SimAllToAll::combine(std::span<const std::int64_t> runtime_max,
                                  std::vector<std::vector<std::byte>>& outputs) {
  if (auto ok = check_turn(true, "combine"); !ok) return ok;
  if (runtime_max.size() != ranks_.size()) {
    return fail(ErrorKind::bad_input,
                fmt::format("combine: {} sizes for {} ranks; give one a rank", runtime_max.size(), ep_size_));
  }
  if (auto ok = refuse_combine(runtime_max); !ok) return ok;

  advance_flags();
  if (auto ok = exchange_flags(Operation::combine, &WorkspaceLayout::combine_completion_flags); !ok) return ok;
  is_dispatched_ = false;
  outputs.resize(ranks_.size());
  const auto doubtful = has_rows() ? doubtful_slices(runtime_max) : std::array<RankMask, kMaxRanks>{};
  for (int r = 0; r < ep_size_; ++r) {
    std::vector<std::byte>& output = outputs[static_cast<std::size_t>(r)];
    if (!takes_part(r) || !is_numeric()) output.clear();
    if (!takes_part(r) || !has_rows()) continue;
    const std::int64_t own = runtime_max[static_cast<std::size_t>(r)];
    check_combine_reads(r, own, doubtful[static_cast<std::size_t>(r)]);
    if (is_numeric()) sum_tokens(r, own, output);
  }
  return {};
}

// FlashInfer's host check: the combine region must fit. A rank that became absent since dispatch drops out here too.
Result<void> SimAllToAll::refuse_combine(std::span<const std::int64_t> runtime_max) {
  A2ASIM_INVARIANT(runtime_max.size() == ranks_.size(), "every rank has its R");
  taking_part_ &= ranks_not_absent();
  for (int r = 0; r < ep_size_; ++r) {
    const Rank& rank = rank_at(r);
    const std::int64_t own = runtime_max[static_cast<std::size_t>(r)];
    const std::int64_t limit_rows =
        (memory_.slice_bytes(r) - rows_of(r).regions.combine_region()) / rank.config.combine_bytes_per_token();
    if (!takes_part(r) || (own >= 0 && own <= limit_rows / ep_size_)) continue;
    Finding found = finding(FindingKind::over_capacity, Severity::error, Operation::combine, r);
    found.root = root_;
    found.value = own;
    found.limit = rank.config.max_num_tokens;
    log_.add(std::move(found));
    taking_part_.remove(r);
  }
  if (!taking_part_.empty()) return {};
  stuck_ = Error{ErrorKind::runtime_error, "combine: no rank takes part (all absent, masked or refusing)"};
  return tl::unexpected(*stuck_);
}

// By reader, the slices where its rows are not all as they should be. Slice by slice, because agreeing readers come in
// the order of a slice's bytes.
std::array<RankMask, kMaxRanks> SimAllToAll::doubtful_slices(std::span<const std::int64_t> runtime_max) const {
  A2ASIM_INVARIANT(runtime_max.size() == ranks_.size() && has_rows(), "every rank has its R");
  std::array<RankMask, kMaxRanks> doubtful = {};
  for (int d = 0; d < ep_size_; ++d) {
    std::size_t hint = 0;
    for (int r = 0; r < ep_size_; ++r) {
      if (!takes_part(r)) continue;
      const RowRead read = inspector_.returned_rows(r, d, runtime_max[static_cast<std::size_t>(r)]);
      const bool is_right = shadow_of(d).holds(read.run, hint);
      if (!is_right) doubtful[static_cast<std::size_t>(r)].add(d);
    }
  }
  return doubtful;
}

// This rank's rows in every slice.
void SimAllToAll::check_combine_reads(int r, std::int64_t runtime_max, RankMask doubtful) {
  A2ASIM_INVARIANT(takes_part(r) && runtime_max >= 0, "who refuses combine reads nothing");
  for (int d = 0; d < ep_size_; ++d) {
    const RowRead read = inspector_.returned_rows(r, d, runtime_max);
    traffic_.combine_bytes += read.run.count * read.run.pitch_bytes;
    if (doubtful.contains(d)) inspect_rows(read);
  }
}

// Bytes from `at_bytes` of a slice on, which may lie behind it: in the next slices, and behind the last one zeros.
void SimAllToAll::read_behind(int slice, std::int64_t at_bytes, std::span<std::byte> row) const {
  A2ASIM_INVARIANT(at_bytes >= 0, "addresses count from a slice's start");
  std::ranges::fill(row, std::byte{0});
  for (std::size_t done = 0; done < row.size() && slice < ep_size_; ++slice) {
    const std::int64_t room = memory_.slice_bytes(slice) - at_bytes;
    if (room > 0) {
      const auto bytes = std::min(static_cast<std::size_t>(room), row.size() - done);
      std::memcpy(row.data() + done, memory_.at(slice, at_bytes, static_cast<std::int64_t>(bytes)), bytes);
      done += bytes;
    }
    at_bytes = std::max<std::int64_t>(-room, 0);
  }
}

// Unweighted sum over a token's distinct destinations, one rounding; check_combine_reads has reported what is wrong.
void SimAllToAll::sum_tokens(int r, std::int64_t runtime_max, std::vector<std::byte>& output) {
  const Rank& rank = rank_at(r);
  A2ASIM_INVARIANT(is_numeric() && rank.kernels.combine != nullptr, "sums need numbers");
  const std::int64_t pitch = rank.config.combine_bytes_per_token();
  const std::int64_t begin = rows_of(r).regions.combine_row(r, 0, runtime_max);
  A2ASIM_INVARIANT(begin >= rank.at.payload_data && rank.tokens >= 0, "combine reads behind the tables");
  std::array<const std::byte*, kMaxRanks> base = {};
  std::array<std::int64_t, kMaxRanks> readable = {};
  for (int d = 0; d < ep_size_; ++d) {
    const std::int64_t sent = counters(r, rank.at.send_counters)[d];
    const std::int64_t rows = std::clamp<std::int64_t>((memory_.slice_bytes(d) - begin) / pitch, 0, sent);
    readable[static_cast<std::size_t>(d)] = rows;
    base[static_cast<std::size_t>(d)] = rows == 0 ? nullptr : memory_.at(d, begin, rows * pitch);
  }
  output.resize(static_cast<std::size_t>(rank.tokens * pitch));
  const int top_k = rank.config.top_k;
  const std::int32_t* targets = memory_.words(r, rank.at.topk_target_ranks, rank.tokens * top_k);
  const std::int32_t* slots = memory_.words(r, rank.at.topk_send_indices, rank.tokens * top_k);
  std::array<const std::byte*, kMaxTopK> rows;
  std::vector<std::byte> behind;  // rows that leave their slice
  for (std::int64_t t = 0; t < rank.tokens; ++t) {
    for (int j = 0; j < top_k; ++j) {
      const std::int32_t d = targets[t * top_k + j];
      const std::int32_t slot = slots[t * top_k + j];
      // A peer with another cap may have written rows over these tables.
      const bool is_copy = d >= 0 && d < ep_size_ && slot >= 0;
      const bool is_there = is_copy && slot < readable[static_cast<std::size_t>(d)];
      const std::byte*& row = rows[static_cast<std::size_t>(j)];
      row = is_there ? base[static_cast<std::size_t>(d)] + slot * pitch : rank.zero_row.data();
      if (!is_copy || is_there) continue;
      behind.resize(static_cast<std::size_t>(top_k * pitch));
      const std::span<std::byte> copy(behind.data() + j * pitch, static_cast<std::size_t>(pitch));
      read_behind(d, begin + slot * pitch, copy);
      row = copy.data();
    }
    rank.kernels.combine(rows.data(), top_k, rank.config.hidden_size, output.data() + t * pitch);
  }
}

}  // namespace a2asim
