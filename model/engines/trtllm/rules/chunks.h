// How the tokens of a step are cut into chunks, and which sizes each rank expects of the others in each of them
// (configurable_moe.py, moe_scheduler.py; fused_moe_wide_ep.py).
//
//   const StepChunks step = cut(rules, lane, {.all_rank_num_tokens = counts, .most_tokens = M});
//   step.ranks[r].sizes[chunk]   what rank r expects of every rank: input of the collectives of that chunk
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "model/engines/trtllm/rules/method.h"

namespace a2asim::trtllm {

using Counts = std::vector<std::int64_t>;

// n tokens in as many chunks, the first ones one larger.
Counts split_chunk(std::int64_t tokens, std::int64_t chunks);

struct ChunkRules {
  enum class Rows : std::uint8_t { sum, ep_times_most, ranks_times_most };
  enum class Patch : std::uint8_t { none, own_entry, every_entry };  // of a chunk that is empty on a rank
  Rows rows = Rows::sum;
  Patch patch = Patch::none;
  bool fills_zero_ranks = false;  // a rank without tokens: all pad to the most
};

struct ChunkInputs {
  std::span<const std::int64_t> all_rank_num_tokens;
  std::int64_t most_tokens = 0;         // moe_max_num_tokens
  std::int64_t low_latency_tokens = 0;  // what DeepEPLowLatency takes of a rank
  bool pads = false;                    // use_dp_padding
};

// What `rank` expects of every rank in one chunk. no_zeros: in an all-to-all an empty chunk counts as one token.
Counts chunk_sizes(const ChunkRules& rules, std::span<const std::int64_t> counts, std::int64_t num_chunks,
                   std::int64_t chunk, std::size_t rank, bool no_zeros);

// The step before it is cut: how many chunks, on which lane, and with which counts.
struct StepPlan {
  std::int64_t num_chunks = 1;
  Lane lane = Lane::none;  // DeepEP's leave for the all-gather
  Counts counts;
};
StepPlan plan_step(const ChunkRules& rules, Lane lane, const ChunkInputs& in);

struct RankChunks {
  Counts rows;                          // that it brings, by chunk
  std::vector<Counts> sizes;            // [chunk][rank]
  std::optional<Raised> raised;
  Counts largest() const;               // R, by chunk
};

struct StepChunks {
  std::int64_t num_chunks = 1;
  Lane lane = Lane::none;  // that carries it: DeepEP's leave for the all-gather
  std::vector<RankChunks> ranks;
};
StepChunks cut(const ChunkRules& rules, Lane lane, const ChunkInputs& in);

// The WIDEEP backend: whether it sends is asked in every step, and each rank answers for itself.
struct WideEpInputs : ChunkInputs {
  Lane lane = Lane::two_sided;
  bool asks_own_rows = false;  // before #6173
  bool nvlink_cuts = true;     // the NVLink lane takes several chunks; until autumn 2025 it left for them, too
};
bool wideep_sends(const WideEpInputs& in, std::size_t rank);
std::int64_t wideep_chunks(const WideEpInputs& in);

}  // namespace a2asim::trtllm
