#include "model/engines/trtllm/rules/method.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <span>

namespace a2asim::trtllm {
namespace {

using Names = std::array<std::string_view, 4>;
constexpr Names kOldNames = {"NotEnabled", "MNNVL", "DeepEP", "DeepEPLowLatency"};
constexpr std::array<std::string_view, 5> kNewNames = {"NotEnabled", "NVLinkTwoSided", "NVLinkOneSided", "DeepEP",
                                                       "DeepEPLowLatency"};

bool is_set_to(const Environment& env, std::string_view name, std::string_view value) {
  return env.get(name).value_or("") == value;
}

bool divides(const MethodInputs& in) { return in.num_experts % in.moe_ep_size == 0; }

std::string without_domain(const MethodInputs& in) {
  return in.has_nvlink ? fmt::format("no NVLink domain holds all {} ranks", in.moe_ep_size) : "the GPUs have no NVLink";
}

// What the constructors refuse.
Outcome<void> try_one_sided(const MethodInputs& in) {
  if (!in.one_nvlink_domain) return raise("RuntimeError", "platform");
  if (in.world_size != in.moe_ep_size)
    return raise("RuntimeError", "Currently NVLinkOneSided only supports pure EP for MoE.");
  if (in.moe_ep_size > in.max_ranks) return raise("RuntimeError", "kMaxRanks");
  return {};
}

Outcome<void> try_two_sided(const MethodInputs& in) {
  if (!in.one_nvlink_domain) return raise("RuntimeError", "platform");
  return {};
}

Outcome<void> try_deepep(const MethodInputs& in) {
  if (!in.has_nvlink) return raise("RuntimeError", "platform");
  if (is_deepep_feasible(in.moe_ep_size, in.local_ranks)) return {};
  return raise("RuntimeError",
               fmt::format("DeepEP is not feasible for {} ranks. DeepEP supports: 1) Intranode: 2, 4, or 8 ranks; 2) "
                           "Internode: 2, 4, 8, or 16 nodes with 8 ranks per node.",
                           in.moe_ep_size));
}

Outcome<void> try_low_latency(const MethodInputs& in) {
  if (in.deepep_max_top_k == 0 || in.top_k <= in.deepep_max_top_k) return {};
  return raise("ValueError",
               fmt::format("DeepEPLowLatency supports top_k <= {}, got {}.", in.deepep_max_top_k, in.top_k));
}

std::string in_words(const Raised& refused, const MethodInputs& in) {
  if (refused.message == "platform") return without_domain(in);
  if (refused.message == "kMaxRanks")
    return fmt::format("ep {} is more than its kernels' kMaxRanks {}", in.moe_ep_size, in.max_ranks);
  if (in.world_size != in.moe_ep_size && refused.message.find("pure EP") != std::string::npos)
    return fmt::format("the world of {} ranks is not the {} of expert parallelism", in.world_size, in.moe_ep_size);
  return refused.message;
}

struct Named {
  std::string_view name;
  Lane lane;
  Outcome<void> (*attempt)(const MethodInputs&);
};
constexpr std::array<Named, 6> kForced = {{
    {"NVLINK_ONE_SIDED", Lane::one_sided, try_one_sided},
    {"NVLINK_TWO_SIDED", Lane::two_sided, try_two_sided},
    {"DEEPEP", Lane::deepep, try_deepep},
    {"DEEPEPLOWLATENCY", Lane::deepep_low_latency, try_low_latency},
    {"NCCL_EP", Lane::nccl_ep, nullptr},
    {"ALLGATHER", Lane::all_gather, nullptr},
}};

Outcome<Method> forced(std::string method, const MethodInputs& in) {
  std::ranges::transform(method, method.begin(),
                         [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
  if (!divides(in) && method != "NVLINK_ONE_SIDED" && method != "ALLGATHER")
    return raise("ValueError",
                 fmt::format("Communication method '{}' requires num_experts % ep_size == 0, but got num_experts={}, "
                             "ep_size={}. Allowed methods for non-divisible EP: ['ALLGATHER', 'NVLINK_ONE_SIDED']",
                             method, in.num_experts, in.moe_ep_size));
  const auto known = std::ranges::find(kForced, method, &Named::name);
  if (known == kForced.end()) return raise("ValueError", "Unknown communication method: " + method);
  if (known->attempt != nullptr)
    if (auto made = known->attempt(in); !made) return tl::unexpected(made.error());
  return Method{known->lane, fmt::format("{}={}", kForceComm, method)};
}

// Of the t1 and t2 selectors.
Outcome<std::string_view> forced_name(std::string_view forced, std::span<const std::string_view> names) {
  const auto known = std::ranges::find(names, forced);
  if (known == names.end()) return raise("KeyError", fmt::format("'{}'", forced));
  if (known->starts_with("DeepEP"))
    return raise("NotImplementedError", "DeepEP and DeepEPLowLatency are not supported for CutlassFusedMoE yet");
  return *known;
}

Lane lane_of(std::string_view method) {
  return method == "MNNVL" || method == "NVLinkTwoSided" ? Lane::two_sided
         : method == "NVLinkOneSided"                    ? Lane::one_sided
         : method == "DeepEP"                            ? Lane::deepep
         : method == "DeepEPLowLatency"                  ? Lane::deepep_low_latency
                                                         : Lane::all_gather;
}

// What is the same in all of them: without attention DP there is nothing to send.
Method as_lane(std::string_view method, const MethodInputs& in, std::string why) {
  const bool shares = !in.attention_dp || in.tp_size == 1;
  if (const auto by_force = in.env.get(kForceMethod); by_force && *by_force == method)
    return {lane_of(method), fmt::format("{}={}", kForceMethod, *by_force)};
  if (shares) return {Lane::none, "attention is not data parallel, so that all ranks have the same tokens"};
  return {lane_of(method), std::move(why)};
}

std::string why_nothing(const MethodInputs& in, bool asks_top_k) {
  if (in.moe_tp_size != 1) return fmt::format("moe_tp_size {}: each expert is spread over ranks", in.moe_tp_size);
  if (is_set_to(in.env, kDisable, "1")) return fmt::format("{}=1", kDisable);
  if (asks_top_k && in.moe_ep_size <= in.top_k)
    return fmt::format("ep {} <= top_k {}: this version sends only to more ranks than a token has experts",
                       in.moe_ep_size, in.top_k);
  return without_domain(in);
}

}  // namespace

std::string_view name(Lane lane) {
  static constexpr std::array<std::string_view, 8> kNames = {
      "none",   "NVLinkOneSided",   "NVLinkTwoSided",         "NcclEP",
      "DeepEP", "DeepEPLowLatency", "AllGatherReduceScatter", "fused into the expert kernel"};
  return kNames[static_cast<std::size_t>(lane)];
}

bool is_deepep_feasible(std::int64_t ranks, std::int64_t local_ranks) {
  constexpr std::array<std::int64_t, 3> kOneNode = {2, 4, 8};
  constexpr std::array<std::int64_t, 4> kNodes = {2, 4, 8, 16};
  if (ranks == local_ranks && std::ranges::find(kOneNode, ranks) != kOneNode.end()) return true;
  return local_ranks == 8 && std::ranges::find(kNodes, ranks / local_ranks) != kNodes.end();
}

Outcome<Method> method_factory(const MethodInputs& in) {
  if (!in.attention_dp || in.tp_size == 1)
    return Method{Lane::none, "attention is not data parallel, so that all ranks have the same tokens"};
  if (in.moe_tp_size != 1)
    return Method{Lane::all_gather, fmt::format("moe_tp_size {}: each expert is spread over ranks", in.moe_tp_size)};
  if (const auto wanted = in.env.get(kForceComm)) return forced(std::string(*wanted), in);
  const auto one_sided = try_one_sided(in);
  if (one_sided) return Method{Lane::one_sided, fmt::format("one NVLink domain holds all {} ranks", in.moe_ep_size)};
  std::string why = "not one-sided: " + in_words(one_sided.error(), in);
  if (!divides(in))
    return Method{Lane::all_gather, fmt::format("{}; {} experts do not divide by ep {}", why, in.num_experts,
                                                in.moe_ep_size)};
  if (try_two_sided(in)) return Method{Lane::two_sided, why};
  const bool deepep = is_set_to(in.env, kCanUseDeepEp, "1") || (in.deepep_by_default && !in.env.is_set(kCanUseDeepEp));
  if (!deepep || !in.is_bf16)
    return Method{Lane::all_gather, why + (in.is_bf16 ? fmt::format("; {} is not 1", kCanUseDeepEp)
                                                      : "; DeepEP takes bfloat16 only")};
  const auto by_deepep = try_deepep(in);
  if (by_deepep) return Method{Lane::deepep, why};
  if (!by_deepep.error().message.starts_with("platform"))
    why += fmt::format("; not DeepEP: it takes 2, 4 or 8 ranks of one node, or 2, 4, 8 or 16 nodes of 8");
  if (try_low_latency(in)) return Method{Lane::deepep_low_latency, why};
  return Method{Lane::all_gather,
                fmt::format("{}; top_k {} is more than low latency's {}", why, in.top_k, in.deepep_max_top_k)};
}

Outcome<std::string_view> wideep_method(const MethodInputs& in) {
  if (const auto by_force = in.env.get(kForceMethod)) {
    const auto known = std::ranges::find(kOldNames, *by_force);
    if (known == kOldNames.end()) return raise("KeyError", fmt::format("'{}'", *by_force));
    return *known;
  }
  if (!in.attention_dp || in.tp_size == 1 || is_set_to(in.env, kDisable, "1") || in.moe_ep_size <= in.top_k)
    return "NotEnabled";
  if (in.one_nvlink_domain) return "MNNVL";
  if (!is_set_to(in.env, kCanUseDeepEp, "1") || !in.is_bf16) return "NotEnabled";
  return is_deepep_feasible(in.moe_ep_size, in.local_ranks) ? "DeepEP" : "DeepEPLowLatency";
}

bool trtllmgen_2025_09_enables(const MethodInputs& in) {
  return in.moe_ep_size > in.top_k && in.attention_dp && in.tp_size > 1 && !is_set_to(in.env, kDisable, "1") &&
         in.one_nvlink_domain;
}

Outcome<std::string_view> method_pr8728(const MethodInputs& in) {
  if (!in.attention_dp || in.tp_size == 1 || in.moe_tp_size != 1 || !in.one_nvlink_domain) return "NotEnabled";
  if (const auto by_force = in.env.get(kForceMethod)) return forced_name(*by_force, kOldNames);
  return is_set_to(in.env, kDisable, "1") ? "NotEnabled" : "MNNVL";
}

Outcome<std::string_view> method_pr9388(const MethodInputs& in) {
  if (!in.attention_dp || in.tp_size == 1 || in.moe_tp_size != 1 || !in.one_nvlink_domain) return "NotEnabled";
  if (const auto by_force = in.env.get(kForceMethod)) return forced_name(*by_force, kNewNames);
  return "NVLinkOneSided";
}

Outcome<Method> wideep(const MethodInputs& in) {
  return wideep_method(in).map([&](std::string_view method) {
    if (method != "NotEnabled")
      return as_lane(method, in, method == "MNNVL" ? "one NVLink domain holds all ranks" : without_domain(in));
    std::string why = why_nothing(in, true);
    if (why == without_domain(in)) why += fmt::format(", and {} is not 1", kCanUseDeepEp);
    return as_lane(method, in, std::move(why));
  });
}

// With graphs low latency, else DeepEP, whatever the number of ranks.
Outcome<Method> wideep_before_7514(const MethodInputs& in) {
  auto method = wideep(in);
  if (!method || in.env.is_set(kForceMethod)) return method;
  if (method->lane == Lane::deepep || method->lane == Lane::deepep_low_latency) {
    method->lane = in.has_graphs ? Lane::deepep_low_latency : Lane::deepep;
    method->why += in.has_graphs ? ", and CUDA graphs" : ", and no CUDA graphs";
  }
  return method;
}

Outcome<Method> trtllmgen_2025_09(const MethodInputs& in) {
  const bool sends = trtllmgen_2025_09_enables(in);
  return as_lane(sends ? "MNNVL" : "NotEnabled", in, sends ? "one NVLink domain, ep > top_k" : why_nothing(in, true));
}

Outcome<Method> pr8728(const MethodInputs& in) {
  const auto method = method_pr8728(in);
  if (!method) return tl::unexpected(method.error());
  Method out = as_lane(*method, in, *method == "NotEnabled" ? why_nothing(in, false) : "one NVLink domain");
  if (*method != "MNNVL") return out;
  const std::string_view backend = in.env.get(kAllToAllBackend).value_or("mnnvlthroughput");
  if (backend != "mnnvlthroughput" && backend != "mnnvllatency")
    return raise("ValueError", fmt::format("Unsupported moe alltoall backend: {}", backend));
  out.lane = backend == "mnnvllatency" ? Lane::two_sided : Lane::one_sided;
  out.why += fmt::format(", {} {}", kAllToAllBackend, backend);
  return out;
}

Outcome<Method> pr9388(const MethodInputs& in) {
  return method_pr9388(in).map([&](std::string_view method) {
    MethodInputs without = in;
    without.env.unset(std::string(kDisable));  // dropped with this version
    return as_lane(method, in, method == "NotEnabled" ? why_nothing(without, false) : "one NVLink domain");
  });
}

Outcome<Method> no_method(const MethodInputs& in) {
  return as_lane("NotEnabled", in, "this MoE backend has no all-to-all in this version");
}

}  // namespace a2asim::trtllm
