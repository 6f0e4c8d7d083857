// Findings as they come: counts are complete, stored findings are limited per kind, so that a wide disagreement does
// not drown the run that is to show it.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "model/base/check_invariant.h"
#include "model/step/finding.h"

namespace a2asim {

class FindingLog {
 public:
  explicit FindingLog(std::int64_t limit_per_kind) : limit_(limit_per_kind) {
    A2ASIM_INVARIANT(limit_per_kind >= 0, "a limit is a number of findings");
  }

  // Counts one; true if it will be kept, so that the caller can save itself from building it.
  bool count(FindingKind kind) { return counts_[static_cast<std::size_t>(kind)]++ < limit_; }
  void add_count(FindingKind kind, std::int64_t count) {
    A2ASIM_INVARIANT(count >= 0, "findings are only added");
    counts_[static_cast<std::size_t>(kind)] += count;
  }
  void keep(Finding finding) { findings_.push_back(std::move(finding)); }
  void add(Finding finding) {
    if (count(finding.kind)) keep(std::move(finding));
  }

  std::span<const Finding> findings() const { return findings_; }
  std::int64_t count_of(FindingKind kind) const { return counts_[static_cast<std::size_t>(kind)]; }
  const std::array<std::int64_t, kFindingKinds>& counts() const { return counts_; }
  void clear() {
    findings_.clear();
    counts_.fill(0);
  }

 private:
  std::int64_t limit_;
  std::vector<Finding> findings_;
  std::array<std::int64_t, kFindingKinds> counts_ = {};
};

}  // namespace a2asim
