#include "tools/validate/validate_mirror.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "sim/alltoall/batch_data.h"
#include "sim/alltoall/judge.h"
#include "sim/conformance/suite.h"
#include "tools/validate/validate_expected.h"

namespace a2asim {
namespace {

constexpr std::byte kPoison{0xFF};  // as SimOptions: NaN in every float type
constexpr std::size_t kRemarksOfAKind = 4;

// What a rank gives to dispatch; zeros where the simulation carries no bytes.
class Inputs {
 public:
  Inputs(const MirroredLayer& layer, RankMask ranks) {
    for (const int rank : ranks) {
      const auto at = static_cast<std::size_t>(rank);
      inputs_.push_back(layer.inputs[at]);
      DispatchInput& input = inputs_.back();
      if (!input.payloads.empty()) continue;
      for (const std::int64_t bytes : layer.configs[at].payload_bytes_per_token) {
        zeros_.emplace_back(static_cast<std::size_t>(bytes * input.local_num_tokens));
        input.payloads.emplace_back(zeros_.back());
      }
    }
  }
  std::span<const DispatchInput> all() const { return inputs_; }

 private:
  std::vector<DispatchInput> inputs_;
  std::vector<std::vector<std::byte>> zeros_;
};

RankMask all_ranks(const MirroredLayer& layer) { return RankMask::all(static_cast<int>(layer.configs.size())); }

std::vector<std::int64_t> runtime_max_of(std::span<const DispatchInput> inputs) {
  std::vector<std::int64_t> all;
  for (const DispatchInput& input : inputs) all.push_back(input.runtime_max_tokens_per_rank);
  return all;
}

std::string nothing_from(const MirroredLayer& layer) {
  return fmt::format("nothing to compare from step {} on", layer.outcome.step);
}

// A round of agreeing ranks with new contents: its slices and outputs. Empty: it failed.
std::vector<std::vector<std::byte>> healthy_round(AllToAll& all_to_all, const AllToAllConfig& config,
                                                  const ExpertPayloads& payloads) {
  constexpr std::int32_t padding_id = -3;  // not the poison: it shows whether sanitize wrote it
  const std::int64_t tokens = std::min<std::int64_t>(config.max_num_tokens, 8);
  Random random(1);
  std::vector<TokenBatch> batches;
  std::vector<DispatchInput> inputs;
  for (int rank = 0; rank < config.ep_size; ++rank)
    batches.emplace_back(config, payloads, tokens, RoutingPattern::with_repeats, random);
  for (const TokenBatch& batch : batches) inputs.push_back(batch.input(tokens));
  std::vector<std::vector<std::byte>> all;
  auto ok = all_to_all.poison(kPoison);
  if (ok) ok = all_to_all.dispatch(inputs);
  if (ok) ok = all_to_all.sanitize(padding_id);
  if (ok) ok = all_to_all.experts(payloads);
  if (ok) ok = all_to_all.combine(runtime_max_of(inputs), all);
  if (!ok) return {};
  for (int rank = 0; rank < config.ep_size; ++rank)
    all.push_back(all_to_all.read_slice(rank).value_or(std::vector<std::byte>{}));
  return all;
}

}  // namespace

void ValidationMirror::add(CheckKind kind, CheckResult result, const MirroredLayer& layer, std::string what) {
  ++out_.counts[static_cast<std::size_t>(kind)][static_cast<std::size_t>(result)];
  const auto alike = std::ranges::count_if(
      out_.remarks, [&](const Remark& other) { return other.kind == kind && other.result == result; });
  if (what.empty() || static_cast<std::size_t>(alike) >= kRemarksOfAKind) return;
  out_.remarks.push_back({kind, result, layer.outcome.step, layer.layer, std::move(what)});
}

void ValidationMirror::add(CheckKind kind, bool passed, const MirroredLayer& layer, std::string what) {
  add(kind, passed ? CheckResult::passed : CheckResult::failed, layer, std::move(what));
}

void ValidationMirror::stop(std::string why) {
  done_ = true;
  in_layer_ = false;
  device_.reset();
  if (out_.why.empty()) out_.why = std::move(why);
}

std::unique_ptr<Device> ValidationMirror::make(const MirroredLayer& layer, CheckKind kind, RankMask local_ranks,
                                               bool waits) {
  DeviceRequest request;
  request.configs.assign(layer.configs.begin(), layer.configs.end());
  for (AllToAllConfig& config : request.configs)
    config.active_rank_mask = (RankMask::everybody() - layer.masked).bits();
  request.guard = guard_;
  if (local_ranks != all_ranks(layer)) request.local_ranks.assign(local_ranks.begin(), local_ranks.end());
  request.short_timeout = waits;
  auto made = make_device_(request);
  if (made) return std::move(*made);
  if (auto why = conformance::skip_reason(made.error().message))
    add(kind, CheckResult::skipped, layer, std::move(*why));
  else
    add(kind, false, layer, "the all-to-all could not be constructed on the device: " + made.error().message);
  return nullptr;
}

bool ValidationMirror::is_ready(const MirroredLayer& layer) {
  if (device_ == nullptr) {
    device_ = make(layer, CheckKind::receive, all_ranks(layer), false);
    masked_ = layer.masked;
    if (device_ == nullptr) return false;
    const bool poisons = can_.has(Capability::readable_workspace);
    if (auto ok = poisons ? device_->all_to_all().poison(kPoison) : Result<void>(); !ok) {
      add(CheckKind::receive, false, layer, ok.error().message);
      return false;
    }
  }
  if (masked_ != layer.masked && lacks(Capability::rank_mask, CheckKind::receive, layer)) {
    stop(nothing_from(layer));
    return false;
  }
  if (masked_ != layer.masked) device_->set_active_rank_mask(RankMask::everybody() - layer.masked);
  masked_ = layer.masked;
  return true;
}

// As SGLang does it: captured once for these rows and this R, replayed with the contents of the step.
Result<void> ValidationMirror::run_graph(const MirroredLayer& layer, std::span<const DispatchInput> inputs) {
  std::vector<std::int64_t> shape;
  for (const DispatchInput& input : inputs) {
    shape.push_back(input.local_num_tokens);
    shape.push_back(input.runtime_max_tokens_per_rank);
  }
  if (!graphs_.contains(shape)) {
    const auto graph = device_->all_to_all().capture(inputs, *layer.invalid_expert_id, layer.payloads);
    if (!graph) return tl::unexpected(graph.error());
    graphs_[shape] = *graph;
  }
  std::vector<GraphId> graphs;
  for (const RankDecision& decision : layer.decisions) graphs.push_back(decision.replay ? graphs_[shape] : kEager);
  auto ran = device_->all_to_all().replay(graphs, inputs, outputs_);
  out_.graph_layers += ran ? 1 : 0;
  return ran;
}

bool ValidationMirror::lacks(Capability capability, CheckKind kind, const MirroredLayer& layer) {
  if (can_.has(capability)) return false;
  add(kind, CheckResult::skipped, layer, fmt::format("needs '{}'", a2asim::name(capability)));
  return true;
}

// What a device with refusals must refuse. One without runs more rows than R, as the published kernels do.
bool ValidationMirror::refuses(const MirroredLayer& layer) {
  const auto refusal = expected_refusal(layer, layer.outcome.taking_part);
  if (!refusal) return false;
  const std::string where = fmt::format("compared up to step {}: there ", layer.outcome.step);
  if (can_.has(Capability::refusals)) {
    check_refusal(layer, layer.outcome.taking_part);
    stop(where + "the device refuses what FlashInfer would run");
    return true;
  }
  if (refusal->kind == AllToAllErrorKind::rows_over_r) return false;
  lacks(Capability::refusals, CheckKind::refusal, layer);
  stop(where + "a rank gives what only a refusal can answer");
  return true;
}

bool ValidationMirror::can_compare(const MirroredLayer& layer, const SimAllToAll& alltoall) {
  if (alltoall.fidelity() != Fidelity::numeric) {
    add(CheckKind::receive, CheckResult::skipped, layer,
        "a rank built with other payload bytes cannot compute: the simulator carries no bytes to compare");
    stop("nothing to compare byte for byte");
    return false;
  }
  if (is_usual(layer)) return true;
  const bool knows_slots = can_.has(Capability::slot_order) || can_.has(Capability::told_slots);
  if (lacks(Capability::unequal_r, CheckKind::receive, layer) ||
      lacks(Capability::readable_workspace, CheckKind::receive, layer) ||
      (!knows_slots && lacks(Capability::told_slots, CheckKind::receive, layer))) {
    stop(nothing_from(layer));
    return false;
  }
  if (!DispatchWrites(layer, {}).hits_tables(layer)) return true;
  add(CheckKind::receive, CheckResult::skipped, layer,
      "not run: rows lie over another rank's top-k tables, from which hardware takes its addresses");
  stop(nothing_from(layer));
  return false;
}

void ValidationMirror::dispatching(const MirroredLayer& layer, SimAllToAll& alltoall) {
  in_layer_ = false;
  writes_.reset();
  slots_.clear();
  if (done_) return;
  if (layer.layer == 0) ++out_.steps;
  if (refuses(layer)) return;
  if (!is_ready(layer)) return stop(device_ == nullptr ? "no all-to-all on the device" : "the device failed");
  const bool replays = std::ranges::any_of(layer.decisions, &RankDecision::replay);
  is_graph_ = replays && layer.invalid_expert_id.has_value() && can_.has(Capability::graphs);
  if (replays && !is_graph_)
    add(CheckKind::receive, CheckResult::skipped, layer,
        can_.has(Capability::graphs) ? "run eagerly: a captured graph sanitizes, this version does not"
                                     : "run eagerly, with the sizes of the graph: needs 'captured graphs'");
  if (guard_ && disagrees(layer)) {
    check_guard(layer);
    return stop(fmt::format("compared up to step {}: there the guard ends it", layer.outcome.step));
  }
  if (!can_compare(layer, alltoall)) return;
  auto ran = is_graph_ ? run_graph(layer, layer.inputs) : device_->all_to_all().dispatch(layer.inputs);
  if (const auto why = ran ? std::nullopt : conformance::skip_reason(ran.error().message); is_graph_ && why) {
    is_graph_ = false;
    add(CheckKind::receive, CheckResult::skipped, layer, "run eagerly, with the sizes of the graph: " + *why);
    ran = device_->all_to_all().dispatch(layer.inputs);
  }
  if (ran) ran = pass_on_slots(layer, alltoall);
  if (!ran) {
    add(CheckKind::receive, false, layer, ran.error().message);
    return stop("the device failed");
  }
  if (!is_usual(layer)) writes_.emplace(layer, slots_);
  in_layer_ = true;
}

Result<void> ValidationMirror::pass_on_slots(const MirroredLayer& layer, SimAllToAll& alltoall) {
  if (can_.has(Capability::slot_order) || !can_.has(Capability::told_slots)) return {};
  slots_.resize(layer.configs.size());
  for (const int rank : layer.outcome.taking_part) {
    const auto at = static_cast<std::size_t>(rank);
    auto slots = device_->all_to_all().slots(rank);
    if (!slots) return tl::unexpected(slots.error());
    slots_[at] = *slots;
    if (auto ok = alltoall.set_slots(rank, std::move(*slots), layer.inputs[at]); !ok) return ok;
  }
  return {};
}

void ValidationMirror::dispatched(const MirroredLayer& layer, SimAllToAll& alltoall) {
  // After a graph the rest of the layer has been done too: only what a race left is looked at now.
  if (!in_layer_ || (is_graph_ && !writes_)) return;
  AllToAll& device = device_->all_to_all();
  const std::string found = can_.has(Capability::readable_workspace)
                                ? compare_slices(layer, device, alltoall, writes_ ? &*writes_ : nullptr, is_graph_)
                                : compare_received(layer, device, alltoall);
  if (!is_graph_) add(CheckKind::receive, found.empty(), layer, found.empty() ? "" : "after dispatch: " + found);
  if (!found.empty()) stop("the device differs");
}

Result<void> ValidationMirror::finish_layer(const MirroredLayer& layer) {
  AllToAll& device = device_->all_to_all();
  if (layer.invalid_expert_id) {
    if (auto ok = device.sanitize(*layer.invalid_expert_id); !ok) return ok;
  }
  if (auto ok = device.experts(layer.payloads); !ok) return ok;
  return device.combine(runtime_max_of(layer.inputs), outputs_);
}

void ValidationMirror::combined(const MirroredLayer& layer, SimAllToAll& alltoall,
                                std::span<const std::vector<std::byte>> outputs) {
  if (!in_layer_) return;
  if (!is_graph_) {
    if (auto ok = finish_layer(layer); !ok) {
      add(CheckKind::output, false, layer, ok.error().message);
      return stop("the device failed");
    }
  }
  if (can_.has(Capability::readable_workspace) && (can_.has(Capability::sanitize) || !layer.invalid_expert_id)) {
    const std::string found = compare_slices(layer, device_->all_to_all(), alltoall, nullptr, false);
    add(CheckKind::receive, found.empty(), layer, found.empty() ? "" : "after combine: " + found);
  }
  compare_outputs(layer, outputs);
  simulated_ = outputs;
  for (const int rank : layer.outcome.taking_part) {
    const auto doubts = alltoall.in_doubt(rank);
    in_doubt_[rank].assign(doubts.begin(), doubts.end());
  }
  const auto zones = device_->check_red_zones();
  if (!zones) add(CheckKind::receive, false, layer, zones.error().message);
  check_verdict(layer, Verdict::agrees);
}

void ValidationMirror::judged(const MirroredLayer& layer, int rank, const ReferenceResult& reference,
                              Tolerance tolerance) {
  if (!in_layer_) return;
  const auto at = static_cast<std::size_t>(rank);
  const AllToAllConfig& config = layer.configs[at];
  const std::size_t bytes = reference.output.size() * static_cast<std::size_t>(element_bytes(config.combine_type));
  FindingLog simulated(INT64_MAX), own(INT64_MAX);
  const auto judge = [&](const std::vector<std::byte>& output, FindingLog& log) {
    return output.size() >= bytes && judge_output(config.combine_type, std::span(output).first(bytes), reference,
                                                  config.hidden_size, tolerance, {}, log)
                                         .has_value();
  };
  const bool judged = judge(simulated_[at], simulated) && judge(outputs_[at], own);
  // Where sums are rounded in another order, garbage is another number, but the same tokens are wrong.
  const bool by_element = can_.has(Capability::sum_order);
  const auto alike = [by_element](const Finding& a, const Finding& b) {
    return by_element ? a == b : a.token == b.token;
  };
  const std::vector<std::uint8_t>& doubts = in_doubt_[rank];
  const auto is_in_doubt = [&doubts](const Finding& found) {
    return found.token < std::ssize(doubts) && doubts[static_cast<std::size_t>(found.token)] != 0;
  };
  const bool same = judged && std::ranges::equal(simulated.findings(), own.findings(), alike) &&
                    std::ranges::all_of(own.findings(), is_in_doubt);
  add(CheckKind::tokens, same, layer,
      same ? ""
           : fmt::format("rank {}: {} tokens NaN and {} wrong, the simulator has {} and {}, or not in doubt", rank,
                         own.count_of(FindingKind::nan_output), own.count_of(FindingKind::wrong_output),
                         simulated.count_of(FindingKind::nan_output), simulated.count_of(FindingKind::wrong_output)));
  out_.nan_tokens += own.count_of(FindingKind::nan_output);
  out_.wrong_tokens += own.count_of(FindingKind::wrong_output);
}

void ValidationMirror::check_verdict(const MirroredLayer& layer, Verdict seen) {
  if (!guard_) return;
  const bool same = seen == layer.outcome.verdict;
  add(CheckKind::verdict, same, layer,
      same ? "" : fmt::format("{} on the device, the simulator says {}", name(seen), name(layer.outcome.verdict)));
}

void ValidationMirror::check_guard(const MirroredLayer& layer) {
  const Inputs inputs(layer, all_ranks(layer));
  const auto ran = is_graph_ ? run_graph(layer, inputs.all()) : device_->all_to_all().dispatch(inputs.all());
  const bool named = !ran && names_disagreement(ran.error(), layer);
  add(CheckKind::guard, named, layer,
      ran ? "ranks disagree and no error came"
          : (named ? "" : "the error names no two ranks that differ: ") + ran.error().message);
  if (!ran) check_verdict(layer, Verdict::disagrees);
  check_recovery(layer);
}

void ValidationMirror::check_refusal(const MirroredLayer& layer, RankMask ranks) {
  if (lacks(Capability::refusals, CheckKind::refusal, layer)) return;
  const auto refusal = expected_refusal(layer, ranks);
  const auto device = make(layer, CheckKind::refusal, ranks, false);
  if (!refusal || device == nullptr) return;
  const auto slices = [&] {
    std::vector<std::vector<std::byte>> all;
    for (int rank = 0; rank < static_cast<int>(layer.configs.size()); ++rank)
      all.push_back(device->all_to_all().read_slice(rank).value_or(std::vector<std::byte>{}));
    return all;
  };
  const auto before = slices();
  const Inputs inputs(layer, ranks);
  const auto ran = device->all_to_all().dispatch(inputs.all());
  const bool named = !ran && names(ran.error(), *refusal);
  const bool untouched = slices() == before;
  add(CheckKind::refusal, named && untouched, layer,
      ran          ? to_error(std::span(&*refusal, 1)).message + ", and the device ran it"
      : !untouched ? "bytes were written before the refusal: " + ran.error().message
                   : (named ? "" : "the error names other ranks or numbers: ") + ran.error().message);
  if (refusal->kind == AllToAllErrorKind::misaligned) return;  // no healthy round is possible with these payloads
  check_recovery(layer);
}

void ValidationMirror::check_missing(const MirroredLayer& layer) {
  if (lacks(Capability::bounded_waits, CheckKind::missing, layer)) return;
  const auto device = make(layer, CheckKind::missing, layer.outcome.taking_part, true);
  if (device == nullptr) return;
  const Inputs inputs(layer, layer.outcome.taking_part);
  const auto ran = device->all_to_all().dispatch(inputs.all());
  const std::string unsaid = ran ? "" : unnamed_wait(ran.error(), layer);
  add(CheckKind::missing, !ran && unsaid.empty(), layer,
      ran              ? "ranks are missing, and dispatch came back without an error"
      : unsaid.empty() ? ran.error().message
                       : fmt::format("the error does not say '{}': {}", unsaid, ran.error().message));
  if (!ran) check_verdict(layer, Verdict::disagrees);
  check_recovery(layer);
}

// After an error: a new all-to-all on the same device, ranks that agree.
void ValidationMirror::check_recovery(const MirroredLayer& layer) {
  const auto is_usual = [&](const AllToAllConfig& config) {
    return config.payload_bytes_per_token == token_payloads(layer.payloads.type, config.hidden_size, config.top_k,
                                                            element_bytes(config.combine_type))
                                                 .bytes;
  };
  const auto usual = std::ranges::find_if(layer.configs, is_usual);
  if (usual == layer.configs.end()) return;
  const std::vector<AllToAllConfig> configs(layer.configs.size(), *usual);
  const auto simulated = SimAllToAll::create(configs, {});
  auto device = make_device_({configs, guard_, {}, false});
  const bool same = simulated && device &&
                    healthy_round((*device)->all_to_all(), configs[0], layer.payloads) ==
                        healthy_round(**simulated, configs[0], layer.payloads);
  add(CheckKind::recovery, same, layer,
      same ? "" : "after the error a round of agreeing ranks is not what it should be");
}

void ValidationMirror::stopped(const MirroredLayer& layer) {
  if (done_) return;
  const StepOutcome& outcome = layer.outcome;
  const RankMask refused = outcome.over_capacity | outcome.table_overflow;
  const bool sends_refused = expected_refusal(layer, outcome.taking_part).has_value();
  if (!(refused | outcome.taking_part).empty()) ++out_.steps;
  if (!refused.empty()) check_refusal(layer, refused);
  if (sends_refused)
    check_refusal(layer, outcome.taking_part);
  else if (!outcome.taking_part.empty())
    check_missing(layer);
  const bool all_over = outcome.over_capacity == outcome.group && !disagrees(layer);
  if (all_over) check_verdict(layer, Verdict::over_capacity);
  const std::string up_to = fmt::format("compared up to step {}: there ", outcome.step);
  if (!(refused | outcome.taking_part).empty()) return stop(up_to + "it ends on both");
  stop(out_.steps == 0 ? "" : up_to + "the engine's own rule refuses, before any all-to-all");
}

}  // namespace a2asim
