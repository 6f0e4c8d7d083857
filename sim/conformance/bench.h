// The same calls on a dispatcher and on the oracle, everything compared that the dispatcher lets see:
//
//   Bench bench(configs, std::move(dispatcher));
//   if (std::string wrong = bench.round(inputs, -1, &payloads); !wrong.empty()) ..
//
// Always: counters and rows that each rank received, outputs. With a readable workspace every byte of every slice after
// each call. Rows count as a set per (source, destination) where neither slots nor their order are known.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "model/alltoall/alltoall.h"
#include "model/alltoall/reference.h"
#include "sim/conformance/oracle.h"

namespace a2asim::conformance {

using Outputs = std::vector<std::vector<std::byte>>;

class Bench {
 public:
  // All ranks are local. Poisons where it can.
  Bench(const std::vector<AllToAllConfig>& configs, std::unique_ptr<Dispatcher> made);

  // Each gives "" or the first difference. Without payloads no experts run, and each row's results follow from it.
  std::string dispatch(std::span<const DispatchInput> inputs);
  std::string sanitize(std::int32_t invalid_id);
  std::string experts(const ExpertPayloads* payloads, const ExpertNetwork* network = nullptr);
  std::string combine();
  std::string round(std::span<const DispatchInput> inputs, std::int32_t invalid_id, const ExpertPayloads* payloads,
                    const ExpertNetwork* network = nullptr);
  // The dispatcher replays what the oracle does eagerly, with the sizes of `inputs`.
  std::string replay(GraphId graph, std::span<const DispatchInput> inputs, std::int32_t invalid_id,
                     const ExpertPayloads& payloads);

  Dispatcher& dispatcher() { return *made_; }
  AllToAll* fixed() { return fixed_; }  // nullptr: it has no fixed layout
  bool can(Capability one) const { return can_.has(one); }
  const Outputs& outputs() const { return outputs_; }
  const Oracle& oracle() const { return oracle_; }
  const Received& received(int rank) const { return received_[static_cast<std::size_t>(rank)]; }

 private:
  int world() const { return static_cast<int>(configs_.size()); }
  const AllToAllConfig& config(int rank) const { return configs_[static_cast<std::size_t>(rank)]; }
  bool is_active(int rank, int peer) const { return (config(rank).active_rank_mask >> peer & 1) != 0; }
  bool knows_slots() const { return can(Capability::slot_order) || can(Capability::told_slots); }
  std::string follow_slots(std::span<const DispatchInput> inputs);
  std::string compare_received();
  std::string compare_rows(int rank, int source) const;
  std::string compare_slices(const char* after);
  std::string compare_outputs();

  std::vector<AllToAllConfig> configs_;
  std::unique_ptr<Dispatcher> made_;
  AllToAll* fixed_;
  Capabilities can_;
  Oracle oracle_;
  std::vector<Received> received_;
  std::vector<std::vector<std::byte>> results_;
  std::vector<std::int64_t> runtime_max_;
  std::vector<std::int64_t> tokens_;
  Outputs outputs_;
  bool in_place_ = false;  // its own experts ran
  bool is_exact_ = true;   // results whose sums are exact in any order
};

}  // namespace a2asim::conformance
