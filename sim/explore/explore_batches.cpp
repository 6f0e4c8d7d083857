#include "sim/explore/explore_batches.h"

#include <algorithm>
#include <numeric>

#include "model/base/check_invariant.h"

namespace a2asim {
namespace {

constexpr std::size_t kMostExhaustiveRanks = 4;
constexpr std::int64_t kMostExhaustiveCount = 3;

using Batch = std::vector<RankBatch>;

std::int64_t total(const Batch& batch) {
  std::int64_t sum = 0;
  for (const RankBatch& rank : batch) sum += rank.count;
  return sum;
}

// By size, then by content: the order does not depend on how the list was made.
bool comes_before(const Batch& a, const Batch& b) {
  const std::int64_t size_a = total(a), size_b = total(b);
  if (size_a != size_b) return size_a < size_b;
  return std::ranges::lexicographical_compare(a, b, [](const RankBatch& x, const RankBatch& y) {
    return x.mode != y.mode ? x.mode < y.mode : x.count < y.count;
  });
}

// Every rank takes every choice.
void add_all_vectors(const std::vector<RankBatch>& choices, std::size_t ranks, std::vector<Batch>& out) {
  A2ASIM_INVARIANT(!choices.empty() && ranks >= 1, "every rank has a choice");
  std::vector<std::size_t> chosen(ranks, 0);
  for (;;) {
    Batch batch;
    for (const std::size_t choice : chosen) batch.push_back(choices[choice]);
    out.push_back(std::move(batch));
    std::size_t rank = 0;
    while (rank < ranks && ++chosen[rank] == choices.size()) chosen[rank++] = 0;
    if (rank == ranks) return;
  }
}

std::vector<RankBatch> counts_of(ForwardMode mode, std::int64_t limit) {
  A2ASIM_INVARIANT(limit >= 0, "a limit is a count");
  std::vector<RankBatch> choices;
  for (std::int64_t count = 0; count <= std::min(kMostExhaustiveCount, limit); ++count)
    choices.push_back({mode, count});
  return choices;
}

void add_patterns(const std::vector<BatchPattern>& patterns, std::size_t ranks, bool both_ends,
                  std::vector<Batch>& out) {
  A2ASIM_INVARIANT(ranks >= 1, "a batch has ranks");
  for (const BatchPattern& pattern : patterns) {
    Batch batch(ranks, pattern.others);
    batch.front() = pattern.first;
    out.push_back(batch);
    if (!both_ends || ranks < 2) continue;
    std::swap(batch.front(), batch.back());
    out.push_back(std::move(batch));
  }
}

void add_exhaustive(const Deployment& deployment, std::size_t ranks, std::vector<Batch>& out) {
  A2ASIM_INVARIANT(ranks >= 1 && ranks <= kMostExhaustiveRanks, "few ranks are walked");
  const ForwardMode decode = deployment.speculates ? ForwardMode::target_verify : ForwardMode::decode;
  if (deployment.decode_reachable)
    add_all_vectors(counts_of(decode, deployment.requests_per_dp_rank.value), ranks, out);
  if (!deployment.prefill_reachable) return;
  const std::int64_t chunk = deployment.prefill_tokens.value;
  add_all_vectors(counts_of(ForwardMode::extend, chunk), ranks, out);
  // A speculative worker keeps ranks that would decode idle while a peer prefills.
  if (!deployment.decode_reachable || deployment.speculates) return;
  const std::vector<RankBatch> mixed = {
      {ForwardMode::extend, 0},
      {ForwardMode::extend, 1},
      {ForwardMode::extend, std::min(kMostExhaustiveCount, chunk)},
      {ForwardMode::decode, std::min<std::int64_t>(2, deployment.requests_per_dp_rank.value)}};
  add_all_vectors(mixed, ranks, out);
}

// An idle rank has no mode of its own, so that two ways to say "idle" are one batch.
void normalise(Batch& batch) {
  for (RankBatch& rank : batch)
    if (rank.count == 0) rank.mode = ForwardMode::idle;
}

}  // namespace

ExploreBatches::ExploreBatches(const Deployment& deployment)
    : ranks_(static_cast<std::size_t>(deployment.topology.attn_dp_size)) {
  std::vector<Batch> all;
  A2ASIM_INVARIANT(ranks_ >= 1, "a deployment has replicas");
  if (ranks_ <= kMostExhaustiveRanks) add_exhaustive(deployment, ranks_, all);
  const bool looks_at_ranks = static_cast<bool>(deployment.rule);  // a rule of the user's own may treat ranks unequally
  add_patterns(decode_patterns(deployment), ranks_, looks_at_ranks, all);
  add_patterns(prefill_patterns(deployment), ranks_, looks_at_ranks, all);
  std::ranges::for_each(all, normalise);
  std::ranges::sort(all, comes_before);
  all.erase(std::unique(all.begin(), all.end()), all.end());
  for (const Batch& batch : all)
    if (total(batch) > 0) batches_.insert(batches_.end(), batch.begin(), batch.end());
}

std::vector<std::int64_t> ExploreBatches::key(const Deployment& deployment) {
  std::vector<std::int64_t> key = {deployment.topology.attn_dp_size,
                                   deployment.topology.attn_tp_size,
                                   deployment.requests_per_dp_rank.value,
                                   deployment.prefill_tokens.value,
                                   deployment.max_num_tokens,
                                   deployment.num_tokens_per_bs,
                                   (deployment.decode_reachable ? 1 : 0) + (deployment.prefill_reachable ? 2 : 0) +
                                       (deployment.speculates ? 4 : 0) + (deployment.rule ? 8 : 0)};
  key.insert(key.end(), deployment.capture_bs.begin(), deployment.capture_bs.end());
  return key;
}

}  // namespace a2asim
