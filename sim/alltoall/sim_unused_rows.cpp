// Rows that nobody filled, where nobody sanitizes them either (SGLang before #24850).
#include <fmt/format.h>

#include <array>
#include <cstring>

#include "model/alltoall/experts.h"
#include "model/alltoall/routing.h"
#include "model/base/check_invariant.h"
#include "sim/alltoall/sim_alltoall.h"

namespace a2asim {

void SimAllToAll::set_active_rank_mask(RankMask mask) {
  A2ASIM_INVARIANT(!is_dispatched_ || stuck_, "the mask changes between rounds");
  for (Rank& rank : ranks_) rank.config.active_rank_mask = mask.bits();
}

void SimAllToAll::inspect_unused_rows() {
  if (!has_rows() || !is_dispatched_) return;
  for (int r = 0; r < ep_size_; ++r) {
    const Rank& rank = rank_at(r);
    if (!takes_part(r) || rank.config.expert_id_payload < 0) continue;
    const std::int32_t* received = counters(r, rank.at.recv_counters);
    for (int s = 0; s < ep_size_; ++s) {
      for (std::int64_t slot = received[s]; slot < rows_of(r).runtime_max; ++slot) inspect_unused_row(r, s, slot);
    }
  }
}

void SimAllToAll::inspect_unused_row(int r, int source, std::int64_t slot) {
  const Rank& rank = rank_at(r);
  const AllToAllConfig& config = rank.config;
  const RowsOfRank& reader = rows_of(r);
  A2ASIM_INVARIANT(slot >= 0 && slot < reader.runtime_max, "an unused row is one of the region");
  const std::int64_t pitch = reader.regions.bytes_per_token(config.expert_id_payload);
  const std::int64_t begin = reader.regions.row(config.expert_id_payload, source, slot);
  const Shadow::Content content = shadow_of(r).read(begin, begin + pitch);
  if (content.state == Shadow::Content::State::unwritten) return;  // torch.zeros, or our poison: an id of no harm
  const bool is_ids = content.state == Shadow::Content::State::whole && content.tag.payload == config.expert_id_payload;
  std::int64_t bad_id = -1;
  bool is_garbage = !is_ids;
  if (is_numeric() && is_garbage) {
    std::array<std::int32_t, kMaxTopK> ids = {};
    std::memcpy(ids.data(), memory_.at(r, begin, pitch), static_cast<std::size_t>(4 * config.top_k));
    const std::int64_t first = first_expert(r, config.num_experts, ep_size_);
    const std::int64_t own = num_local_experts(r, config.num_experts, ep_size_);
    is_garbage = false;
    for (int j = 0; j < config.top_k && !is_garbage; ++j) {
      bad_id = ids[static_cast<std::size_t>(j)];
      is_garbage = classify_expert_id(ids[static_cast<std::size_t>(j)], first, own, config.num_experts, -1) ==
                   ExpertIdClass::out_of_range;
    }
  }
  const FindingKind kind = is_garbage ? FindingKind::expert_id_out_of_range : FindingKind::stale;
  if (!log_.count(kind)) return;
  Finding found = finding(kind, is_garbage ? Severity::error : Severity::warning, Operation::experts, r);
  found.peer = source;
  found.value = is_garbage ? bad_id : -1;
  found.limit = config.num_experts;
  RowEvidence row;
  row.slice = r;
  row.source = source;
  row.payload = config.expert_id_payload;
  row.slot = slot;
  row.expected_offset = begin;
  row.expected_round = dispatch_round_;
  RowInspector::note_found(row, content);
  row.dispatch_type = options_.dispatch_type;
  found.row = row;
  const std::string what =
      !is_garbage ? "holds live expert ids of an earlier round; its experts compute a row that nobody reads"
      : bad_id >= 0 || is_numeric()
          ? fmt::format("holds expert id {} of {}; hardware makes an illegal memory access of it", bad_id,
                        config.num_experts)
          : "holds other bytes than expert ids; hardware makes an illegal memory access of it";
  found.message = fmt::format(
      "{}: rank {}, slot {} of rank {} (byte {}): nobody filled it, nobody sanitized it, and it {}; written by rank {} "
      "in "
      "round {} (step {})",
      name(kind), r, slot, source, begin, what, row.found_writer, row.found_round, row.found_step);
  log_.keep(std::move(found));
}

}  // namespace a2asim
