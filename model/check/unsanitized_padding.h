// The finding unsanitized_padding: two batches after each other that make the experts of a version without sanitizing
// read rows that nobody filled, and what to do about it. See model/step/unused_rows.h for the rule.
//
//   UnusedRowsSearch unused(deployment);
//   unused.add(decisions, batch);               // every batch that runs, in any order
//   if (auto pair = unused.smallest_pair()) report.findings.push_back(explain_unsanitized_padding(deployment, *pair));
//
// It is an error whatever the limits: a step of two rows and one of a single row are within reach of every server.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "model/check/check.h"
#include "model/check/check_search.h"
#include "model/step/unused_rows.h"

namespace a2asim {

class UnusedRowsSearch {
 public:
  explicit UnusedRowsSearch(const Deployment& deployment);

  // Nothing to look for: the version sanitizes, or no dispatch ever runs.
  bool is_idle() const { return is_idle_; }
  // One that agrees and runs.
  void add(std::span<const RankDecision> decisions, TroubledBatch batch);
  // The least of the larger batch of a pair; stated limits first.
  std::optional<UnusedRows> smallest_pair() const;

 private:
  struct Kept {
    SentRows sent;
    std::int64_t total = 0;
    TroubledBatch batch;
  };
  struct OfOneSize {
    std::optional<Kept> smallest, fullest;
  };

  bool is_idle_;
  RowShape shape_;
  std::map<std::int64_t, OfOneSize> by_r_;
};

CheckFinding explain_unsanitized_padding(const Deployment& deployment, const UnusedRows& pair);

}  // namespace a2asim
