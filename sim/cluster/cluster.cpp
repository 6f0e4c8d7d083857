#include "sim/cluster/cluster.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/base/check_invariant.h"
#include "model/check/checked_engine.h"
#include "sim/cluster/cluster_mirror.h"
#include "sim/alltoall/judge.h"

namespace a2asim {
namespace {

constexpr std::int64_t kFeedForwardInner = 16;

// Numbers only: a digest does not depend on words.
void add_finding(Digest& digest, const Finding& found) {
  digest.add(static_cast<std::int64_t>(found.kind));
  digest.add(static_cast<std::int64_t>(found.severity));
  digest.add(static_cast<std::int64_t>(found.operation));
  digest.add(found.root ? static_cast<std::int64_t>(*found.root) : -1);
  for (const int number : {found.layer, found.rank, found.peer}) digest.add(number);
  for (const std::int64_t number : {found.token, found.value, found.limit}) digest.add(number);
  if (!found.row) return;
  const RowEvidence& row = *found.row;
  for (const int number : {row.slice, row.source, row.payload, row.found_writer, row.found_source, row.found_payload,
                           row.found_step, row.race ? 1 : 0})
    digest.add(number);
  for (const std::int64_t number : {row.token, row.slot, row.expected_offset, row.written_offset, row.expected_round,
                                    row.found_token, row.found_round})
    digest.add(number);
}

tl::unexpected<Error> unusable(std::string message) { return fail(ErrorKind::bad_input, std::move(message)); }

}  // namespace

Cluster::Cluster(const Deployment& deployment, ClusterOptions options)
    : deployment_(deployment),
      options_(std::move(options)),
      decider_(deployment.make_decider()),
      ep_size_(static_cast<int>(deployment.topology.tp_size)),
      log_(options_.findings_per_kind) {}

Result<std::unique_ptr<Cluster>> Cluster::plan(const Deployment& deployment, ClusterOptions options) {
  if (!deployment.uses_flashinfer && !deployment.derives_sizes && !checked_engine(deployment).decides_each_step())
    return unusable("cluster: no fixed-geometry all-to-all is in use");
  if (!deployment.model)
    return unusable("cluster: the model's shape is not known; give experts, top_k and hidden_size");
  if (deployment.topology.tp_size > kMaxRanks)
    return unusable(
        fmt::format("cluster: {} ranks; an all-to-all has at most {}", deployment.topology.tp_size, kMaxRanks));
  std::unique_ptr<Cluster> cluster(new Cluster(deployment, std::move(options)));
  if (auto ok = cluster->make_configs(); !ok) return tl::unexpected(ok.error());
  if (auto ok = cluster->make_geometry(); !ok) return tl::unexpected(ok.error());
  return cluster;
}

Result<std::unique_ptr<Cluster>> Cluster::create(const Deployment& deployment, ClusterOptions options) {
  Result<std::unique_ptr<Cluster>> cluster = plan(deployment, std::move(options));
  if (!cluster) return cluster;
  if (auto ok = (*cluster)->build(); !ok) return tl::unexpected(ok.error());
  return cluster;
}

Result<void> Cluster::check(const Deployment& deployment, ClusterOptions options) {
  if (auto planned = plan(deployment, std::move(options)); !planned) return tl::unexpected(planned.error());
  return {};
}

// How each rank constructs its MoeAlltoAll object, faults included.
Result<void> Cluster::make_configs() {
  A2ASIM_INVARIANT(deployment_.model && ep_size_ >= 1 && ep_size_ <= kMaxRanks, "a plan has a model and ranks");
  const ModelShape& model = *deployment_.model;
  max_top_k_ = deployment_.flashinfer->max_top_k;
  if (deployment_.max_num_tokens > kMaxScenarioCap_tokens)
    return unusable(fmt::format("max_num_tokens is {} ({}): give at most {}", deployment_.max_num_tokens,
                                deployment_.max_num_tokens_source, kMaxScenarioCap_tokens));
  AllToAllConfig config;
  config.ep_size = ep_size_;
  config.top_k = static_cast<int>(model.top_k);
  config.num_experts = deployment_.num_experts;
  config.max_num_tokens = deployment_.max_num_tokens;
  config.combine_type = options_.dtype;
  config.hidden_size = model.hidden_size;
  config.max_top_k = static_cast<int>(max_top_k_);
  config.payload_alignment = deployment_.flashinfer->payload_alignment;
  config.skips_invalid_ids = deployment_.flashinfer->skips_invalid_ids;
  const DispatchType type = deployment_.dispatch_type;
  if (model.hidden_size % block_elements(type) != 0)
    return unusable(fmt::format("hidden_size is {}: {} sends {}, which have a scale for {} elements: give a multiple "
                                "of {}",
                                model.hidden_size, deployment_.generation->name, payload_words(type, 0),
                                block_elements(type), block_elements(type)));
  payloads_ = token_payloads(type, model.hidden_size, model.top_k, element_bytes(options_.dtype));
  config.payload_bytes_per_token = payloads_.bytes;
  config.expert_id_payload = payloads_.id_payload;
  configs_.assign(static_cast<std::size_t>(ep_size_), config);
  for (const Fault& fault : options_.construction_faults) {
    if (!is_construction_fault(fault.kind) || !fault.rank || *fault.rank >= ep_size_) continue;
    AllToAllConfig& own = configs_[static_cast<std::size_t>(*fault.rank)];
    if (fault.kind == FaultKind::max_num_tokens) {
      own.max_num_tokens = std::min(fault.value, kMaxScenarioCap_tokens);
    } else if (fault.payload >= 0 && fault.payload < static_cast<std::int64_t>(own.payload_bytes_per_token.size())) {
      own.payload_bytes_per_token[static_cast<std::size_t>(fault.payload)] = fault.value;
      // Its experts would read rows of another width than they compute with: only who wrote what can be followed.
      if (options_.fidelity == Fidelity::numeric) options_.fidelity = Fidelity::provenance;
    } else {
      std::string all;
      for (int payload = 0; payload < static_cast<int>(payloads_.bytes.size()); ++payload)
        all += fmt::format("{}{} ({})", payload == 0 ? "" : ", ", payload, payload_words(type, payload));
      return unusable(fmt::format("payload_bytes: there is no payload {}; name one of {}", fault.payload, all));
    }
  }
  return {};
}

// What integers say about each rank's slice, and whether all slices fit this machine.
Result<void> Cluster::make_geometry() {
  A2ASIM_INVARIANT(std::ssize(configs_) == ep_size_ && geometry_.empty(), "every rank has a configuration");
  std::int64_t largest_cap = 0;
  for (const AllToAllConfig& config : configs_) {
    AllToAllConfig own = config;
    const std::int64_t cap = own.max_num_tokens = std::max<std::int64_t>(config.max_num_tokens, 0);
    const std::int64_t slice_bytes = own.workspace_bytes();
    geometry_.push_back({0, 0, config.max_num_tokens, own.layout().payload_data, config.dispatch_bytes_per_token(),
                         config.combine_bytes_per_token(), slice_bytes});
    memory_bytes_ += slice_bytes;
    largest_cap = std::max(largest_cap, cap);
  }
  if (options_.fidelity == Fidelity::numeric && can_dispatch() && memory_bytes_ > kMaxMemory_bytes)
    return unusable(
        fmt::format("the workspaces of {} ranks take {} MiB, more than {} MiB: use --fidelity provenance, or "
                    "lower max_num_tokens (now {}) or hidden_size",
                    ep_size_, memory_bytes_ >> 20, kMaxMemory_bytes >> 20, largest_cap));
  return {};
}

// Where every dispatch is refused there is nothing to carry.
bool Cluster::can_dispatch() const {
  return !deployment_.launch_error &&
         std::ranges::all_of(configs_, [](const AllToAllConfig& config) { return config.max_num_tokens > 0; });
}

Result<void> Cluster::build() {
  A2ASIM_INVARIANT(geometry_.size() == configs_.size(), "a cluster is built once it is planned");
  invalid_expert_id_ = deployment_.invalid_expert_id;
  const auto ranks = static_cast<std::size_t>(ep_size_);
  runtime_max_.resize(ranks);
  inputs_.resize(ranks);
  if (options_.fidelity == Fidelity::geometry || !can_dispatch()) return {};
  if (options_.fidelity == Fidelity::numeric) memory_.emplace(memory_bytes_);
  SimOptions sim;
  sim.fidelity = options_.fidelity;
  sim.findings_per_kind = options_.findings_per_kind;
  sim.dispatch_type = payloads().type;
  auto made = SimAllToAll::create(configs_, sim);
  if (!made) return tl::unexpected(made.error());
  alltoall_ = std::move(*made);
  contents_.emplace(configs_[0], payloads(), options_.fidelity, options_.routing, options_.seed);
  network_ = std::make_unique<ClosedFormExperts>();
  if (options_.fidelity == Fidelity::numeric && options_.experts == ExpertsKind::ffn) {
    network_ = std::make_unique<FeedForwardExperts>(configs_[0].num_experts, configs_[0].hidden_size, kFeedForwardInner,
                                                    options_.seed);
    alltoall_->use_network(network_.get());
  }
  return {};
}

void Cluster::reset() {
  A2ASIM_INVARIANT(std::ssize(geometry_) == ep_size_, "a cluster that is reset was built");
  decider_ = deployment_.make_decider();
  if (alltoall_) alltoall_->reset();
  log_.clear();
  bytes_ = Digest{};
  step_ = round_ = 0;
}

std::span<const std::uint8_t> Cluster::tainted(int rank) const {
  A2ASIM_INVARIANT(rank >= 0 && rank < ep_size_, "taints are of a rank");
  return alltoall_ ? alltoall_->tainted(rank) : std::span<const std::uint8_t>{};
}

// The all-gatherv and reduce-scatterv of #35758: every row goes to every rank and back.
void Cluster::count_gather(StepOutcome& outcome) const {
  for (const int r : outcome.gathering) {
    const std::int64_t copies = rows_of(static_cast<std::size_t>(r)) * ep_size_ * options_.layers;
    outcome.traffic.rows_sent += copies;
    outcome.traffic.rows_reserved += copies;
    outcome.traffic.dispatch_bytes += copies * config(r).dispatch_bytes_per_token();
    outcome.traffic.combine_bytes += copies * config(r).combine_bytes_per_token();
  }
}

Result<StepOutcome> Cluster::step(const StepInput& input) {
  A2ASIM_INVARIANT((input.masked - input.absent).empty(), "a masked rank is absent");
  decisions_ = decider_->decide(input.batches, input.graph, input.faults);
  A2ASIM_INVARIANT(std::ssize(decisions_) == ep_size_, "every rank decides");
  for (std::size_t rank = 0; rank < geometry_.size(); ++rank) {
    geometry_[rank].runtime_max_tokens_per_rank = decisions_[rank].sizing.runtime_max_tokens_per_rank;
    geometry_[rank].local_num_tokens = sent_rows(decisions_[rank]);
  }
  StepOutcome outcome{judge({.decisions = decisions_,
                             .slices = geometry_,
                             .absent = input.absent,
                             .masked = input.masked,
                             .refuses_dispatch = deployment_.launch_error.has_value(),
                             .max_top_k = max_top_k_,
                             .top_k = deployment_.model->top_k}),
                      step_++};
  judge_gather(outcome, *decider_, decisions_.size());
  log_.clear();
  outcome.traffic.rows_reserved = outcome.stopped ? 0 : outcome.geometry.reserved_rows * options_.layers;
  if (outcome.gathering == outcome.group && !outcome.stopped) count_gather(outcome);
  const bool runs = alltoall_ != nullptr && !outcome.stopped && !outcome.taking_part.empty();
  if (runs) {
    if (auto ok = run_layers(input, outcome); !ok) return tl::unexpected(ok.error());
  }
  if (outcome.stopped && alltoall_ != nullptr && options_.mirror != nullptr) {
    if (auto ok = show_stopped(input, outcome); !ok) return tl::unexpected(ok.error());
  }
  if (!outcome.geometry.refuses_combine.empty() && !outcome.taking_part.empty()) outcome.stopped = true;
  return outcome;
}

// Contents must not move once the first rank has its window.
Result<void> Cluster::prepare(RankMask senders) {
  A2ASIM_INVARIANT(contents_.has_value(), "rows have contents from provenance on");
  for (const int r : senders)
    if (auto ok = contents_->reserve(r, rows_of(static_cast<std::size_t>(r))); !ok) return ok;
  return {};
}

Result<void> Cluster::run_layers(const StepInput& input, StepOutcome& outcome) {
  A2ASIM_INVARIANT(alltoall_ != nullptr && !outcome.stopped, "a step runs where nobody waits");
  if (auto ok = prepare(outcome.taking_part); !ok) return ok;
  alltoall_->set_active_rank_mask(RankMask::everybody() - input.masked);
  alltoall_->set_absent(input.absent);
  alltoall_->clear_findings();
  alltoall_->reset_traffic();
  for (int layer = 0; layer < options_.layers; ++layer) {
    alltoall_->set_context({static_cast<int>(outcome.step), layer, outcome.phase});
    if (auto ok = run_layer(layer, input.masked, outcome); !ok) {
      if (ok.error().kind == ErrorKind::bad_input) return ok;
      break;  // combine's host check on some rank: the outcome's geometry says on which
    }
  }
  keep_row_findings();
  outcome.traffic = alltoall_->traffic();
  return {};
}

void Cluster::fill_inputs(RankMask senders) {
  A2ASIM_INVARIANT(contents_.has_value() && std::ssize(inputs_) == ep_size_, "rows have contents from provenance on");
  for (int r = 0; r < ep_size_; ++r) {
    const auto at = static_cast<std::size_t>(r);
    DispatchInput& input = inputs_[at];
    const bool sends = senders.contains(r);
    input.runtime_max_tokens_per_rank = runtime_max_[at] = decisions_[at].sizing.runtime_max_tokens_per_rank;
    input.local_num_tokens = sends ? rows_of(at) : 0;
    const bool is_dummy = sends && rows_of(at) > decisions_[at].rows;
    if (is_dummy) {
      contents_->fill_dummy(r, static_cast<std::int32_t>(invalid_expert_id_.value_or(-1)), input);
    } else {
      contents_->fill(r, input.local_num_tokens, round_, input);
    }
  }
}

MirroredLayer Cluster::mirrored(int layer, RankMask masked, const StepOutcome& outcome) const {
  A2ASIM_INVARIANT(layer >= 0 && layer < options_.layers, "a mirror shows a layer");
  std::optional<std::int32_t> invalid_expert_id;
  if (invalid_expert_id_) invalid_expert_id = static_cast<std::int32_t>(*invalid_expert_id_);
  return {outcome, layer, masked, configs_, decisions_, inputs_, payloads(), invalid_expert_id};
}

Result<void> Cluster::show_stopped(const StepInput& input, const StepOutcome& outcome) {
  A2ASIM_INVARIANT(options_.mirror != nullptr && outcome.stopped, "somebody looks at a step that stopped");
  const RankMask callers = outcome.taking_part | outcome.over_capacity | outcome.table_overflow;
  if (auto ok = prepare(callers); !ok) return ok;
  fill_inputs(callers);
  options_.mirror->stopped(mirrored(0, input.masked, outcome));
  return {};
}

Result<void> Cluster::run_layer(int layer, RankMask dead, StepOutcome& outcome) {
  ++round_;
  fill_inputs(outcome.taking_part);
  for (const int r : outcome.taking_part)
    A2ASIM_INVARIANT(runtime_max_[static_cast<std::size_t>(r)] <= config(r).max_num_tokens,
                     "who asks for more than the cap is refused before");
  if (options_.mirror != nullptr) options_.mirror->dispatching(mirrored(layer, dead, outcome), *alltoall_);
  if (auto ok = alltoall_->dispatch(inputs_); !ok) return ok;
  if (options_.mirror != nullptr) options_.mirror->dispatched(mirrored(layer, dead, outcome), *alltoall_);
  if (invalid_expert_id_) {
    if (auto ok = alltoall_->sanitize(static_cast<std::int32_t>(*invalid_expert_id_)); !ok) return ok;
  } else {
    alltoall_->inspect_unused_rows();
  }
  if (auto ok = alltoall_->experts(payloads()); !ok) return ok;
  if (auto ok = alltoall_->combine(runtime_max_, outputs_); !ok) return ok;
  if (options_.mirror != nullptr) options_.mirror->combined(mirrored(layer, dead, outcome), *alltoall_, outputs_);
  note_doubts(outcome);
  report_progress(layer, 0);
  return options_.fidelity == Fidelity::numeric ? judge_outputs(layer, dead, outcome) : Result<void>{};
}

// Of real rows: padding is dropped.
void Cluster::note_doubts(StepOutcome& outcome) const {
  A2ASIM_INVARIANT(alltoall_ != nullptr, "rows are followed from provenance on");
  outcome.in_doubt.resize(static_cast<std::size_t>(ep_size_));
  for (const int r : outcome.taking_part) {
    const auto at = static_cast<std::size_t>(r);
    const std::span<const std::uint8_t> tokens = alltoall_->in_doubt(r);
    const std::int64_t real =
        std::min({decisions_[at].real_rows, decisions_[at].rows, std::int64_t{std::ssize(tokens)}});
    std::vector<std::int64_t>& all = outcome.in_doubt[at];
    for (std::int64_t token = 0; token < real; ++token) {
      if (tokens[static_cast<std::size_t>(token)] == 0) continue;
      const auto place = std::ranges::lower_bound(all, token);
      if (place == all.end() || *place != token) all.insert(place, token);
    }
  }
}

void Cluster::report_progress(int layer, int ranks_judged) const {
  A2ASIM_INVARIANT(ranks_judged >= 0 && ranks_judged <= ep_size_, "progress is a part of a layer");
  const std::int64_t parts = options_.layers * (ep_size_ + 1);
  if (options_.progress) options_.progress(layer * (ep_size_ + 1) + 1 + ranks_judged, parts);
}

Result<void> Cluster::judge_outputs(int layer, RankMask dead, StepOutcome& outcome) {
  A2ASIM_INVARIANT(std::ssize(outputs_) == ep_size_ && network_ != nullptr, "every rank has outputs, and an oracle");
  // Eight closed-form experts are the most whose sum is exact in bfloat16.
  const bool exact = options_.experts == ExpertsKind::exact && configs_[0].top_k <= 8;
  const Tolerance tolerance = exact ? Tolerance::one_rounding : Tolerance::accumulated;
  for (const int r : outcome.taking_part) {
    const auto at = static_cast<std::size_t>(r);
    bytes_.add(std::span<const std::byte>(outputs_[at]));
    const std::int64_t real = std::min(decisions_[at].real_rows, decisions_[at].rows);  // padding is dropped
    if (real == 0) continue;
    const auto reference = contents_->reference(r, real, round_, dead, *network_);
    if (!reference) return tl::unexpected(reference.error());
    if (options_.mirror != nullptr) options_.mirror->judged(mirrored(layer, dead, outcome), r, *reference, tolerance);
    Finding where;
    where.step = static_cast<int>(outcome.step);
    where.layer = layer;
    where.phase = outcome.phase;
    where.rank = r;
    if (!outcome.geometry.agrees())
      where.root = FindingKind::geometry_disagreement;
    else if (!outcome.geometry.receive_overflow.empty())
      where.root = FindingKind::receive_overflow;
    const auto own = std::span<const std::byte>(outputs_[at])
                         .first(static_cast<std::size_t>(real * config(r).combine_bytes_per_token()));
    const auto bad =
        judge_output(config(r).combine_type, own, *reference, config(r).hidden_size, tolerance, where, log_);
    A2ASIM_INVARIANT(bad.has_value(), "an output has the size of its oracle");
    outcome.bad_tokens += *bad;
    report_progress(layer, r + 1);
  }
  return {};
}

// Sizes and refusals are reported from the outcome, alike at every fidelity; of the all-to-all's own log the rows
// count.
void Cluster::keep_row_findings() {
  A2ASIM_INVARIANT(alltoall_ != nullptr, "rows are followed from provenance on");
  const FindingLog& all = alltoall_->log();
  constexpr FindingKind kRowKinds[] = {FindingKind::misplaced, FindingKind::stale, FindingKind::unwritten,
                                       FindingKind::torn, FindingKind::expert_id_out_of_range};
  std::vector<Finding> outputs(log_.findings().begin(), log_.findings().end());
  const auto bad = log_.counts();
  log_.clear();
  for (const FindingKind kind : kRowKinds) log_.add_count(kind, all.count_of(kind));
  for (const FindingKind kind : {FindingKind::nan_output, FindingKind::wrong_output})
    log_.add_count(kind, bad[static_cast<std::size_t>(kind)]);
  for (const Finding& found : all.findings()) {
    if (std::ranges::find(kRowKinds, found.kind) != std::end(kRowKinds)) log_.keep(found);
    // Which destination's slots an overflow reaches; the overflow itself is in the outcome.
    if (found.kind == FindingKind::receive_overflow && found.peer >= 0) log_.keep(found);
  }
  for (Finding& found : outputs) log_.keep(std::move(found));
}

void Cluster::add_to(Digest& digest, const StepOutcome& outcome) const {
  A2ASIM_INVARIANT(std::ssize(decisions_) == ep_size_, "a digest is of a step");
  for (const RankDecision& decision : decisions_) {
    digest.add(decision.sizing.runtime_max_tokens_per_rank);
    digest.add(decision.rows);
    digest.add(decision.real_rows);
    digest.add(decision.bucket);
    digest.add(static_cast<std::int64_t>(decision.sizing.branch));
    const int flags = (decision.participates ? 1 : 0) + (decision.replay ? 2 : 0) + (decision.is_extend ? 4 : 0) +
                      (decision.raised ? 8 + 16 * static_cast<int>(decision.raised->kind) : 0);
    digest.add(flags);
  }
  for (const RankMask mask : {outcome.group, outcome.taking_part, outcome.gathering, outcome.refused,
                              outcome.over_capacity, outcome.geometry.receive_overflow})
    digest.add(mask.bits());
  digest.add(static_cast<std::int64_t>(outcome.verdict));
  digest.add(outcome.bad_tokens);
  digest.add(outcome.traffic.rows_sent);
  digest.add(outcome.traffic.dispatch_bytes);
  digest.add(outcome.traffic.combine_bytes);
  for (const std::int64_t count : log_.counts()) digest.add(count);
  for (const Finding& found : log_.findings()) add_finding(digest, found);
  digest.add(bytes_.value());
}

}  // namespace a2asim
