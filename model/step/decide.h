// One scheduler iteration, from the local batches of all data-parallel ranks to what every expert-parallel rank does:
// sync and collapse, padding, choice of a graph bucket, and the sizing rule. Check, replay and explore all ask here, so
// that there is one code path for decisions.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "model/engines/sglang/deployment.h"

namespace a2asim {

// What one data-parallel rank has to do. count: requests in decode, verify and draft modes, tokens in extend and mixed;
// 0, or mode idle, means no work.
struct RankBatch {
  ForwardMode mode = ForwardMode::idle;
  std::int64_t count = 0;
  bool operator==(const RankBatch&) const = default;
};

// engine: as SGLang decides. The other two are a scenario's wish, for every rank.
enum class GraphChoice : std::uint8_t { engine, eager, replay };

// What a fault makes of one expert-parallel rank's part in the decision. The other ranks of its attention replica go on
// as they would without it.
struct RankFault {
  bool absent = false;               // takes no part in the step
  bool skip_all_gather = false;      // this rank alone does not exchange counts: it knows only its own
  bool stale_counts = false;         // uses the list of the step before
  std::optional<ForwardMode> mode;   // runs in this mode after the sync
  std::optional<bool> replay;        // replays, or runs eagerly, whatever the votes say
  std::int64_t corrupt_source = -1;  // this entry of its list is replaced (of a data-parallel rank)
  std::int64_t corrupt_value = 0;
  bool operator==(const RankFault&) const = default;
};

// What one expert-parallel rank does in the step.
struct RankDecision {
  bool participates = false;  // false: the step has no work at all, or a fault took the rank away
  bool replay = false;        // a captured graph, else eager
  bool is_extend = false;     // is_extend_in_batch as this rank has it
  ForwardMode mode = ForwardMode::idle;
  std::int64_t bucket = 0;    // requests, when replaying
  std::int64_t rows = 0;      // rows of this rank's hidden states, padding included
  std::int64_t real_rows = 0; // of these, rows that belong to a request
  SizingDecision sizing;      // R and the branch; with `raised`, the R that the rule wanted, or 0
  bool exceeds_cap = false;   // R > max_num_tokens: refused by SGLang or FlashInfer in eager and at capture
  std::optional<Error> raised;
};

class Decider {
 public:
  explicit Decider(const Deployment& deployment);

  // batches: one a DP rank. faults: none, or one an EP rank. The result has one entry an EP rank, valid until the next
  // call. Keeps the counts of the step for a later stale_counts.
  std::span<const RankDecision> decide(std::span<const RankBatch> batches, GraphChoice graph = GraphChoice::engine,
                                       std::span<const RankFault> faults = {});

  // The counts of the last step as the all-gather gave them (before a collapse and before any fault).
  std::span<const std::int64_t> counts() const { return counts_; }
  // The list that an EP rank's rule saw in the last step; nothing when it saw none.
  std::optional<std::span<const std::int64_t>> dp_global(std::size_t ep_rank) const;

 private:
  // Ranks of one replica that decide alike: all of them, but where a fault sets some apart.
  struct Part {
    std::size_t dp_rank = 0;
    std::size_t begin = 0, end = 0;  // EP ranks
    RankBatch batch;
    GraphChoice graph = GraphChoice::engine;
    const RankFault* fault = nullptr;
    MlpSyncResult synced;
  };

  void sync(std::span<const RankBatch> batches);
  void decide_replica(std::size_t dp_rank, const RankBatch& batch, GraphChoice graph, std::span<const RankFault> faults);
  MlpSyncResult synced_alone(std::size_t dp_rank) const;
  void decide_part(const Part& part);
  static bool runs_work(const Part& part, const RankDecision& decision);
  bool decide_replay(const Part& part, RankDecision& decision);
  void decide_eager(const Part& part, RankDecision& decision);
  void spread(const Part& part, const RankDecision& decision, std::int64_t real_tokens);
  bool follow(const Part& part, const RankDecision& decision, std::int64_t real_tokens);
  std::int64_t real_rows_of(const Part& part, std::size_t rank, std::int64_t rows, std::int64_t real_tokens) const;
  std::int64_t scattered_rows(std::int64_t padded_tokens, bool is_extend) const;
  std::size_t bucket_index(std::int64_t bucket) const;
  void make_list(const Part& part);
  void share_list(const Part& part, std::size_t owner, std::size_t size);
  std::span<std::int64_t> own_list(const Part& part) {
    return {&lists_[part.begin * dp_ranks_], list_sizes_[part.begin]};
  }
  std::span<const std::int64_t> list(std::size_t ep_rank) const {
    return {&lists_[list_owner_[ep_rank] * dp_ranks_], list_sizes_[ep_rank]};
  }
  ForwardMode mode_of_work(const RankDecision& decision) const;
  std::int64_t width_of(ForwardMode mode, bool is_extend) const;

  // What, beside the gathered list, decides a rank's padding and bucket. Ranks of one kind come to the same, so the first
  // of a step works it out and the others follow: otherwise a step would cost the square of the ranks.
  struct Kind {
    bool may_replay = false;
    bool is_extend = false;
    std::int64_t width_tokens = 1;
    bool operator==(const Kind&) const = default;
  };
  struct Leader {
    Kind kind;
    std::size_t dp_rank = 0, ep_rank = 0;
    std::size_t bucket_index = 0;
  };
  Kind kind_of(const Part& part, const RankDecision& decision) const;

  const Deployment& deployment_;
  std::size_t dp_ranks_;
  std::size_t ranks_per_replica_;
  MlpSyncInputs sync_inputs_;
  DpPaddingInputs padding_inputs_;
  bool divides_by_width_ = false;
  std::vector<std::optional<LocalBatch>> local_;
  std::vector<MLPSyncBatchInfo> infos_;
  std::vector<MlpSyncResult> synced_;
  std::vector<std::int64_t> counts_, previous_counts_, logprob_counts_;
  std::vector<std::int64_t> lists_;            // [ep, dp]: the list each rank works on, unless it follows another
  std::vector<std::size_t> list_owner_;        // [ep]: whose list it is
  std::optional<Leader> leader_;               // of this step
  std::vector<std::int64_t> original_;         // [dp]: scratch, counts before the width
  std::vector<std::size_t> list_sizes_;        // [ep]: 0 = no list
  std::vector<std::int64_t> leftover_;         // see LeftoverList
  ForwardMode step_mode_ = ForwardMode::idle;  // mode of the ranks that decode
  std::vector<RankDecision> decisions_;
};

}  // namespace a2asim
