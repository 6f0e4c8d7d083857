// The batches that exploring tries on one deployment, smallest first.
//
// Up to four data-parallel ranks: every way to give each of them at most three requests (or tokens, or a mixture of
// prefill and decode). For any number of ranks besides: one rank against all others on both sides of every bucket edge,
// request bound, chunk and cap, as in `check`.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "model/check/check_search.h"

namespace a2asim {

class ExploreBatches {
 public:
  explicit ExploreBatches(const Deployment& deployment);

  std::size_t size() const { return ranks_ == 0 ? 0 : batches_.size() / ranks_; }
  std::span<const RankBatch> at(std::size_t ordinal) const {
    return std::span(batches_).subspan(ordinal * ranks_, ranks_);
  }

  // What the batches depend on: deployments with equal keys have equal batches.
  static std::vector<std::int64_t> key(const Deployment& deployment);

 private:
  std::size_t ranks_ = 0;
  std::vector<RankBatch> batches_;  // [size, ranks]
};

constexpr bool is_prefill(std::span<const RankBatch> batches) {
  for (const RankBatch& batch : batches)
    if (batch.mode == ForwardMode::extend && batch.count > 0) return true;
  return false;
}

}  // namespace a2asim
