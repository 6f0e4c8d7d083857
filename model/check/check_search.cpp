#include "model/check/check_search.h"

#include <algorithm>
#include <set>

#include "model/check/unsanitized_padding.h"
#include "model/step/judgement.h"

namespace a2asim {
namespace {

std::int64_t total(const BatchPattern& pattern, std::int64_t ranks) {
  return pattern.first.count + pattern.others.count * (ranks - 1);
}

class Patterns {
 public:
  explicit Patterns(const Deployment& deployment) : deployment_(deployment), ranks_(deployment.topology.attn_dp_size) {}

  std::vector<BatchPattern> decode() const {
    const ForwardMode mode = deployment_.speculates ? ForwardMode::target_verify : ForwardMode::decode;
    std::vector<BatchPattern> patterns;
    for (const std::int64_t first : decode_counts())
      for (const std::int64_t others : others_beside(first, deployment_.requests_per_dp_rank.value))
        patterns.push_back({{mode, first}, {mode, others}});
    return patterns;
  }

  // Steps of the draft model. Peers do not matter to the cap, which is all that they are searched for.
  std::vector<BatchPattern> draft() const {
    Counts counts = {1};
    add_around(counts, deployment_.max_num_tokens / deployment_.draft_tokens_per_request);
    add_around(counts, deployment_.requests_per_dp_rank.value);
    std::vector<BatchPattern> patterns;
    for (const std::int64_t first : within(counts, deployment_.requests_per_dp_rank.value))
      patterns.push_back({{ForwardMode::decode, first}, {ForwardMode::decode, 0}});
    return patterns;
  }

  std::vector<BatchPattern> prefill() const {
    std::vector<BatchPattern> patterns;
    for (const std::int64_t first : prefill_counts()) {
      for (const std::int64_t others : others_beside(first, deployment_.prefill_tokens.value))
        patterns.push_back({{ForwardMode::extend, first}, {ForwardMode::extend, others}});
      // Peers that decode while one rank prefills: their counts ride in the same step. A speculative worker keeps such
      // ranks idle instead.
      if (ranks_ < 2 || !deployment_.decode_reachable || deployment_.speculates || first == 0) continue;
      for (const std::int64_t others : within(eager_counts(), deployment_.requests_per_dp_rank.value))
        patterns.push_back({{ForwardMode::extend, first}, {ForwardMode::decode, others}});
    }
    return patterns;
  }

 private:
  using Counts = std::set<std::int64_t>;

  // Both sides of every number at which a decision can change, within 0..limit.
  static void add_around(Counts& counts, std::int64_t value) {
    for (std::int64_t delta = -1; delta <= 2; ++delta) counts.insert(value + delta);
  }
  static Counts within(const Counts& counts, std::int64_t limit) {
    Counts kept;
    for (const std::int64_t count : counts)
      if (count >= 0 && count <= limit) kept.insert(count);
    return kept;
  }

  Counts decode_counts() const {
    Counts counts = eager_counts();
    // A list without padding may hold every size up to the limit: then the buckets between are alike, and the first and
    // the last ones show what there is to see.
    constexpr std::size_t kEnds = 256;
    const std::vector<std::int64_t>& buckets = deployment_.capture_bs;
    for (std::size_t i = 0; i < buckets.size(); ++i)
      if (i < kEnds || i + kEnds >= buckets.size()) add_around(counts, buckets[i]);
    return within(counts, deployment_.requests_per_dp_rank.value);
  }

  // Requests at which an eager decode step may change.
  Counts eager_counts() const {
    const std::int64_t width = deployment_.num_tokens_per_bs;
    Counts counts = {0, 1, 2, 3};
    add_around(counts, deployment_.requests_per_dp_rank.value);
    add_around(counts, deployment_.max_num_tokens / width);
    add_around(counts, deployment_.max_num_tokens / width * deployment_.topology.attn_tp_size);
    return counts;
  }

  Counts prefill_counts() const {
    Counts counts = {0, 1, 2, 3};
    add_around(counts, deployment_.prefill_tokens.value);
    add_around(counts, deployment_.max_num_tokens);
    add_around(counts, deployment_.max_num_tokens * deployment_.topology.attn_tp_size);
    counts.insert((deployment_.max_num_tokens + 1) * deployment_.topology.attn_tp_size);
    return within(counts, deployment_.prefill_tokens.value);
  }

  // What the other ranks may have beside a rank with `first`.
  Counts others_beside(std::int64_t first, std::int64_t limit) const {
    Counts counts = {0, 1, 2, 3, first - 1, first, limit};
    if (!deployment_.capture_bs.empty()) {
      counts.insert(deployment_.capture_bs.front());
      counts.insert(deployment_.capture_bs.back());
      counts.insert(deployment_.capture_bs.back() + 1);
    }
    return ranks_ > 1 ? within(counts, limit) : Counts{0};
  }

  const Deployment& deployment_;
  std::int64_t ranks_;
};

class Search {
 public:
  explicit Search(const Deployment& deployment)
      : deployment_(deployment),
        decider_(deployment.make_decider()),
        unused_rows_(deployment),
        ranks_(deployment.topology.attn_dp_size) {}

  SearchResult run() {
    try_all(decode_patterns(deployment_));
    try_all(prefill_patterns(deployment_));
    if (deployment_.graph_max_bs.is_explicit) try_capture();
    if (draft_is_wider()) try_draft();
    result_.unused_rows = unused_rows_.smallest_pair();
    return std::move(result_);
  }

 private:
  void try_all(std::vector<BatchPattern> patterns) {
    std::stable_sort(patterns.begin(), patterns.end(), [this](const BatchPattern& a, const BatchPattern& b) {
      return total(a, ranks_) < total(b, ranks_);
    });
    std::vector<RankBatch> batches(static_cast<std::size_t>(ranks_));
    for (const BatchPattern& pattern : patterns) {
      std::fill(batches.begin(), batches.end(), pattern.others);
      batches.front() = pattern.first;
      if (total(pattern, ranks_) == 0) {
        judge_idle(batches);
        continue;
      }
      judge(batches);
      if (!deployment_.rule || ranks_ < 2 || pattern.first == pattern.others) continue;
      std::swap(batches.front(), batches.back());  // a rule of the user's own may treat ranks unequally
      judge(batches);
    }
  }

  // Every bucket is captured, whatever the request limit: the pool of a rank holds at least what capture_bs assumes.
  // Nothing is scheduled for that, so the batch is put together here.
  void try_capture() {
    const auto dp_ranks = static_cast<std::size_t>(ranks_);
    const auto stride = static_cast<std::size_t>(deployment_.topology.attn_tp_size * deployment_.topology.attn_cp_size);
    RankDecision captured;
    captured.participates = captured.replay = true;
    captured.mode = deployment_.speculates ? ForwardMode::target_verify : ForwardMode::decode;
    for (std::size_t i = 0; i < deployment_.capture_bs.size(); ++i) {
      captured.bucket = deployment_.capture_bs[i];
      captured.rows = captured.bucket * deployment_.num_tokens_per_bs / deployment_.topology.attn_tp_size;
      std::vector<RankDecision> decisions(dp_ranks, captured);
      for (std::size_t rank = 0; rank < dp_ranks; ++rank)
        decisions[rank].sizing = deployment_.baked_at(i, rank * stride);
      const Judgement said = judged(decisions);
      if (said.over_capacity.empty() && said.geometry.receive_overflow.empty()) continue;
      std::vector batches(dp_ranks, RankBatch{captured.mode, captured.bucket});
      result_.capture = TroubledBatch{said.phase, std::move(batches), std::move(decisions), true};
      return;
    }
  }

  bool draft_is_wider() const {
    return deployment_.decode_reachable && deployment_.drafts && deployment_.draft_backend == "flashinfer" &&
           deployment_.draft_tokens_per_request > deployment_.num_tokens_per_bs;
  }

  // Without graphs: the draft model has its own, whose buckets ask for no less.
  void try_draft() {
    PhaseOutcome& outcome = result_.draft;
    for (const BatchPattern& pattern : Patterns(deployment_).draft()) {
      std::vector<RankBatch> batches(static_cast<std::size_t>(ranks_), pattern.others);
      batches.front() = pattern.first;
      const std::span<const RankDecision> decisions = decider_->decide(batches, GraphChoice::eager);
      const Judgement said = judged(decisions);
      outcome.largest_tokens_per_rank = std::max(outcome.largest_tokens_per_rank, said.largest_tokens_per_rank());
      if (!said.over_capacity.empty())
        keep(outcome.over_cap, Phase::verify, batches, decisions);
      else if (!said.geometry.receive_overflow.empty())
        keep(outcome.silent_overflow, Phase::verify, batches, decisions);
    }
  }

  Judgement judged(std::span<const RankDecision> decisions) const {
    return a2asim::judge({.decisions = decisions, .max_num_tokens = deployment_.max_num_tokens});
  }

  void keep(std::optional<TroubledBatch>& place, Phase phase, const std::vector<RankBatch>& batches,
            std::span<const RankDecision> decisions) const {
    const bool is_explicit = within_stated_limits(deployment_, batches);
    if (place && (place->limits_are_explicit || !is_explicit)) return;  // the first is a smallest one
    place = decided(phase, batches, decisions);
  }

  TroubledBatch decided(Phase phase, const std::vector<RankBatch>& batches,
                        std::span<const RankDecision> decisions) const {
    TroubledBatch decided{phase, batches, {}, within_stated_limits(deployment_, batches)};
    const std::size_t stride = decisions.size() / batches.size();
    for (std::size_t rank = 0; rank < batches.size(); ++rank) decided.decisions.push_back(decisions[rank * stride]);
    return decided;
  }

  // Without a request there is no step, unless the engine makes an idle batch all the same.
  void judge_idle(const std::vector<RankBatch>& batches) {
    if (result_.idle) return;
    const std::span<const RankDecision> decisions = decider_->decide(batches);
    const Judgement said = judged(decisions);
    if (said.nobody_gets_in()) result_.idle = decided(said.phase, batches, decisions);
  }

  void judge(const std::vector<RankBatch>& batches) {
    const std::span<const RankDecision> decisions = decider_->decide(batches);
    Judgement said = judged(decisions);
    judge_gather(said, *decider_, decisions.size());
    SearchResult::Kind& kind = said.phase == Phase::prefill ? result_.prefill : result_.decode;
    ++kind.tried;
    PhaseOutcome& outcome = result_.at(said.phase);
    ++outcome.tried;
    if (said.nobody_gets_in()) {
      kind.first_raises |= kind.tried == 1;
      keep(kind.raises, said.phase, batches, decisions);
      return;
    }
    if (said.gather_disagreeing_rank >= 0 && !outcome.disagrees) {
      keep(outcome.disagrees, said.phase, batches, decisions);
      keep_gathers(said, *decider_, decisions.size(), *outcome.disagrees);
    }
    if (said.no_all_to_all()) return;
    if (outcome.least_rows == 0) {
      outcome.least_wasted_r = said.geometry.largest_r;
      outcome.least_rows = said.geometry.largest_tokens;
    }
    outcome.largest_tokens_per_rank = std::max(outcome.largest_tokens_per_rank, said.largest_tokens_per_rank());
    const bool over_cap = !said.over_capacity.empty(), overflow = !said.geometry.receive_overflow.empty();
    kind.over_cap += over_cap ? 1 : 0;
    if (said.verdict == Verdict::disagrees) keep(outcome.disagrees, said.phase, batches, decisions);
    if (over_cap) keep(outcome.over_cap, said.phase, batches, decisions);
    if (said.verdict == Verdict::agrees && !unused_rows_.is_idle())
      unused_rows_.add(decisions, decided(said.phase, batches, decisions));
    if (overflow && !over_cap && said.geometry.agrees()) keep(outcome.silent_overflow, said.phase, batches, decisions);
  }

  const Deployment& deployment_;
  std::unique_ptr<Decider> decider_;
  UnusedRowsSearch unused_rows_;
  std::int64_t ranks_;
  SearchResult result_;
};

}  // namespace

bool within_stated_limits(const Deployment& deployment, std::span<const RankBatch> batches) {
  return std::ranges::all_of(batches, [&](const RankBatch& batch) {
    const bool extends = batch.mode == ForwardMode::extend;
    const Limit& limit = extends ? deployment.prefill_tokens : deployment.requests_per_dp_rank;
    const bool drafts = batch.mode == ForwardMode::decode && deployment.speculates;
    if (drafts && !deployment.draft_is_explicit) return false;
    const bool captured = drafts && deployment.graph_max_bs.is_explicit && !deployment.capture_bs.empty() &&
                          batch.count <= deployment.capture_bs.back();  // before any request
    return batch.count <= 1 || limit.is_explicit || captured;
  });
}

std::vector<BatchPattern> decode_patterns(const Deployment& deployment) {
  return deployment.decode_reachable ? Patterns(deployment).decode() : std::vector<BatchPattern>{};
}

std::vector<BatchPattern> prefill_patterns(const Deployment& deployment) {
  return deployment.prefill_reachable ? Patterns(deployment).prefill() : std::vector<BatchPattern>{};
}

void keep_gathers(const Judgement& said, const Decider& decider, std::size_t ranks, TroubledBatch& batch) {
  if (said.gather_disagreeing_rank < 0) return;
  const auto every = static_cast<int>((ranks + RankMask::kMost - 1) / RankMask::kMost);
  for (const int bit : {said.gathering.first(), said.gather_disagreeing_rank})
    batch.gathers.push_back({bit * every, decider.gather_sizes(static_cast<std::size_t>(bit * every))});
}

SearchResult search_batches(const Deployment& deployment) { return Search(deployment).run(); }

}  // namespace a2asim
