#include "tools/plan/plan_rules.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "model/step/engine.h"
#include "model/step/judgement.h"

namespace a2asim {
namespace {

constexpr std::array kPaths = {PlanPath::eager_decode, PlanPath::graph_decode, PlanPath::prefill};

std::span<const RankDecision> decide(Decider& decider, PlanPath path, std::size_t dp_ranks, std::int64_t first,
                                     std::int64_t others) {
  const ForwardMode mode = path == PlanPath::prefill ? ForwardMode::extend : ForwardMode::decode;
  std::vector<RankBatch> batches(dp_ranks, {others > 0 ? mode : ForwardMode::idle, others});
  batches[0] = {mode, first};
  return decider.decide(batches, path == PlanPath::graph_decode ? GraphChoice::engine : GraphChoice::eager);
}

std::string words(const Error& error) { return fmt::format("{}: {}", name(error.kind), error.message); }

PlanRule outcome(const Deployment& deployment, Decider& decider, PlanPath path, std::int64_t tokens) {
  const Topology& topology = deployment.topology;
  const auto dp_ranks = static_cast<std::size_t>(topology.attn_dp_size);
  PlanRule out;
  out.path = path;
  const auto judged = [&](std::int64_t others) {
    const auto decisions = decide(decider, path, dp_ranks, tokens, others);
    return std::pair(judge({.decisions = decisions, .max_num_tokens = deployment.max_num_tokens}), decisions[0]);
  };
  const auto [said, first] = judged(tokens);
  out.rule = text(first.sizing.branch);
  const std::int64_t rows = (tokens + topology.attn_tp_size - 1) / topology.attn_tp_size;
  out.needed_slots = topology.ep_size * rows;
  const std::int64_t size = first.sizing.runtime_max_tokens_per_rank;
  if (said.over_capacity.contains(0)) {
    out.refused = fmt::format("R = {} exceeds max_num_tokens {}", size, deployment.max_num_tokens);
  } else if (first.raised) {
    out.refused = words(*first.raised);
  } else if (said.gathering.contains(0)) {
    out.needed_slots = 0;
  } else {
    out.runtime_max_tokens = size;
    out.computed_slots = topology.ep_size * size;
  }
  for (const std::int64_t others : {std::int64_t{0}, std::int64_t{1}})
    out.agrees = out.agrees && judged(others).first.verdict != Verdict::disagrees;
  return out;
}

bool comes_to_the_same(const PlanRule& a, const PlanRule& b) {
  return a.path == b.path && a.own_count_only == b.own_count_only && a.rule == b.rule &&
         a.runtime_max_tokens == b.runtime_max_tokens && a.refused == b.refused && a.agrees == b.agrees;
}

bool has_graph_for(const Deployment& deployment, std::int64_t tokens) {
  return !deployment.capture_bs.empty() && tokens <= deployment.capture_bs.back();
}

}  // namespace

DispatchType usual_type(const Version& version) {
  for (const DispatchType type : {DispatchType::bf16, DispatchType::nvfp4, DispatchType::mxfp8})
    if (engine_of(version).dispatches(version, type)) return type;
  return DispatchType::bf16;
}

PlannedServer planned_server(const PlanInputs& inputs, std::int64_t ep_size, bool own_count_only) {
  return {.ep_size = ep_size,
          .attn_tp_size = inputs.attn_tp_size,
          .dispatch_type = inputs.dispatch_type,
          .backend = inputs.backend,
          .max_num_tokens = inputs.max_num_tokens,
          .chunked_prefill_size = inputs.chunked_prefill_size,
          .own_count_only = own_count_only};
}

Result<std::unique_ptr<Deployment>> plan_deployment(const PlanInputs& inputs, const Version& version,
                                                    std::int64_t ep_size, bool own_count_only) {
  DeployOptions options;
  options.version.version = &version;
  options.model = inputs.model;
  options.gpu_memory_gib = inputs.gpu_memory_gib;
  Result<DeployedCommand> deployed = deploy_command(
      engine_of(version).plan_command(version, planned_server(inputs, ep_size, own_count_only)), options);
  if (!deployed) return tl::unexpected(deployed.error());
  if (deployed->refused) return tl::unexpected(*deployed->refused);
  return std::move(deployed->deployment);
}

Result<PlanRules> PlanRules::create(const PlanInputs& inputs, std::int64_t ep_size) {
  PlanRules out;
  out.chosen_ = inputs.generation;
  const Engine& engine = engine_of(*inputs.generation);
  for (const bool own_count_only : {false, true}) {
    if (own_count_only && ep_size == inputs.attn_tp_size) continue;  // one replica: there is nobody else's count
    for (const Version* version : engine.versions()) {
      PlanInputs as = inputs;
      // What a version cannot send does not matter for sizes.
      if (!engine.dispatches(*version, as.dispatch_type)) as.dispatch_type = usual_type(*version);
      const bool has_backend = as.backend.empty() || version->name == inputs.generation->name;
      if (!has_backend) continue;
      Result<std::unique_ptr<Deployment>> deployment = plan_deployment(as, *version, ep_size, own_count_only);
      if (!deployment) return tl::unexpected(deployment.error());
      if (!(*deployment)->uses_flashinfer) continue;  // another all-to-all stood in its place
      auto decider = (*deployment)->make_decider();
      out.cases_.push_back({std::move(*deployment), std::move(decider), own_count_only});
    }
  }
  return out;
}

std::vector<PlanRule> PlanRules::at(std::int64_t tokens) {
  std::vector<PlanRule> rules;
  for (const PlanPath path : kPaths) {
    for (const Case& one : cases_) {
      if (path == PlanPath::graph_decode && !has_graph_for(*one.deployment, tokens)) continue;
      PlanRule rule = outcome(*one.deployment, *one.decider, path, tokens);
      rule.own_count_only = one.own_count_only;
      auto same = std::ranges::find_if(rules, [&](const PlanRule& other) { return comes_to_the_same(other, rule); });
      if (same == rules.end()) same = rules.insert(rules.end(), std::move(rule));
      same->generations.push_back(one.deployment->generation->name);
      same->is_chosen = same->is_chosen || one.deployment->generation->name == chosen_->name;
    }
  }
  return rules;
}

}  // namespace a2asim
