// The receive buffers of a run, as pictures need them: for every slot [source, slot] what its reader expects there,
// what it finds, and where the row went that it expected.
//
// A buffer may have a quarter of a million slots and a run a million steps, so what is kept is bounded: of a buffer at
// most kSourcesDrawn x kSlotsDrawn slots, the wrong ones first; of a layer the buffers of kRanksDrawn ranks, the same;
// and all together so many bytes of JSON, half of which only steps with wrong rows may take. What is left out is
// counted.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sim/cluster/cluster_mirror.h"

namespace a2asim {

inline constexpr std::size_t kSourcesDrawn = 16;
inline constexpr std::size_t kSlotsDrawn = 24;
inline constexpr std::size_t kRanksDrawn = 8;
inline constexpr int kLayersDrawn = 4;
inline constexpr std::size_t kStepsFollowed = 96;   // steps with wrong rows
inline constexpr std::size_t kTokensFollowed = 64;  // in a layer of such a step

// "hidden", "scales", "ids", "weights", "combine" for -1: what a buffer's `part` says.
std::string part_name(DispatchType type, int payload);

class BufferRecorder final : public ClusterMirror {
 public:
  explicit BufferRecorder(std::int64_t limit_bytes) : limit_bytes_(limit_bytes) {}

  void dispatched(const MirroredLayer&, SimAllToAll&) override {}
  void combined(const MirroredLayer& layer, SimAllToAll& alltoall,
                std::span<const std::vector<std::byte>> outputs) override;
  void judged(const MirroredLayer&, int, const ReferenceResult&, Tolerance) override {}
  void stopped(const MirroredLayer&) override {}

  // [{step, layer, rank, part, r, sources, slots, cells, ..}], in the order of the run; see README.md.
  const nlohmann::ordered_json& buffers() const { return buffers_; }
  std::int64_t left_out() const { return left_out_; }  // buffers that took part in the run and are not here
  // Of the first tokens with a wrong row, that row; a run itself keeps only the first findings of a kind.
  const std::vector<Finding>& rows_behind() const { return rows_behind_; }

 private:
  void follow_tokens(const MirroredLayer& layer, const SimAllToAll& alltoall);

  std::int64_t limit_bytes_;
  std::int64_t used_bytes_ = 0;
  std::int64_t left_out_ = 0;
  bool is_full_ = false, is_half_full_ = false;  // the second: for layers without wrong rows
  std::int64_t followed_step_ = -1;
  std::size_t steps_followed_ = 0;
  std::vector<Finding> rows_behind_;
  nlohmann::ordered_json buffers_ = nlohmann::ordered_json::array();
};

}  // namespace a2asim
