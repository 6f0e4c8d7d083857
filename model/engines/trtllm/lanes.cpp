// By which lane each rank sends, from its own environment.
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "model/engines/trtllm/rank_environment.h"
#include "model/engines/trtllm/resolve.h"
#include "model/step/fix_steps.h"

namespace a2asim::trtllm {
namespace {

constexpr std::string_view kTokenLimit = "TRTLLM_DEEP_EP_TOKEN_LIMIT";
constexpr std::string_view kConfigurable = "ENABLE_CONFIGURABLE_MOE";

bool is_fused(std::string_view backend) { return backend.starts_with("MEGAMOE") || backend == "DWDP"; }
bool has_own_path(std::string_view backend) { return backend == "VANILLA" || backend == "TRITON"; }

bool uses_factory(const TrtllmPart& part, const Environment& env) {
  const Generation& generation = part.generation();
  if (part.is_wideep) return false;
  return generation.has_factory || (generation.factory_by_variable && env.get(kConfigurable).value_or("") == "1");
}

MethodInputs method_inputs(const MappingInputs& in, const TrtllmPart& part, const Environment& env) {
  MethodInputs out;
  const Generation& generation = part.generation();
  out.world_size = part.mapping.world_size;
  out.tp_size = in.tp_size;
  out.moe_ep_size = part.mapping.moe_ep_size;
  out.moe_tp_size = part.mapping.moe_tp_size;
  out.attention_dp = in.attention_dp;
  if (part.given.model) {
    out.num_experts = part.given.model->num_experts;
    out.top_k = part.given.model->top_k;
  }
  const bool is_arm = part.domain > 8;  // Grace: every domain beyond one node
  out.has_nvlink = part.domain > 1;
  out.one_nvlink_domain =
      part.domain >= part.mapping.moe_ep_size && out.has_nvlink && (is_arm || !generation.mnnvl_on_arm_only);
  out.local_ranks = std::min<std::int64_t>(8, part.mapping.world_size);
  out.max_ranks = generation.kernel.max_ranks;
  out.deepep_by_default = generation.deepep_by_default;
  out.deepep_max_top_k = generation.deepep_max_top_k;
  out.has_graphs = !graphs_are_off(part.given.args);
  out.env = env;
  return out;
}

Outcome<Method> choose_lane(const MappingInputs& in, const TrtllmPart& part, const Environment& env) {
  const MethodInputs inputs = method_inputs(in, part, env);
  const Generation& generation = part.generation();
  if (part.given.args.text("backend").value_or("") == "_autodeploy")
    return Method{Lane::none, "AutoDeploy takes R from a slot of its own, which is not modelled"};
  if (!in.attention_dp || in.tp_size == 1) {
    if (!part.is_wideep) return method_factory(MethodInputs{});
  } else if (is_fused(part.moe_backend)) {
    return Method{Lane::fused, fmt::format("backend {} communicates inside its expert kernel", part.moe_backend)};
  } else if (has_own_path(part.moe_backend)) {
    return Method{Lane::all_gather, fmt::format("backend {} has a path of its own", part.moe_backend)};
  }
  if (uses_factory(part, env)) return method_factory(inputs);
  if (part.is_wideep) return generation.wideep_backend(inputs);
  if (part.moe_backend == "TRTLLM") return generation.trtllm_backend(inputs);
  if (part.moe_backend == "CUTLASS" || part.moe_backend == "AUTO") return generation.cutlass_backend(inputs);
  return no_method(inputs);
}

// min(max_num_tokens, moe_max_num_tokens), or the variable's.
Result<std::int64_t> token_limit(const TrtllmPart& part, const Environment& env) {
  const auto given = env.get(kTokenLimit);
  if (!given) return std::min(part.max_num_tokens, part.moe_max_num_tokens);
  const PythonInt number = python_int(*given);
  if (number.status == PythonInt::Status::ok) return number.value;
  return fail(ErrorKind::bad_input, fmt::format("{}={}: give a whole number", kTokenLimit, *given));
}

Advice fix_method(const Raised& raised, const TrtllmPart& part) {
  std::vector<Fix> fixes;
  for (const std::string_view forces : {kForceComm, kForceMethod})
    if (const auto value = part.given.env.get(forces))
      fixes.push_back(unset_variable(std::string(forces), fmt::format("now {}, which forces the method", *value)));
  if (raised.type == "KeyError")
    fixes.push_back(choose(fmt::format("give {} a name that {} knows", kForceMethod, part.generation().name)));
  if (raised.message.find("num_experts %") != std::string::npos)
    fixes.push_back(choose("give a moe_expert_parallel_size that divides the experts"));
  return fixes.empty() ? Advice("change what the message names") : Advice(fixes);
}

}  // namespace

Advice fix_mapping(const MappingInputs& in) {
  return fmt::format(
      "give moe_tensor_parallel_size and moe_expert_parallel_size (now {} and {}) whose product is "
      "tensor_parallel_size {}",
      in.moe_tp_size, in.moe_ep_size, in.tp_size);
}

std::int64_t slots_of(const TrtllmPart& part) {
  const std::int64_t experts = part.given.model ? part.given.model->num_experts : 0;
  return part.given.args.number("moe_config.load_balancer.num_slots", experts, 0).value_or(experts);
}

Result<void> choose_lanes(const MappingInputs& in, TrtllmPart& part, Said& said) {
  const auto ranks = static_cast<std::size_t>(in.tp_size);
  std::vector<Environment> seen;
  std::vector<std::size_t> at;
  bool refused = false;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const Result<Environment> env = environment_of(part.given.env, static_cast<std::int64_t>(rank));
    if (!env) return tl::unexpected(env.error());
    const auto same = std::ranges::find(seen, *env);
    if (same != seen.end()) {
      part.setup_of.push_back(at[static_cast<std::size_t>(same - seen.begin())]);
      continue;
    }
    RankSetup setup;
    const Outcome<Method> method = said.rejections.empty() ? choose_lane(in, part, *env) : Outcome<Method>(Method{});
    if (!method && !refused)
      said.reject("communication method", as_error(method.error()), fix_method(method.error(), part));
    refused = refused || !method;
    if (method) setup.lane = method->lane, setup.why = method->why;
    const Result<std::int64_t> limit = token_limit(part, *env);
    if (!limit) return tl::unexpected(limit.error());
    setup.low_latency_tokens = *limit;
    if (setup.lane == Lane::one_sided) {
      const Outcome<std::int64_t> bytes = workspace_bytes(part, *env);
      if (!bytes && !refused)
        said.reject("workspace", as_error(bytes.error()),
                    fmt::format("give {} as a whole number of MiB", kWorkspaceMb));
      setup.workspace_bytes = bytes.value_or(0);
    }
    const auto known = std::ranges::find(part.setups, setup);
    seen.push_back(*env);
    at.push_back(static_cast<std::size_t>(known - part.setups.begin()));
    if (known == part.setups.end()) part.setups.push_back(std::move(setup));
    part.setup_of.push_back(at.back());
  }
  return {};
}

}  // namespace a2asim::trtllm
