#include "model/check/unsanitized_padding.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/alltoall/workspace.h"
#include "model/check/check_explain.h"
#include "model/check/checked_engine.h"
#include "model/check/finding_info.h"

namespace a2asim {
namespace {

constexpr std::size_t kMostCandidates = 64;  // a pair is usually among the first three

// Any will do where the model is not known: the first unfilled row decides, and it lies in a hidden state of any width.
constexpr ModelShape kUsualModel{.num_experts = 256, .top_k = 8, .hidden_size = 7168};
constexpr std::int64_t kBytesPerValue = 2;  // bfloat16, as replay sends them

std::string step_text(const TroubledBatch& batch) {
  std::vector<std::string> counts;
  for (const RankBatch& rank : batch.batches) counts.push_back(std::to_string(rank.count));
  return fmt::format("{} {} (R = {})", batch.phase == Phase::prefill ? "prefill" : "decode", fold_ranks(counts),
                     batch.decisions.front().sizing.runtime_max_tokens_per_rank);
}

}  // namespace

UnusedRowsSearch::UnusedRowsSearch(const Deployment& deployment)
    : is_idle_(deployment.invalid_expert_id.has_value() || deployment.launch_error.has_value() ||
               deployment.topology.tp_size > kMaxRanks) {
  const ModelShape model = deployment.model.value_or(kUsualModel);
  shape_ = {model.hidden_size * kBytesPerValue, model.top_k,
            deployment.model ? deployment.num_experts : model.num_experts};
}

void UnusedRowsSearch::add(std::span<const RankDecision> decisions, TroubledBatch batch) {
  Kept kept{{decisions.front().sizing.runtime_max_tokens_per_rank, {}}, 0, std::move(batch)};
  for (const RankDecision& decision : decisions) {
    kept.sent.rows.push_back(decision.rows);
    kept.total += decision.rows;
  }
  const auto is_settled = [](const Kept& of) { return of.batch.limits_are_explicit; };
  OfOneSize& own = by_r_[kept.sent.runtime_max_tokens_per_rank];
  const auto& [least, most] = own;
  if (!least || std::pair(!is_settled(kept), kept.total) < std::pair(!is_settled(*least), least->total))
    own.smallest = kept;
  if (!most || std::pair(is_settled(kept), kept.total) > std::pair(is_settled(*most), most->total))
    own.fullest = std::move(kept);
}

std::optional<UnusedRows> UnusedRowsSearch::smallest_pair() const {
  std::vector<const Kept*> all;
  for (const auto& [r, own] : by_r_) all.insert(all.end(), {&*own.smallest, &*own.fullest});
  std::ranges::stable_sort(all, {},
                           [](const Kept* kept) { return std::pair(!kept->batch.limits_are_explicit, kept->total); });
  all.resize(std::min(all.size(), kMostCandidates));
  for (const bool for_certain : {true, false}) {  // a witness that shows itself soon, before one that may take long
    for (std::size_t larger = 1; larger < all.size(); ++larger) {
      for (std::size_t smaller = 0; smaller < larger; ++smaller) {
        for (const auto& [before, now] : {std::pair(all[larger], all[smaller]), std::pair(all[smaller], all[larger])}) {
          const SentRows left = for_certain ? surely_delivered(before->sent, shape_) : before->sent;
          if (reads_foreign_bytes(left, now->sent, shape_)) return UnusedRows{before->batch, now->batch};
        }
      }
    }
  }
  return std::nullopt;
}

CheckFinding explain_unsanitized_padding(const Deployment& deployment, const UnusedRows& pair) {
  const FindingInfo& info = finding_info(FindingKind::unsanitized_padding);
  CheckFinding finding;
  finding.kind = info.kind;
  finding.severity = Severity::error;
  finding.phase = pair.now.phase;
  finding.message =
      fmt::format("rows that nobody fills are not sanitized: in {} after {} experts read other bytes as expert ids",
                  step_text(pair.now), step_text(pair.before));
  finding.consequence = info.on_hardware(Situation::always);
  finding.chain = {
      "experts run over all ep_size * R receive rows; a token fills a row only of the ranks it is routed to",
      "with another R the regions lie elsewhere: an unfilled row's ids are hidden states, weights or outputs "
      "of the step before"};
  finding.fix = checked_engine(deployment).fix_unused_rows();
  finding.witness = to_witness(pair.now);
  finding.before = to_witness(pair.before);
  return finding;
}

}  // namespace a2asim
