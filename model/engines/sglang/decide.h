// SGLang's scheduler iteration: sync and collapse, padding, choice of a graph bucket, and the sizing rule.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "model/engines/sglang/deployment.h"
#include "model/step/decider.h"
#include "model/step/external_engine.h"

namespace a2asim {

class SglangDecider final : public Decider {
 public:
  SglangDecider(const SglangPart& sglang, const Deployment& deployment);

  std::span<const RankDecision> decide(std::span<const RankBatch> batches, GraphChoice graph,
                                       std::span<const RankFault> faults) override;
  std::span<const std::int64_t> counts() const override { return counts_; }
  std::optional<std::span<const std::int64_t>> dp_global(std::size_t ep_rank) const override;
  std::vector<std::int64_t> gather_sizes(std::size_t ep_rank) const override;

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
  void sync_outside();
  Result<std::int64_t> pad(const Part& part, const RankDecision& decision, std::span<std::int64_t> list);
  void decide_replica(std::size_t dp_rank, const RankBatch& batch, GraphChoice graph,
                      std::span<const RankFault> faults);
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

  // What, beside the gathered list, decides a rank's padding and bucket. Ranks of one kind come to the same, so the
  // first of a step works it out and the others follow: otherwise a step would cost the square of the ranks.
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

  const SglangPart& sglang_;
  const Deployment& deployment_;
  std::size_t dp_ranks_;
  std::size_t ranks_per_replica_;
  MlpSyncInputs sync_inputs_;
  DpPaddingInputs padding_inputs_;
  bool divides_by_width_ = false;
  // Code outside that answers some of the rules, or nullptr; what it said of this step's sync.
  ExternalEngine* outside_ = nullptr;
  std::vector<std::vector<std::int64_t>> outside_lists_;  // [dp]: the list that each rank's batch carries
  bool outside_lists_differ_ = false;
  std::optional<Error> outside_error_;
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
