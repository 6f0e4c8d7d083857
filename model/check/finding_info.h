// What every finding means: a file each in findings/. Text, JSON, SARIF, pages, `a2asim explain` and
// tools/docs/findings.md say it from here, and nowhere else.
//
//   const FindingInfo& info = finding_info(FindingKind::over_capacity);
//   finding.consequence = info.on_hardware(Situation::some_ranks);
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "model/step/finding.h"

namespace a2asim {

// What a consequence depends on.
enum class Situation : std::uint8_t {
  always,
  eager,
  graph_replay,
  some_ranks_raise,
  every_rank,
  some_ranks,
  capture,
  start,
  usage,
  first_forward,
  one_batch,
  gather,
};

struct Consequence {
  Situation when = Situation::always;
  std::string_view what;
};

// Lines end with the first empty one. `what` and the consequences are clauses, the rest are sentences.
struct FindingInfo {
  FindingKind kind = FindingKind::note;
  std::string_view what;
  Consequence hardware[6] = {};
  std::string_view why;
  std::string_view fix;
  std::string_view example;          // a command, run in the source folder, whose output has the finding
  std::string_view reports[4] = {};  // public ones of this or a like defect

  std::string_view on_hardware(Situation situation) const;  // which must be among them
  std::span<const Consequence> consequences() const;
  std::span<const std::string_view> links() const;
};

std::span<const FindingInfo> findings();  // in the order of FindingKind, every kind once
const FindingInfo& finding_info(FindingKind kind);

}  // namespace a2asim
