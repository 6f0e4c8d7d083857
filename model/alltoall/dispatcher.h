// What every all-to-all has, wherever it keeps its bytes: dispatch, a look at what a rank received, combine. A
// dispatcher of one's own needs no more than this to run the conformance suite (sim/conformance/) on the CPU:
//
//   class Mine final : public Dispatcher { .. backend, local_ranks, capabilities, dispatch, received, combine .. };
//
// What a backend with FlashInfer's fixed layout adds is in alltoall.h. What it can do beyond the minimum it says as
// capabilities: a test that needs one that is lacking is skipped, counted, and names it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "model/base/result.h"

namespace a2asim {

enum class Capability : std::uint8_t {
  slot_order,          // slots within (source, destination) come in token order
  told_slots,          // it says which slot each token got
  sum_order,           // combine adds in the shape of reduction.h: the same bits as the oracle
  zero_tokens,         // a rank may dispatch no token
  changing_r,          // R may be another in every call
  unequal_r,           // ranks whose R differ run, each by its own, as the published kernels do
  rank_mask,           // AllToAllConfig::active_rank_mask
  several_ranks,       // one process drives all ranks
  graphs,              // capture and replay
  sanitize,            // marks the expert ids of rows that nobody filled
  experts,             // runs the closed-form experts itself
  readable_workspace,  // FlashInfer's layout (workspace.h), readable and poisonable as a whole
  guard,               // ranks that disagree get an error that names two of them
  refusals,            // sizes that cannot be right are refused before any write
  bounded_waits,       // a rank that waits for a missing one gets an error that names it
};
inline constexpr int kCapabilities = 15;
std::string_view name(Capability capability);  // "slot order", ..

class Capabilities {
 public:
  constexpr Capabilities() = default;
  constexpr explicit Capabilities(std::uint64_t bits) : bits_(bits) {}
  static constexpr Capabilities all() { return Capabilities((std::uint64_t{1} << kCapabilities) - 1); }
  constexpr bool has(Capability one) const { return (bits_ >> static_cast<int>(one) & 1) != 0; }
  constexpr Capabilities with(Capability one) const {
    return Capabilities(bits_ | std::uint64_t{1} << static_cast<int>(one));
  }
  constexpr Capabilities without(Capability one) const {
    return Capabilities(bits_ & ~(std::uint64_t{1} << static_cast<int>(one)));
  }
  constexpr std::uint64_t bits() const { return bits_; }
  bool operator==(const Capabilities&) const = default;

 private:
  std::uint64_t bits_ = 0;
};

// What one rank hands to dispatch. Host memory; the backend copies what it needs before it returns.
struct DispatchInput {
  std::int64_t runtime_max_tokens_per_rank = 0;          // R as THIS rank computed it
  std::int64_t local_num_tokens = 0;                     // T
  std::span<const std::int32_t> token_selected_experts;  // [T, top_k] global expert ids
  std::vector<std::span<const std::byte>> payloads;      // one a payload, [T, payload_bytes_per_token[p]]
};

// What one rank reads of the last dispatch, by its own R: of each source min(counter, R) rows.
struct Received {
  std::vector<std::int64_t> counters;                         // [ep_size], as the senders counted
  std::vector<std::int64_t> rows;                             // [ep_size]
  std::vector<std::vector<std::vector<std::byte>>> payloads;  // [payload][source], rows by slot

  std::int64_t num_rows() const {
    std::int64_t sum = 0;
    for (const std::int64_t of_source : rows) sum += of_source;
    return sum;
  }
};

// Ranks are driven together; every per-rank argument is ordered as local_ranks(). dispatch and combine take turns.
class Dispatcher {
 public:
  virtual ~Dispatcher() = default;
  Dispatcher(const Dispatcher&) = delete;
  Dispatcher& operator=(const Dispatcher&) = delete;

  virtual std::string_view backend() const = 0;  // "sim", "cuda", ..
  virtual std::span<const int> local_ranks() const = 0;
  virtual Capabilities capabilities() const = 0;

  virtual Result<void> dispatch(std::span<const DispatchInput> inputs) = 0;
  virtual Result<Received> received(int rank) = 0;
  // results[i]: what the experts of local rank i made of the rows that it received, [rows, hidden_size] of
  // combine_type, by source and slot. outputs[i]: [T, hidden_size], each token's results added up. An R per rank,
  // dispatch's own.
  virtual Result<void> combine(std::span<const std::int64_t> runtime_max_tokens_per_rank,
                               std::span<const std::vector<std::byte>> results,
                               std::vector<std::vector<std::byte>>& outputs) = 0;
  // Capability told_slots: [T, top_k] of a local rank's last dispatch, -1 where a position sends nothing.
  virtual Result<std::vector<std::int32_t>> slots(int rank);

 protected:
  Dispatcher() = default;
};

}  // namespace a2asim
