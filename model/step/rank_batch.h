// What a step gives the ranks to do: a batch for each data-parallel rank, and what a fault makes of it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "model/step/batch.h"

namespace a2asim {

// What one data-parallel rank has to do. count: requests in decode, verify and draft modes, tokens in extend and mixed;
// 0, or mode idle, means no work.
struct RankBatch {
  ForwardMode mode = ForwardMode::idle;
  std::int64_t count = 0;
  bool operator==(const RankBatch&) const = default;
};

// engine: as the engine decides. The other two are a scenario's wish, for every rank.
enum class GraphChoice : std::uint8_t { engine, eager, replay };

// A rank sees this count of a data-parallel rank, whatever that rank sent.
struct CorruptCount {
  std::int64_t source = 0;
  std::int64_t value = 0;
  bool operator==(const CorruptCount&) const = default;
};

// What a fault makes of one expert-parallel rank's part in the decision. The other ranks of its attention replica go on
// as they would without it.
struct RankFault {
  bool absent = false;              // takes no part in the step
  bool skip_all_gather = false;     // this rank alone does not exchange counts: it knows only its own
  bool stale_counts = false;        // uses the list of the step before
  std::optional<ForwardMode> mode;  // runs in this mode after the sync
  std::optional<bool> replay;       // replays, or runs eagerly, whatever the votes say
  std::vector<CorruptCount> corrupt_counts;  // these entries of its list are replaced
  bool operator==(const RankFault&) const = default;
};

}  // namespace a2asim
