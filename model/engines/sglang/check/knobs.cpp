// The flags and the variable that bound what a rank sends, and the deployment with other values of them.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "model/engines/sglang/cap_variable.h"
#include "model/engines/sglang/deployment.h"
#include "model/engines/sglang/static_caps.h"

namespace a2asim {
namespace {

using Steps = std::vector<std::int64_t>;

constexpr std::string_view kChunk = "--chunked-prefill-size";
constexpr std::string_view kPrefill = "--max-prefill-tokens";
constexpr std::string_view kRequests = "--max-running-requests";
constexpr std::string_view kGraphMax = "--cuda-graph-max-bs";
constexpr std::string_view kGraphSizes = "--cuda-graph-bs";

// A count of the whole server, of which each replica has its share.
Knob shared_knob(std::string_view name, std::optional<std::int64_t> given, const Limit& per_rank,
                 std::int64_t replicas) {
  Knob knob;
  knob.name = name;
  knob.most_steps = per_rank.value;
  knob.values = [replicas](std::int64_t steps) { return Steps{steps * replicas}; };
  knob.is_given = given.has_value();
  const std::string a_rank = replicas > 1 ? fmt::format(" / dp_size {} = {} per rank", replicas, per_rank.value) : "";
  knob.now =
      given ? fmt::format("now {}{}", *given, a_rank) : fmt::format("not given: {} per rank assumed", per_rank.value);
  return knob;
}

Knob prefill_knob(const ServerArgs& given, const Deployment& deployment) {
  if (given.chunked_prefill_size.value_or(1) > 0)
    return shared_knob(kChunk, given.chunked_prefill_size, deployment.prefill_tokens, deployment.topology.attn_dp_size);
  Knob knob;  // without chunks max_prefill_tokens bounds a batch of every replica
  knob.name = kPrefill;
  knob.most_steps = given.max_prefill_tokens;
  knob.values = [](std::int64_t steps) { return Steps{steps}; };
  knob.now = fmt::format("now {}, the bound without chunks", given.max_prefill_tokens);
  return knob;
}

Knob requests_knob(const ServerArgs& given, const Deployment& deployment) {
  Knob knob = shared_knob(kRequests, given.max_running_requests, deployment.requests_per_dp_rank,
                          deployment.topology.attn_dp_size);
  if (deployment.num_tokens_per_bs > 1) knob.now += fmt::format(", {} tokens each", deployment.num_tokens_per_bs);
  return knob;
}

Knob graph_knob(const ServerArgs& given, const Deployment& deployment, std::int64_t guess) {
  Knob knob;
  if (!given.cuda_graph_bs || given.cuda_graph_bs->empty()) {
    knob.name = kGraphMax;
    knob.most_steps = deployment.graph_max_bs.value;
    knob.guess_steps = guess;
    knob.values = [](std::int64_t steps) { return Steps{steps}; };
    knob.is_given = given.cuda_graph_max_bs.has_value();
    knob.now = fmt::format("{}{}", knob.is_given ? "now " : "not given: ", knob.most_steps);
    if (!knob.is_given) knob.now += " assumed";
    return knob;
  }
  Steps sizes = *given.cuda_graph_bs;
  std::ranges::sort(sizes);
  sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
  knob.name = kGraphSizes;
  knob.most_steps = static_cast<std::int64_t>(sizes.size());
  knob.guess_steps = std::ranges::upper_bound(sizes, guess) - sizes.begin();
  knob.now = fmt::format("now {}", fmt::join(*given.cuda_graph_bs, " "));
  knob.values = [sizes](std::int64_t steps) { return Steps(sizes.begin(), sizes.begin() + steps); };
  return knob;
}

void set(const FixSetting& setting, DeploymentInputs& inputs) {
  ServerArgs& args = inputs.args;
  const std::int64_t value = setting.values.front();
  if (setting.name == kChunk)
    args.chunked_prefill_size = value;
  else if (setting.name == kPrefill)
    args.max_prefill_tokens = value;
  else if (setting.name == kRequests)
    args.max_running_requests = value;
  else if (setting.name == kGraphMax)
    args.cuda_graph_max_bs = value;
  else if (setting.name == kGraphSizes)
    args.cuda_graph_bs = setting.values;
  else
    inputs.env.set(setting.name, fmt::format("{}", value));
}

}  // namespace

std::int64_t SglangPart::default_cap(const StaticCapRow& row) const {
  return row.backend == StaticCapBackend::megamoe ? generation().start.megamoe_cap : row.default_cap;
}

CapVariable SglangPart::cap(const Deployment& deployment) const {
  if (const StaticCapRow* row = find_static_cap(deployment.backend))
    return {row->env, int_env_or(env.get(row->env), default_cap(*row)), 1};
  return {kCapVariable, deployment.max_num_tokens, generation().cap_is_times_ep_size ? deployment.topology.ep_size : 1};
}

std::vector<Knob> SglangPart::knobs(const Deployment& deployment) const {
  const std::int64_t tokens = cap(deployment).tokens * deployment.topology.attn_tp_size;
  const std::int64_t requests = tokens / deployment.num_tokens_per_bs;
  std::vector<Knob> out;
  if (deployment.prefill_reachable) {
    out.push_back(prefill_knob(given.args, deployment));
    out.back().guess_steps = tokens;
  }
  if (deployment.decode_reachable) {
    out.push_back(requests_knob(given.args, deployment));
    out.back().guess_steps = requests;
  }
  if (!deployment.capture_bs.empty()) out.push_back(graph_knob(given.args, deployment, requests));
  return out;
}

Result<std::unique_ptr<Deployment>> SglangPart::with(std::span<const FixSetting> settings) const {
  DeploymentInputs inputs = given;
  for (const FixSetting& setting : settings) set(setting, inputs);
  return resolve_deployment(inputs);
}

}  // namespace a2asim
