// The simulated all-to-all: every rank's slice, and FlashInfer's dispatch, sanitize and combine on it.
//
// All ranks are local and stepped together. Writes go where the SENDER's geometry says, reads where the READER's says;
// the shadow of every slice tells at each read whether it found what it should. What goes wrong is a Finding, never a
// crash. A collective that cannot finish (a rank is
// absent, refused its call, or its flag does not match) returns an error that says who waits for whom, and so does
// everything after it until reset().
//
// Behind a slice lies the next one, as in one tensor: combine reads it there. Writes that leave a slice are reported
// and not performed.
//
// What is not modelled: top-k tables that overflow their reservation (the rank refuses instead), EPLB statistics, low
// precision combine, the torn rows of a hardware race (the higher rank wins; such rows are marked).
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "model/alltoall/alltoall.h"
#include "model/alltoall/geometry.h"
#include "model/alltoall/reference.h"
#include "model/base/digest.h"
#include "sim/alltoall/fidelity.h"
#include "sim/alltoall/finding_log.h"
#include "sim/alltoall/row_inspector.h"
#include "sim/alltoall/row_kernels.h"
#include "sim/alltoall/shadow.h"
#include "sim/alltoall/symmetric_memory.h"

namespace a2asim {

struct SimOptions {
  Fidelity fidelity = Fidelity::numeric;
  // Initial bytes of the payload and combine regions; 0xFF is NaN in every float type. Nothing: zeros, as torch.zeros.
  std::optional<std::byte> poison = std::byte{0xFF};
  std::int64_t findings_per_kind = 64;  // kept until clear_findings(); all are counted
  std::optional<DispatchType> dispatch_type = {};  // by which findings name payloads; nothing: by number
};

// Where the caller is; goes into findings and into the shadow ("who wrote it, when").
struct StepContext {
  int step = 0;
  int layer = 0;
  Phase phase = Phase::eager_decode;
};

// Totals since the last reset_traffic().
struct Traffic {
  std::int64_t rows_sent = 0;       // (token, distinct destination) pairs
  std::int64_t rows_reserved = 0;   // sum over ranks of ep_size * R: the rows that experts run over
  std::int64_t dispatch_bytes = 0;  // payload bytes written to receive regions
  std::int64_t combine_bytes = 0;   // expert output bytes read by combine
  std::int64_t wasted_rows() const { return rows_reserved - rows_sent; }
};

class SimAllToAll final : public AllToAll {
 public:
  // One config a rank, ep_size of them. They may differ in max_num_tokens, payload bytes, hidden size, mask: faults.
  static Result<std::unique_ptr<SimAllToAll>> create(std::vector<AllToAllConfig> configs, const SimOptions& options);

  // --- AllToAll. At geometry and provenance fidelity payload spans are not looked at and outputs come back empty.
  using AllToAll::combine;
  using AllToAll::received;
  std::string_view backend() const override { return "sim"; }
  std::span<const int> local_ranks() const override { return local_ranks_; }
  Capabilities capabilities() const override {
    return Capabilities::all().without(Capability::guard).without(Capability::refusals);
  }
  Result<void> dispatch(std::span<const DispatchInput> inputs) override;
  Result<void> sanitize(std::int32_t invalid_expert_id) override;
  Result<void> experts(const ExpertPayloads& payloads) override;
  Result<void> give_results(int rank, std::span<const std::byte> rows) override;
  Result<void> combine(std::span<const std::int64_t> runtime_max_tokens_per_rank,
                       std::vector<std::vector<std::byte>>& outputs) override;
  Result<GraphId> capture(std::span<const DispatchInput> inputs, std::int32_t invalid_expert_id,
                          const ExpertPayloads& payloads) override;
  Result<void> replay(std::span<const GraphId> graphs, std::span<const DispatchInput> inputs,
                      std::vector<std::vector<std::byte>>& outputs) override;
  Result<std::vector<std::byte>> read_slice(int rank) override;  // numeric fidelity only
  SliceView slice_view(int rank) const override { return {&config(rank), rows_of(rank).runtime_max}; }
  Result<void> poison(std::byte value) override;

  // --- What only the simulator has.
  // Experts given as a network, instead of the closed form of experts(). nullptr: back to the closed form.
  void use_network(const ExpertNetwork* network) { network_ = network; }
  // These ranks make no call until told otherwise. Their peers wait for them, unless their mask leaves them out.
  void set_absent(RankMask ranks) { absent_ = ranks; }
  // FlashInfer's rank mask, the same on every rank from now on: see AllToAllConfig::active_rank_mask.
  void set_active_rank_mask(RankMask mask);
  // Two ranks may write the same bytes in one round (rows marked as a race): on hardware either wins, here the higher
  // one does. Puts what won elsewhere at [at, at + bytes) of this rank's slice. Numeric fidelity, right after dispatch.
  void settle_race(int rank, std::int64_t at_bytes, std::span<const std::byte> bytes);
  // Before dispatch: the slots that another backend gave this rank's tokens for the same input, [T, top_k], in place of
  // token order. An error says what is wrong with them. For one dispatch.
  Result<void> set_slots(int rank, std::vector<std::int32_t> slots, const DispatchInput& input);
  // Between dispatch and experts, where a version does not sanitize: its experts run over all [ep_size, R] rows, so the
  // ids in rows that nobody filled count. Live ids of an earlier round are a warning (stale), other bytes in their
  // place an expert_id_out_of_range (at provenance fidelity: could be one). Nothing of what they compute is read.
  void inspect_unused_rows();
  void set_context(const StepContext& context) { context_ = context; }
  // MoeAlltoAll's initialise on every rank: counters, flags, payloads and the shadow as after create(). Graphs stay.
  void reset();

  std::span<const Finding> findings() const { return log_.findings(); }
  const FindingLog& log() const { return log_; }
  void clear_findings() { log_.clear(); }
  // [T] of the last dispatch of this rank: 1 where a row of that token was not read back as it was sent, so that its
  // output cannot be trusted. Empty at geometry fidelity.
  std::span<const std::uint8_t> tainted(int rank) const {
    A2ASIM_INVARIANT(is_rank(rank), "taints are of a rank");
    return rank_at(rank).tainted;
  }
  // The same for bytes: 1 where it cannot be trusted under some order of the slots within (source, destination).
  // Hardware gives them out by an atomic counter, so that whichever token of a destination meets a bad slot varies from
  // run to run: this holds every outcome, tainted() the one of token order.
  std::span<const std::uint8_t> in_doubt(int rank) const {
    A2ASIM_INVARIANT(is_rank(rank), "doubts are of a rank");
    return rank_at(rank).in_doubt;
  }
  const Traffic& traffic() const { return traffic_; }
  void reset_traffic() { traffic_ = {}; }
  const GeometryVerdict& geometry() const { return geometry_; }  // of the last dispatch
  std::int64_t recv_counter(int rank, int source) const;

  // For pictures; findings come from the same judgement.
  // After dispatch: the row of (source, slot) in the receive buffer of `rank`, by the reader's own R.
  RowView received(int rank, int source, int payload, std::int64_t slot) const;
  // After experts: the output for this slot that `rank` reads back from the slice of `from`, by the R of its dispatch.
  RowView returned(int rank, int from, std::int64_t slot) const;
  // After experts: a row of this token that its reader finds wrong, or nothing. Outputs that `rank` reads back come
  // first, then what it sent. Of findings only the first are kept; this looks itself.
  std::optional<Finding> wrong_row_of(int rank, std::int64_t token) const;
  Fidelity fidelity() const { return options_.fidelity; }
  const AllToAllConfig& config(int rank) const {
    A2ASIM_INVARIANT(is_rank(rank), "a configuration is of a rank");
    return rank_at(rank).config;
  }
  bool guards_intact() const { return memory_.guards_intact(); }
  // Round counters, counts and findings so far; outputs are the caller's to add.
  void add_to(Digest& digest) const;

 private:
  struct Rank {
    AllToAllConfig config;
    WorkspaceLayout at;
    std::vector<std::int8_t> rank_of_expert;  // [num_experts]
    std::int64_t tokens = 0;                  // T of the running dispatch
    std::vector<std::uint8_t> tainted, in_doubt;
    std::vector<std::int32_t> wanted_slots;  // see set_slots
    RowKernels kernels;
    std::vector<std::byte> zero_row;  // what an absent top-k position adds
  };
  // What a graph holds for one rank.
  struct GraphNode {
    std::int64_t runtime_max = 0;
    std::int64_t tokens = 0;
    std::int32_t invalid_expert_id = -1;
    ExpertPayloads payloads;
  };
  SimAllToAll(std::vector<AllToAllConfig> configs, const SimOptions& options);

  Rank& rank_at(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  const Rank& rank_at(int rank) const { return ranks_[static_cast<std::size_t>(rank)]; }
  Shadow& shadow_of(int rank) { return shadows_[static_cast<std::size_t>(rank)]; }
  const Shadow& shadow_of(int rank) const { return shadows_[static_cast<std::size_t>(rank)]; }
  RowsOfRank& rows_of(int rank) { return rows_[static_cast<std::size_t>(rank)]; }
  const RowsOfRank& rows_of(int rank) const { return rows_[static_cast<std::size_t>(rank)]; }
  Shadow::RecordId sent_by(int source) const { return rows_of(source).record; }
  std::int32_t* counters(int slice, std::int64_t at_bytes) const { return memory_.words(slice, at_bytes, ep_size_); }
  bool is_rank(int rank) const { return rank >= 0 && rank < ep_size_; }
  bool is_numeric() const { return options_.fidelity == Fidelity::numeric; }
  bool has_rows() const { return options_.fidelity != Fidelity::geometry; }
  bool takes_part(int rank) const { return taking_part_.contains(rank); }
  bool is_active(const Rank& rank, int peer) const { return (rank.config.active_rank_mask >> peer & 1) != 0; }
  RankMask ranks_not_absent() const;
  Finding finding(FindingKind kind, Severity severity, Operation operation, int rank) const;

  // sim_alltoall.cpp
  Result<void> check_turn(bool wants_dispatched, std::string_view call) const;
  void advance_flags();
  Result<void> exchange_flags(Operation operation, std::int64_t WorkspaceLayout::*flags);
  // sim_dispatch.cpp
  Result<void> check_inputs(std::span<const DispatchInput> inputs) const;
  void judge_geometry(std::span<const DispatchInput> inputs);
  void report_geometry();
  void route(int rank, const DispatchInput& input);
  void follow_slots(int rank, std::span<const std::int32_t> targets, std::span<std::int32_t> slots,
                    const std::array<std::int32_t*, kMaxRanks>& tokens);
  int route_stray_id(int rank, std::int64_t token, std::int32_t id);
  void send(int rank, const DispatchInput& input);
  void send_row_by_row(int rank, int destination, const DispatchInput& input);
  void shadow_uniform_round();
  void shadow_writer(int writer);
  void release_records();
  // sim_receive.cpp
  void sanitize_rank(int rank, std::int32_t invalid_expert_id);
  Result<void> check_payloads(const Rank& rank, const ExpertPayloads& payloads) const;
  void check_received(int rank);
  void experts_rank(int rank, const ExpertPayloads& payloads);
  void mark_results(int rank);
  void compute_rows(int rank, const ExpertPayloads& payloads);
  int own_experts(int rank, const std::byte* ids, const std::byte* weights, float* factors, std::int32_t* experts);
  void report_garbage_id(int rank, std::int32_t id);
  std::span<float> load_row(const Rank& rank, DispatchType type, const std::byte* x, const std::byte* scales);
  void compute_row(const Rank& rank, std::span<const float> x, const float* weights, const std::int32_t* experts,
                   int count, std::byte* output);
  // sim_unused_rows.cpp
  void inspect_unused_row(int rank, int source, std::int64_t slot);
  // sim_combine.cpp
  Result<void> refuse_combine(std::span<const std::int64_t> runtime_max);
  std::array<RankMask, kMaxRanks> doubtful_slices(std::span<const std::int64_t> runtime_max) const;
  void check_combine_reads(int rank, std::int64_t runtime_max, RankMask doubtful);
  void sum_tokens(int rank, std::int64_t runtime_max, std::vector<std::byte>& output);
  void read_behind(int slice, std::int64_t at_bytes, std::span<std::byte> row) const;
  // sim_check.cpp
  void inspect_rows(const RowRead& read);
  Finding row_finding(const RowRead& read, std::int64_t slot, const WrongRow& wrong) const;

  int ep_size_;
  SimOptions options_;
  bool equal_configs_ = true;
  std::vector<int> local_ranks_;
  std::vector<Rank> ranks_;
  SymmetricMemory memory_;
  SentRecords records_;
  std::vector<Shadow> shadows_;   // one a slice
  std::vector<RowsOfRank> rows_;  // by rank, of the running dispatch
  RowInspector inspector_;
  std::vector<RankGeometry> rank_geometry_;
  std::vector<Shadow::Run> runs_;               // scratch
  std::vector<std::int32_t> routed_tokens_;     // scratch of route
  std::vector<std::int32_t> routed_tables_;     // the same: the top-k tables where nobody reads them
  std::vector<float> scratch_;                  // scratch of network_row
  std::vector<std::vector<GraphNode>> graphs_;  // [graph][rank]
  const ExpertNetwork* network_ = nullptr;
  std::int32_t invalid_expert_id_ = -1;

  GeometryVerdict geometry_;
  std::optional<FindingKind> root_;  // of this round, if any
  StepContext context_;
  RankMask absent_;
  RankMask taking_part_;    // in the running round
  std::int64_t round_ = 0;  // dispatches and combines so far: FLAG_VAL of a rank that missed none
  std::int64_t dispatch_round_ = 0;
  bool is_dispatched_ = false;
  std::optional<Error> stuck_;
  FindingLog log_;
  Traffic traffic_;
};

}  // namespace a2asim
