#include "property_tests/planted.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/alltoall/routing.h"
#include "model/engines/sglang/generation.h"
#include "sim/cluster/cluster_mirror.h"

namespace a2asim::props {
namespace {

constexpr std::uint64_t kSeed = 19;

// --- decisions

using ChangeDecision = void (*)(RankDecision& decision, std::size_t rank, bool is_asked_alone);

class ChangedDecider final : public Decider {
 public:
  ChangedDecider(std::unique_ptr<Decider> own, ChangeDecision change) : own_(std::move(own)), change_(change) {}
  std::span<const RankDecision> decide(std::span<const RankBatch> batches, GraphChoice graph,
                                       std::span<const RankFault> faults) override {
    const auto right = own_->decide(batches, graph, faults);
    decisions_.assign(right.begin(), right.end());
    for (std::size_t rank = 0; rank < decisions_.size(); ++rank) change_(decisions_[rank], rank, !faults.empty());
    return decisions_;
  }
  std::span<const std::int64_t> counts() const override { return own_->counts(); }
  std::optional<std::span<const std::int64_t>> dp_global(std::size_t rank) const override {
    return own_->dp_global(rank);
  }
  std::vector<std::int64_t> gather_sizes(std::size_t rank) const override { return own_->gather_sizes(rank); }

 private:
  std::unique_ptr<Decider> own_;
  ChangeDecision change_;
  std::vector<RankDecision> decisions_;
};

Product deciding(ChangeDecision change) {
  Product product;
  product.decider = [change](const Deployment& deployment) -> std::unique_ptr<Decider> {
    return std::make_unique<ChangedDecider>(deployment.make_decider(), change);
  };
  return product;
}

Result<SizingDecision> refuse_without_rows(const RankView& view) {
  if (view.rows == 0) return fail(ErrorKind::assertion_error, "a rank without rows refuses");
  return find_generation(kSoundVersion)->generation->sizing(view);
}

void forget_the_cap(RankDecision& decision, std::size_t, bool) {
  if (decision.exceeds_cap) decision.raised.reset();
  decision.exceeds_cap = false;
}
void reserve_one_more(RankDecision& decision, std::size_t, bool) {
  std::int64_t& size = decision.sizing.runtime_max_tokens_per_rank;
  if (size > 0 && !decision.exceeds_cap) size += size % 2;  // even, so that it stays below an even cap
}
void lose_a_token(RankDecision& decision, std::size_t, bool) {
  decision.real_rows = std::max<std::int64_t>(decision.real_rows - 1, 0);
}
void favour_the_first(RankDecision& decision, std::size_t rank, bool) { decision.bucket += rank == 0 ? 1 : 0; }
void change_alone(RankDecision& decision, std::size_t, bool is_asked_alone) {
  decision.bucket += is_asked_alone ? 1 : 0;
}

// --- what check says

Product checking(void (*change)(CheckReport& report)) {
  Product product;
  product.check = [change](const Deployment& deployment) {
    CheckReport report = judge_deployment(deployment);
    change(report);
    return report;
  };
  return product;
}

void always_agrees(CheckReport& report) {
  report.verdict = Verdict::agrees;
  report.findings.clear();
}
void drafts_fit_every_graph(CheckReport& report) {
  std::erase_if(report.findings, [](const CheckFinding& found) {
    return found.phase == Phase::verify && found.witness && found.witness->paths.front() == "graph";
  });
  settle_verdict(report);
}
void large_caps_overflow(CheckReport& report) {
  if (report.static_cap.value_or(0) > 200) report.verdict = Verdict::over_capacity;
}

// --- the cluster

// Another number in the first row that each rank received of each other, in one layer: no row says so.
class FlipsBytes final : public ClusterMirror {
 public:
  explicit FlipsBytes(int layer) : layer_(layer) {}
  void dispatched(const MirroredLayer& layer, SimAllToAll& alltoall) override {
    if (layer.layer != layer_ || alltoall.fidelity() != Fidelity::numeric) return;
    for (const int rank : layer.outcome.taking_part) {
      const SliceView slice = alltoall.slice_view(rank);
      const RegionView regions = slice.config->regions(slice.runtime_max);
      const std::vector<std::byte> wrong(static_cast<std::size_t>(regions.bytes_per_token(0)), std::byte{0x5B});
      for (const int source : layer.outcome.taking_part)
        if (alltoall.recv_counter(rank, source) > 0) alltoall.settle_race(rank, regions.row(0, source, 0), wrong);
    }
  }
  void combined(const MirroredLayer&, SimAllToAll&, std::span<const std::vector<std::byte>>) override {}
  void judged(const MirroredLayer&, int, const ReferenceResult&, Tolerance) override {}
  void stopped(const MirroredLayer&) override {}

 private:
  int layer_;
};
FlipsBytes first_layer(0), second_layer(1);

Product clustered(void (*change)(ClusterOptions& options)) {
  Product product;
  product.cluster = [change](const Deployment& deployment, ClusterOptions options) {
    change(options);
    return Cluster::create(deployment, std::move(options));
  };
  return product;
}

void flip_bytes(ClusterOptions& options) { options.mirror = &first_layer; }
void flip_bytes_later(ClusterOptions& options) { options.mirror = &second_layer; }
void route_by_fidelity(ClusterOptions& options) { options.seed += static_cast<std::uint64_t>(options.fidelity); }

Product unmarked_rows() {
  Product product;
  product.deploy = [](const Scenario& world, const SizingRule& rule) {
    auto deployed = deploy(world, "world", {}, rule);
    if (deployed && deployed->deployment) deployed->deployment->invalid_expert_id.reset();
    return deployed;
  };
  return product;
}

Product first_rank_away() {
  Product product;
  product.step = [](Cluster& cluster, StepInput input) {
    input.absent.add(0);
    return cluster.step(input);
  };
  return product;
}

Product replaying(std::function<void(Scenario& world, ReplayOptions& options)> change) {
  Product product;
  product.replay = [change = std::move(change)](Scenario world, ReplayOptions options) {
    change(world, options);
    return replay(world, "world", options);
  };
  return product;
}

void flip_replayed_bytes(Scenario&, ReplayOptions& options) { options.mirror = &first_layer; }
void spread_faults(Scenario& world, ReplayOptions&) {
  for (Fault fault : std::vector<Fault>(world.faults)) {
    if (!fault.rank) continue;
    fault.rank = (*fault.rank + 1) % world.parallel->world_size();
    world.faults.push_back(fault);
  }
}
void only_the_first_fault(Scenario& world, ReplayOptions&) {
  if (!world.faults.empty()) world.faults.resize(1);
}

// --- one all-to-all

using Inputs = std::vector<DispatchInput>;
using ChangeInputs = void (*)(const AllToAllConfig& config, Inputs& inputs);

class ChangedAllToAll final : public AllToAll {
 public:
  ChangedAllToAll(std::unique_ptr<AllToAll> own, ChangeInputs change) : own_(std::move(own)), change_(change) {}
  std::string_view backend() const override { return own_->backend(); }
  std::span<const int> local_ranks() const override { return own_->local_ranks(); }
  Capabilities capabilities() const override { return own_->capabilities(); }
  Result<void> dispatch(std::span<const DispatchInput> inputs) override { return own_->dispatch(changed(inputs)); }
  Result<void> sanitize(std::int32_t id) override { return own_->sanitize(id); }
  Result<void> experts(const ExpertPayloads& payloads) override { return own_->experts(payloads); }
  Result<void> give_results(int rank, std::span<const std::byte> rows) override {
    return own_->give_results(rank, rows);
  }
  Result<void> combine(std::span<const std::int64_t> sizes, std::vector<std::vector<std::byte>>& outputs) override {
    return own_->combine(sizes, outputs);
  }
  Result<GraphId> capture(std::span<const DispatchInput> inputs, std::int32_t id,
                          const ExpertPayloads& payloads) override {
    captured_.assign(inputs.begin(), inputs.end());
    return own_->capture(inputs, id, payloads);
  }
  // Without a change of inputs: of the contents of capture.
  Result<void> replay(std::span<const GraphId> graphs, std::span<const DispatchInput> inputs,
                      std::vector<std::vector<std::byte>>& outputs) override {
    return own_->replay(graphs, change_ == nullptr ? captured_ : changed(inputs), outputs);
  }
  Result<std::vector<std::byte>> read_slice(int rank) override { return own_->read_slice(rank); }
  SliceView slice_view(int rank) const override { return own_->slice_view(rank); }
  Result<void> poison(std::byte value) override { return own_->poison(value); }

 private:
  Inputs changed(std::span<const DispatchInput> inputs) const {
    Inputs own(inputs.begin(), inputs.end());
    if (change_ != nullptr) change_(*own_->slice_view(0).config, own);
    return own;
  }
  std::unique_ptr<AllToAll> own_;
  ChangeInputs change_;
  Inputs captured_;
};

Product meddling(ChangeInputs change) {
  Product product;
  product.alltoall = [change](const AllToAllConfig& config) -> std::unique_ptr<AllToAll> {
    return std::make_unique<ChangedAllToAll>(Product().alltoall(config), change);
  };
  return product;
}

void keep_the_last_token(const AllToAllConfig&, Inputs& inputs) {
  for (DispatchInput& input : inputs) input.local_num_tokens = std::max<std::int64_t>(input.local_num_tokens - 1, 0);
}
void even_out(const AllToAllConfig&, Inputs& inputs) {
  for (DispatchInput& input : inputs)
    for (const DispatchInput& other : Inputs(inputs))
      input.runtime_max_tokens_per_rank =
          std::max(input.runtime_max_tokens_per_rank, other.runtime_max_tokens_per_rank);
}
// These write into what they were given, as a kernel may that works in place: an oracle that is asked afterwards
// follows them.
void prefer_the_first_expert(const AllToAllConfig& config, Inputs& inputs) {
  for (DispatchInput& input : inputs)
    for (const std::int32_t& given : input.token_selected_experts) {
      const int rank = target_rank(given, config.num_experts, config.ep_size);
      const std::int64_t first = first_expert(rank, config.num_experts, config.ep_size);
      if (given + 1 == first + num_local_experts(rank, config.num_experts, config.ep_size))
        const_cast<std::int32_t&>(given) = static_cast<std::int32_t>(first);
    }
}
void mute_the_first_rank(const AllToAllConfig&, Inputs& inputs) {
  for (const std::byte& given : inputs.front().payloads.at(2)) const_cast<std::byte&>(given) = std::byte{0};
}

Product first_rank_masked() {
  Product product;
  product.simulator = [](AllToAllConfig config) {
    config.active_rank_mask &= ~std::uint64_t{1};
    return Product().simulator(config);
  };
  return product;
}

Product blind_to_nan() {
  Product product;
  product.judge_output = [](DataType type, std::span<const std::byte> output, const ReferenceResult& reference,
                            std::int64_t hidden_size, Tolerance tolerance, const Finding& where,
                            FindingLog& log) -> Result<std::int64_t> {
    FindingLog own(1);
    const auto bad = judge_output(type, output, reference, hidden_size, tolerance, where, own);
    log.add_count(FindingKind::wrong_output, own.count_of(FindingKind::wrong_output));
    return bad ? Result<std::int64_t>(*bad - own.count_of(FindingKind::nan_output)) : bad;
  };
  return product;
}

Product without_seed() {
  Product product;
  product.to_yaml = [](Scenario world) {
    world.seed = 0;
    return to_yaml(world);
  };
  return product;
}

}  // namespace

std::vector<Planted> planted_faults() {
  std::uint64_t runs = 0;
  Product aged = replaying([runs](Scenario& world, ReplayOptions&) mutable { world.seed += runs++; });
  return {
      {"agreement", "a rank without rows refuses", {}, refuse_without_rows},
      {"exact fit", "nobody refuses an R above the cap", deciding(forget_the_cap)},
      {"no waste", "an odd R becomes even", deciding(reserve_one_more)},
      {"idle ranks", "a token of each rank is not carried", deciding(lose_a_token)},
      {"permuted ranks", "rank 0 takes another bucket", deciding(favour_the_first)},
      {"shared decisions", "a rank that decides alone takes another bucket", deciding(change_alone)},
      {"sound check", "check calls every deployment safe", checking(always_agrees)},
      {"sound check", "check does not count the drafts of a graph", checking(drafts_fit_every_graph), {}, "pr27945"},
      {"static caps", "check calls large caps too small", checking(large_caps_overflow)},
      {"oracle", "a row changes on its way, in the second layer", clustered(flip_bytes_later)},
      {"no stale read", "rows that nobody filled are not marked", unmarked_rows()},
      {"fidelities", "each fidelity routes by another seed", clustered(route_by_fidelity)},
      {"verdicts", "rank 0 makes no call, whatever it decided", first_rank_away()},
      {"digest", "a run depends on how many there were before", std::move(aged)},
      {"blame", "a row changes on its way where ranks disagree", clustered(flip_bytes), {}, "pr29461"},
      {"causes", "a row of the run changes on its way", replaying(flip_replayed_bytes)},
      {"faults", "a fault reaches the next rank, too", replaying(spread_faults)},
      {"fault order", "the first fault hides the others", replaying(only_the_first_fault)},
      {"permuted rows", "the weights of rank 0 are lost, whoever is rank 0", meddling(mute_the_first_rank)},
      {"conservation",
       "the last token of each rank stays behind",
       meddling(keep_the_last_token),
       {},
       kSoundVersion,
       "the other laws of rows run rounds, too, and a bench compares each byte of a round"},
      {"unequal sizes", "all ranks take the largest R", meddling(even_out)},
      {"renamed experts", "a rank takes its first expert for its last", meddling(prefer_the_first_expert)},
      {"graphs", "a graph replays the contents of capture", meddling(nullptr)},
      {"judge", "NaN passes for right", blind_to_nan()},
      {"missing ranks", "rank 0 is masked, and nobody asked for it", first_rank_masked()},
      {"texts", "a scenario is printed without its seed", without_seed()},
  };
}

std::optional<std::string> noticed_in_walk(const Law& law, const Planted& fault) {
  Workbench bench(fault.rule, fault.product);
  Marks marks;
  Trial trial{bench, marks};
  for (Space (*const space)() : law.exhaustive) {
    ExhaustiveChoice choose;
    do {
      if (std::string why = law.body(draw_world(choose, space(), fault.version), trial); !why.empty()) return why;
    } while (choose.next());
  }
  return std::nullopt;
}

std::optional<std::string> noticed(const Law& law, const Planted& fault, int worlds) {
  Workbench bench(fault.rule, fault.product);
  Marks marks;
  Trial trial{bench, marks};
  RandomChoice choose(kSeed);
  const Space space = law.random();
  for (int i = 0; i < worlds; ++i)
    if (std::string why = law.body(draw_world(choose, space, fault.version), trial); !why.empty()) return why;
  return std::nullopt;
}

}  // namespace a2asim::props
