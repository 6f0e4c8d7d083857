// What the tokens of a cluster carry: routing, weights and hidden states, drawn from a seed, the same at every
// fidelity.
//
// Drawing anew in every round would cost more than the round itself. Each rank has a pool of tokens instead, and a
// round sends a window of it; the windows of kWindows successive rounds all differ, so that a stale row is not by
// accident the right one. Values are those of batch_data.h: exact in every float type with up to eight closed-form
// experts. Quantised rows are what the oracle computes with, too.
#pragma once

#include <cstdint>
#include <vector>

#include "model/alltoall/alltoall.h"
#include "model/alltoall/reference.h"
#include "model/base/random.h"
#include "model/base/rank_mask.h"
#include "sim/alltoall/batch_data.h"
#include "sim/alltoall/fidelity.h"
#include "sim/scenario/scenario.h"

namespace a2asim {

class ClusterContents {
 public:
  static constexpr std::int64_t kWindows = 257;  // prime: any stride visits all of them
  // What one cluster may draw, in all; larger steps are refused by reserve().
  static constexpr std::int64_t kMaxBytes = std::int64_t{4} << 30;

  ClusterContents(const AllToAllConfig& config, const ExpertPayloads& payloads, Fidelity fidelity,
                  const Routing& routing, std::uint64_t seed);

  // Makes room for a window of so many rows. bad_input beyond kMaxBytes. Spans given before become invalid.
  Result<void> reserve(int rank, std::int64_t rows);
  // Ids and payloads of `rows` tokens; R and the number of tokens are the caller's.
  void fill(int rank, std::int64_t rows, std::int64_t round, DispatchInput& input) const;
  // SGLang's dummy token (up to #29461): routed to this rank's own first expert, so that nothing crosses the wire,
  // while its id payload holds `padding_id` and its weights are zero, so that nothing is computed.
  void fill_dummy(int rank, std::int32_t padding_id, DispatchInput& input);
  // The oracle for the first `rows` tokens. Experts of the ranks in `dead` contribute nothing: their tokens are
  // dropped.
  Result<ReferenceResult> reference(int rank, std::int64_t rows, std::int64_t round, RankMask dead,
                                    const ExpertNetwork& experts) const;

 private:
  struct Pool {
    Random routing_random;  // apart from the values, so that routing does not depend on the fidelity
    Random value_random;
    std::vector<std::int32_t> ids;  // [rows, top_k]
    std::vector<float> weights;     // [rows, top_k]; empty without bytes, as is hidden
    QuantisedRows hidden;           // [rows, hidden_size]; scales of quantised rows only
    std::int64_t rows = 0;
    std::vector<std::int32_t> dummy_route, dummy_ids;  // [top_k]
    std::vector<float> dummy_weights;
    std::vector<std::byte> dummy_hidden, dummy_scales;
  };

  Pool& pool(int rank) { return pools_[static_cast<std::size_t>(rank)]; }
  const Pool& pool(int rank) const { return pools_[static_cast<std::size_t>(rank)]; }
  static std::int64_t window(int rank, std::int64_t round) { return (round * 97 + rank * 31) % kWindows; }
  std::int64_t id_window(int rank, std::int64_t round) const {
    return routing_.kind == Routing::Kind::round_robin ? 0 : window(rank, round);
  }
  std::int64_t bytes_per_row() const;
  void draw_ids(Random& random, std::int64_t token, std::int32_t* ids) const;
  void draw_distinct(Random& random, std::int64_t first, std::int64_t count, int begin, int end,
                     std::int32_t* ids) const;
  void draw_hidden(Pool& pool, std::int64_t rows) const;
  std::size_t bytes_of(int payload) const {
    return static_cast<std::size_t>(config_.payload_bytes_per_token[static_cast<std::size_t>(payload)]);
  }

  AllToAllConfig config_;
  ExpertPayloads payloads_;
  Routing routing_;
  bool has_bytes_;
  std::int64_t drawn_bytes_ = 0;
  std::vector<Pool> pools_;
};

}  // namespace a2asim
