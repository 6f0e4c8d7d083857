#include "model/engines/vllm/start/parallel_config.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <vector>

#include "model/base/words.h"

namespace a2asim::vllm {
namespace {

using Refusal = std::optional<Error>;

bool has_word(std::string_view words, std::string_view word) {
  const auto all = split_words(words);
  return std::ranges::find(all, word) != all.end();
}

Refusal invalid(std::string message) { return Error{ErrorKind::value_error, std::move(message)}; }

// The backend, and whose word it was.
Refusal choose_backend(const ParallelRules& rules, const ParallelArgs& args, ParallelConfig& out) {
  using enum BackendSource;
  const bool reads_flag = rules.source != variable && args.all2all_backend;
  const bool reads_variable = rules.source != flag && args.backend_variable;
  const bool variable_wins = reads_variable && (rules.source != flag_then_variable || !reads_flag);
  out.from_variable = variable_wins;
  out.ignores_variable = args.backend_variable && !variable_wins;
  out.ignores_flag = args.all2all_backend && variable_wins;
  out.backend = variable_wins ? *args.backend_variable
                : reads_flag  ? *args.all2all_backend
                              : std::string(rules.default_backend);
  if (!has_word(rules.backends, out.backend)) {
    const auto known = split_words(rules.backends);
    if (variable_wins || rules.source == variable)
      return Error{ErrorKind::value_error, fmt::format("Unknown all2all backend: {}", out.backend)};
    return invalid(fmt::format("Input should be '{}'", fmt::join(known, "', '")));
  }
  if (!has_word(rules.removed, out.backend)) return std::nullopt;
  out.replaced = std::exchange(out.backend, "allgather_reducescatter");
  return std::nullopt;
}

Refusal check_elastic(const ParallelRules& rules, const ParallelArgs& args) {
  if (!rules.has_elastic_ep || !args.enable_elastic_ep) return std::nullopt;
  if (!args.enable_eplb) return invalid("Elastic EP is only supported with enable_eplb=True.");
  if (args.sizes.pp > 1)
    return invalid(fmt::format("Elastic EP is not supported with pipeline parallelism (pipeline_parallel_size={}).",
                               args.sizes.pp));
  if (args.external_lb || args.hybrid_lb)
    return Error{ErrorKind::runtime_error,
                 "Elastic EP is not compatible with data_parallel_external_lb or data_parallel_hybrid_lb. Elastic EP "
                 "relies on a single API server and core client to coordinate scale up/down."};
  return std::nullopt;
}

Refusal check_dp_rank(const ParallelArgs& args) {
  if (args.sizes.dp <= 1 && args.dp_size_local != 0) return std::nullopt;
  if (args.dp_rank >= 0 && args.dp_rank < args.sizes.dp) return std::nullopt;
  return invalid(fmt::format("data_parallel_rank ({}) must be in the range [0, {})", args.dp_rank, args.sizes.dp));
}

Refusal check_dp_size(const ParallelArgs& args) {
  if (args.dp_size_local <= args.sizes.dp) return std::nullopt;
  return invalid(fmt::format("data_parallel_size_local ({}) must be <= data_parallel_size ({})", args.dp_size_local,
                             args.sizes.dp));
}

Refusal check_external_lb(const ParallelArgs& args) {
  if (args.sizes.dp > 1 || !args.external_lb) return std::nullopt;
  return invalid("data_parallel_external_lb can only be set when data_parallel_size > 1");
}

Refusal check_eplb(const ParallelRules& rules, const ParallelArgs& args) {
  const ParallelSizes& s = args.sizes;
  if (!args.enable_eplb) {
    if (args.num_redundant_experts == 0) return std::nullopt;
    return invalid(
        fmt::format("num_redundant_experts is set to {} but EPLB is not enabled. Either enable EPLB or "
                    "unset num_redundant_experts.",
                    args.num_redundant_experts));
  }
  if (!args.enable_expert_parallel) return invalid("enable_expert_parallel must be True to use EPLB.");
  if (s.tp * s.dp * (rules.eplb_counts_pcp ? s.pcp : 1) > 1) return std::nullopt;
  if (rules.eplb_counts_pcp)
    return invalid(
        fmt::format("EPLB requires tensor, prefill-context, or data parallelism, but got TP={}, PCP={}, "
                    "DP={}.",
                    s.tp, s.pcp, s.dp));
  return invalid(
      fmt::format("EPLB requires tensor_parallel_size or data_parallel_size to be greater than 1, but got "
                  "TP={},DP={}.",
                  s.tp, s.dp));
}

Refusal check_context_parallel(const ParallelRules& rules, const ParallelSizes& s) {
  if (rules.pcp == PcpRule::refused && s.pcp > 1)
    return invalid(
        "Prefill context parallelism is not fully supported. Please set prefill_context_parallel_size to 1.");
  const bool main = rules.pcp == PcpRule::only_without_dp;
  if (main && s.pcp > 1 && s.dp > 1) return invalid("PCP does not support data parallelism yet.");
  if (!rules.checks_dcp) return std::nullopt;
  if (!main || s.pcp == 1) {
    if (s.tp % s.dcp == 0) return std::nullopt;
    return invalid(fmt::format("tp_size={} must be divisible by{}dcp_size={}.", s.tp, main ? " " : "", s.dcp));
  }
  std::vector<std::int64_t> valid = {1, s.pcp, s.tp * s.pcp};
  if (std::ranges::find(valid, s.dcp) != valid.end()) return std::nullopt;
  valid.erase(std::unique(valid.begin(), valid.end()), valid.end());
  return invalid(
      fmt::format("When PCP is enabled, DCP must be disabled, span the PCP axis, or span the full TP x PCP "
                  "axis. Got TP={}, PCP={}, DCP={}; valid DCP sizes are [{}].",
                  s.tp, s.pcp, s.dcp, fmt::join(valid, ", ")));
}

}  // namespace

Result<ParallelConfig> parallel_config(const ParallelRules& rules, const ParallelArgs& args) {
  ParallelConfig out;
  Refusal refused = choose_backend(rules, args, out);
  const auto also = [&](auto check) {
    if (!refused) refused = check();
  };
  if (rules.checks_sizes_first) also([&] { return check_dp_size(args); });
  also([&] { return check_elastic(rules, args); });
  also([&] { return check_dp_rank(args); });
  if (!rules.checks_sizes_first) also([&] { return check_dp_size(args); });
  also([&] { return check_external_lb(args); });
  also([&] { return check_eplb(rules, args); });
  also([&] { return check_context_parallel(rules, args.sizes); });
  if (refused) return tl::unexpected<Error>(std::move(*refused));
  const std::int64_t pcp = rules.pcp == PcpRule::unknown ? 1 : args.sizes.pcp;
  out.world_size = args.sizes.pp * args.sizes.tp * pcp;
  out.world_size_across_dp = out.world_size * args.sizes.dp;
  out.sequence_parallel = uses_sequence_parallel(rules.kernels, out.backend, args.enable_expert_parallel, args.sizes);
  out.all2all = uses_all2all(rules.kernels, args.enable_expert_parallel, out.sequence_parallel, args.sizes);
  out.microbatches = args.enable_dbo || (rules.has_ubatch_size && args.ubatch_size > 1);
  out.num_microbatches = args.enable_dbo ? 2 : rules.has_ubatch_size ? args.ubatch_size : 0;
  return out;
}

bool is_batched_dp_moe(std::string_view backend, const ParallelArgs& args) {
  return (backend == "deepep_low_latency" || backend == "nixl_ep") && args.enable_expert_parallel && args.sizes.dp > 1;
}

Refusal refuse_uneven_experts(std::int64_t num_physical_experts, std::int64_t ep_size, ErrorKind kind) {
  if (num_physical_experts % ep_size == 0) return std::nullopt;
  std::string message = "EPLB currently only supports even distribution of experts across ranks.";
  if (kind == ErrorKind::value_error)
    message += fmt::format(" Got {} experts and {} EP ranks.", num_physical_experts, ep_size);
  return Error{kind, std::move(message)};
}

}  // namespace a2asim::vllm
