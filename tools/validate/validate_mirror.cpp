#include "tools/validate/validate_mirror.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "sim/alltoall/batch_data.h"
#include "sim/alltoall/judge.h"
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

// A round of agreeing ranks with new contents: its slices and outputs. Empty: it failed.
std::vector<std::vector<std::byte>> healthy_round(AllToAll& all_to_all, const AllToAllConfig& config) {
  constexpr std::int32_t padding_id = -1;
  const std::int64_t tokens = std::min<std::int64_t>(config.max_num_tokens, 8);
  Random random(1);
  std::vector<TokenBatch> batches;
  std::vector<DispatchInput> inputs;
  for (int rank = 0; rank < config.ep_size; ++rank)
    batches.emplace_back(config, kClusterPayloads, tokens, RoutingPattern::with_repeats, random);
  for (const TokenBatch& batch : batches) inputs.push_back(batch.input(tokens));
  std::vector<std::vector<std::byte>> all;
  auto ok = all_to_all.poison(kPoison);
  if (ok) ok = all_to_all.dispatch(inputs);
  if (ok) ok = all_to_all.sanitize(padding_id);
  if (ok) ok = all_to_all.experts(kClusterPayloads);
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
  add(kind, false, layer, "the all-to-all could not be constructed on the device: " + made.error().message);
  return nullptr;
}

bool ValidationMirror::is_ready(const MirroredLayer& layer) {
  if (device_ == nullptr) {
    device_ = make(layer, CheckKind::receive, all_ranks(layer), false);
    masked_ = layer.masked;
    if (device_ == nullptr) return false;
    if (auto ok = device_->all_to_all().poison(kPoison); !ok) {
      add(CheckKind::receive, false, layer, ok.error().message);
      return false;
    }
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
    const auto graph = device_->all_to_all().capture(inputs, *layer.invalid_expert_id, kClusterPayloads);
    if (!graph) return tl::unexpected(graph.error());
    graphs_[shape] = *graph;
  }
  std::vector<GraphId> graphs;
  for (const RankDecision& decision : layer.decisions) graphs.push_back(decision.replay ? graphs_[shape] : kEager);
  ++out_.graph_layers;
  return device_->all_to_all().replay(graphs, inputs, outputs_);
}

void ValidationMirror::dispatched(const MirroredLayer& layer, SimAllToAll& alltoall) {
  in_layer_ = false;
  if (done_) return;
  if (layer.layer == 0) ++out_.steps;
  if (expected_refusal(layer, layer.outcome.taking_part)) {
    check_refusal(layer, layer.outcome.taking_part);
    return stop(
        fmt::format("compared up to step {}: there the device refuses what FlashInfer would run", layer.outcome.step));
  }
  if (!is_ready(layer)) return stop("the device failed");
  const bool replays = std::ranges::any_of(layer.decisions, &RankDecision::replay);
  is_graph_ = replays && layer.invalid_expert_id.has_value();
  if (replays && !is_graph_)
    add(CheckKind::receive, CheckResult::skipped, layer,
        "run eagerly: a captured graph sanitizes, this version does not");
  if (guard_ && disagrees(layer)) {
    check_guard(layer);
    return stop(fmt::format("compared up to step {}: there the guard ends it", layer.outcome.step));
  }
  if (alltoall.fidelity() != Fidelity::numeric) {
    add(CheckKind::receive, CheckResult::skipped, layer,
        "a rank built with other payload bytes cannot compute: the simulator carries no bytes to compare");
    return stop("nothing to compare byte for byte");
  }
  std::optional<DispatchWrites> writes;
  if (disagrees(layer)) writes.emplace(layer);
  if (writes && writes->hits_tables(layer)) {
    add(CheckKind::receive, CheckResult::skipped, layer,
        "not run: rows lie over another rank's top-k tables, from which hardware takes its addresses");
    return stop("nothing to compare beyond step " + std::to_string(layer.outcome.step));
  }
  const auto ran = is_graph_ ? run_graph(layer, layer.inputs) : device_->all_to_all().dispatch(layer.inputs);
  if (!ran) {
    add(CheckKind::receive, false, layer, ran.error().message);
    return stop("the device failed");
  }
  in_layer_ = true;
  // After a graph the rest of the layer has been done too: only what a race left is looked at now.
  if (is_graph_ && !writes) return;
  const std::string found =
      compare_slices(layer, device_->all_to_all(), alltoall, writes ? &*writes : nullptr, is_graph_);
  if (!is_graph_) add(CheckKind::receive, found.empty(), layer, found.empty() ? "" : "after dispatch: " + found);
  if (!found.empty()) stop("the device differs");
}

Result<void> ValidationMirror::finish_layer(const MirroredLayer& layer) {
  AllToAll& device = device_->all_to_all();
  if (layer.invalid_expert_id) {
    if (auto ok = device.sanitize(*layer.invalid_expert_id); !ok) return ok;
  }
  if (auto ok = device.experts(kClusterPayloads); !ok) return ok;
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
  const std::string found = compare_slices(layer, device_->all_to_all(), alltoall, nullptr, false);
  add(CheckKind::receive, found.empty(), layer, found.empty() ? "" : "after combine: " + found);
  compare_outputs(layer, outputs);
  simulated_ = outputs;
  const auto zones = device_->check_red_zones();
  if (!zones) add(CheckKind::receive, false, layer, zones.error().message);
  check_verdict(layer, Verdict::agrees);
}

std::string ValidationMirror::compare_slices(const MirroredLayer& layer, AllToAll& device, SimAllToAll& alltoall,
                                             const DispatchWrites* writes, bool only_races) {
  std::string first;
  std::int64_t different = 0;
  for (int rank = 0; rank < static_cast<int>(layer.configs.size()); ++rank) {
    const auto got = device.read_slice(rank);
    const auto wanted = alltoall.read_slice(rank);
    if (!got || !wanted) return (got ? wanted : got).error().message;
    if (got->size() != wanted->size())
      return fmt::format("rank {}: a slice of {} bytes, the simulator has {}", rank, got->size(), wanted->size());
    out_.bytes_compared += only_races ? 0 : static_cast<std::int64_t>(got->size());
    if (std::memcmp(got->data(), wanted->data(), got->size()) == 0) continue;
    for (std::size_t i = 0; i < got->size(); ++i) {
      if ((*got)[i] == (*wanted)[i]) continue;
      const auto at = static_cast<std::int64_t>(i);
      if (writes != nullptr && writes->may_be(rank, at, (*got)[i])) {
        ++out_.bytes_raced;
        alltoall.settle_race(rank, at, std::span(&(*got)[i], 1));
        continue;
      }
      if (only_races || ++different != 1) continue;
      const auto runtime_max = layer.inputs[static_cast<std::size_t>(rank)].runtime_max_tokens_per_rank;
      first = fmt::format(
          "rank {}, byte {} ({}): {:02x}, the simulator has {:02x}", rank, i,
          place_in_slice(layer.configs[static_cast<std::size_t>(rank)], std::max<std::int64_t>(runtime_max, 1), at),
          std::to_integer<int>((*got)[i]), std::to_integer<int>((*wanted)[i]));
    }
  }
  return different == 0 ? "" : fmt::format("{}; {} bytes differ in all", first, different);
}

void ValidationMirror::compare_outputs(const MirroredLayer& layer, std::span<const std::vector<std::byte>> outputs) {
  std::string first;
  for (std::size_t rank = 0; rank < outputs.size() && first.empty(); ++rank) {
    const std::vector<std::byte>& got = outputs_[rank];
    const std::vector<std::byte>& wanted = outputs[rank];
    const auto pitch = static_cast<std::size_t>(layer.configs[rank].combine_bytes_per_token());
    out_.tokens_compared += static_cast<std::int64_t>(wanted.size() / pitch);
    if (got == wanted) continue;
    const auto differs = std::ranges::mismatch(got, wanted);
    const auto at = static_cast<std::size_t>(differs.in1 - got.begin());
    first = fmt::format("rank {}, {} of {} bytes equal: first other at token {}, byte {}", rank, at, wanted.size(),
                        at / pitch, at % pitch);
  }
  add(CheckKind::output, first.empty(), layer, first);
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
  const bool same = judged && std::ranges::equal(simulated.findings(), own.findings());
  add(CheckKind::tokens, same, layer,
      same ? ""
           : fmt::format("rank {}: {} tokens NaN and {} wrong, the simulator has {} and {}", rank,
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
  const auto is_usual = [](const AllToAllConfig& config) {
    return config.payload_bytes_per_token[0] == config.combine_bytes_per_token();
  };
  const auto usual = std::ranges::find_if(layer.configs, is_usual);
  if (usual == layer.configs.end()) return;
  const std::vector<AllToAllConfig> configs(layer.configs.size(), *usual);
  const auto simulated = SimAllToAll::create(configs, {});
  auto device = make_device_({configs, guard_, {}, false});
  const bool same = simulated && device &&
                    healthy_round((*device)->all_to_all(), configs[0]) == healthy_round(**simulated, configs[0]);
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
