// Why ranks of vLLM agree, and what to change where they do not.
#include <fmt/format.h>

#include <algorithm>

#include "model/engines/vllm/deployment.h"
#include "model/step/fix_steps.h"
#include "model/step/version_words.h"

namespace a2asim::vllm {
namespace {

constexpr std::string_view kTokens = "--max-num-batched-tokens";
constexpr std::string_view kChunk = "VLLM_MOE_DP_CHUNK_SIZE";

std::string_view padding_words(const VllmPart& part) {
  if (part.runs_v2) return "model runner V2: padded to the largest where every rank chose a graph";
  switch (part.generation().coordination.padding) {
    case Padding::never:
      return "nothing is padded";
    case Padding::always:
      return "every rank is padded to the largest count";
    case Padding::unless_eager:
      return "every rank is padded to the largest count, but not with --enforce-eager";
    case Padding::unless_setting_none:
      return "every rank is padded to the largest count, unless cudagraph_mode is NONE";
    case Padding::by_agreed_mode:
      return "every rank is padded to the largest count where all of them chose a graph";
  }
  return "";
}

}  // namespace

std::vector<std::string> VllmPart::knowledge() const {
  std::vector<std::string> chain = {
      "before every forward all replicas all-reduce their token counts, so that each rank has the same list",
      std::string(padding_words(*this))};
  switch (generation().known_failure) {
    case KnownFailure::none:
      break;
    case KnownFailure::idle_graph:
      chain.emplace_back("but an idle rank keeps the graph of its one dummy token (#24845 to #25906)");
      break;
    case KnownFailure::agreed_size:
      chain.push_back(
          fmt::format("a rank that chose a graph asserts that the agreed count is the size of one; beside a "
                      "rank that runs eagerly it need not be (#28579 to #30173); cudagraph_mode is {}",
                      graphs.setting->name));
      break;
    case KnownFailure::request_keys:
      chain.push_back(
          fmt::format("in mode {} a graph is found by its number of requests, which a decode batch above "
                      "max_num_seqs {} has none of (#34102 to #36165)",
                      graphs.setting->name, graphs.max_num_seqs));
      break;
  }
  return chain;
}

std::string VllmPart::choice() const {
  const ParallelArgs& args = given.args.parallel;
  if (kernels == Kernels::none)
    return args.enable_expert_parallel ? "expert parallelism over one replica needs no all-to-all"
                                       : "without --enable-expert-parallel experts are sharded, not exchanged";
  if (!parallel.replaced.empty()) return fmt::format("{} was removed", parallel.replaced);
  const auto variable = given.env.get("VLLM_ALL2ALL_BACKEND");
  if (args.all2all_backend && !parallel.ignores_flag && generation().parallel.source != BackendSource::variable)
    return "by --all2all-backend";
  const bool reads = generation().parallel.source != BackendSource::flag;
  return variable && reads && !parallel.ignores_variable ? "by VLLM_ALL2ALL_BACKEND" : "the default of this version";
}

std::vector<OpenMachine> VllmPart::open_machines() const {
  if (limits_are_known) return {};
  return {{"if a GPU has less than 70 GiB, or is an A100 (--gpu-memory 48)", {}, 48},
          {"if a GPU has 70 GiB and more (--gpu-memory 80)", {}, 80},
          {"if a GPU has 160 GiB and more (--gpu-memory 180)", {}, 180}};
}

Advice VllmPart::fix_disagreement(bool) const {
  if (generation().known_failure == KnownFailure::none) return "use one version and one set of flags on all nodes";
  const Generation& cured = first_without(generation().known_failure);
  const bool idle = generation().known_failure == KnownFailure::idle_graph;
  return std::vector{upgrade_to(first_release(cured), fmt::format("#{}, {}", cured.pr, cured.date)),
                     choose(fmt::format("give cudagraph_mode {} in --compilation-config (now {})",
                                        idle ? "NONE" : "PIECEWISE", graphs.setting->name)),
                     set_flag("--enforce-eager")};
}

Advice VllmPart::fix_every_forward() const { return "see the assertion's own text"; }

Advice VllmPart::fix_waste(std::int64_t) const {
  return "padding follows the fullest replica: balance the requests over the replicas, or capture more graph sizes";
}

std::string VllmPart::fix_unused_rows() const {
  return "use vLLM v0.20.1 (#40960, 2026-04-30) or newer: it marks every row that no token fills; or another "
         "--all2all-backend";
}

CapVariable VllmPart::cap(const Deployment&) const {
  return {buffer.source == kChunk ? kChunk : kTokens, buffer.tokens, 1};
}

std::vector<Knob> VllmPart::knobs(const Deployment&) const {
  Knob knob;
  knob.name = kTokens;
  knob.most_steps = limits.max_num_batched_tokens;
  knob.guess_steps = std::max<std::int64_t>(buffer.tokens / 2, 1);
  knob.values = [](std::int64_t steps) { return std::vector<std::int64_t>{steps}; };
  knob.is_given = given.args.batch.max_num_batched_tokens.has_value();
  knob.now = fmt::format("{} {}", knob.is_given ? "now" : "not given:", limits.max_num_batched_tokens);
  return {knob};
}

Result<std::unique_ptr<Deployment>> VllmPart::with(std::span<const FixSetting> settings) const {
  DeploymentInputs inputs = given;
  for (const FixSetting& setting : settings) {
    const std::int64_t value = setting.values.front();
    if (setting.name == kTokens) {
      inputs.args.batch.max_num_batched_tokens = value;
    } else {
      inputs.env.set(setting.name, fmt::format("{}", value));
    }
  }
  return resolve_deployment(inputs);
}

}  // namespace a2asim::vllm
