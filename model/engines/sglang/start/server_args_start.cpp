#include "model/engines/sglang/start/server_args_start.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "model/base/words.h"
#include "model/engines/sglang/cap_variable.h"
#include "model/engines/sglang/start/prefill_cp.h"

namespace a2asim {
namespace {

constexpr std::string_view kDataParallelism = "_handle_data_parallelism";
constexpr std::string_view kContextParallelism = "_handle_context_parallelism";
constexpr std::string_view kMoeKernelConfig = "_handle_moe_kernel_config";
constexpr std::string_view kA2aMoe = "_handle_a2a_moe";
constexpr std::string_view kMegaMoe = "SGLANG_OPT_USE_DEEPGEMM_MEGA_MOE";
constexpr std::string_view kNvfp4Dispatch = "SGLANG_MOE_NVFP4_DISPATCH";

bool is_one_of(std::string_view word, std::string_view list) {
  const auto words = split_words(list);
  return std::find(words.begin(), words.end(), word) != words.end();
}

// "a", "a or b", "a, b or c"
std::string one_of(std::string_view list) {
  const auto words = split_words(list);
  std::string text(words.front());
  for (std::size_t i = 1; i < words.size(); ++i)
    text += (i + 1 == words.size() ? " or " : ", ") + std::string(words[i]);
  return text;
}

using Raised = std::optional<Error>;
Raised asserts(bool condition, std::string message = "") {
  if (condition) return std::nullopt;
  return Error{ErrorKind::assertion_error, std::move(message)};
}

std::int64_t floor_div(std::int64_t a, std::int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0) ? 1 : 0); }

// ---- _handle_dwdp

// Distributed weights instead of an all-to-all: every rank is a replica of its own. A size of 1 or less means off.
void handle_dwdp(StartOutcome& outcome) {
  ServerArgs& args = outcome.args;
  if (args.dwdp_size < 1) outcome.notes.push_back({fmt::format("--dwdp-size {} means off, as 1 does", args.dwdp_size)});
  if (args.dwdp_size <= 1) return;
  outcome.notes.push_back(
      {fmt::format("--dwdp-size {0}: SGLang sets --moe-a2a-backend none (was {1}), dp_size = ep_size = {0} with DP "
                   "attention and a DP head, moe_dense_tp_size 1, no CUDA graphs and SGLANG_SCHEDULER_SKIP_ALL_GATHER",
                   args.dwdp_size, args.moe_a2a_backend)});
  if (args.dwdp_size != args.tp_size)
    outcome.notes.push_back({fmt::format("--dwdp-size {} is meant to equal --tp-size {}: SGLang may refuse this",
                                         args.dwdp_size, args.tp_size)});
  args.dp_size = args.dwdp_size;
  args.ep_size = args.dwdp_size;
  args.moe_dp_size = 1;
  args.moe_dense_tp_size = 1;
  args.enable_dp_attention = true;
  args.enable_dp_lm_head = true;
  args.moe_a2a_backend = "none";
  args.disable_cuda_graph = true;
  outcome.env.set("SGLANG_SCHEDULER_SKIP_ALL_GATHER", "True");
}

// ---- _handle_data_parallelism

Raised handle_data_parallelism(ServerArgs& args) {
  if (args.dp_size == 1) {
    args.enable_dp_attention = false;
    args.enable_dp_lm_head = false;
  }
  if (args.enable_dp_attention) {
    args.schedule_conservativeness *= 0.3;
    if (args.dp_size == 0) return Error{ErrorKind::zero_division_error, "integer modulo by zero"};
    if (auto raised = asserts(args.tp_size % args.dp_size == 0)) return raised;
    if (args.chunked_prefill_size) args.chunked_prefill_size = floor_div(*args.chunked_prefill_size, args.dp_size);
  }
  if (!args.enable_dp_lm_head) return std::nullopt;
  return asserts(args.enable_dp_attention, "Please enable dp attention when setting enable_dp_lm_head. ");
}

// ---- _handle_context_parallelism. ep_size is the one given: an all-to-all backend overwrites it only later.

Raised handle_context_parallelism(const ServerArgs& args) {
  const std::int64_t tp = args.tp_size, cp = args.attn_cp_size, ep = args.ep_size, moe_dp = args.moe_dp_size;
  if (cp > 1) {
    if (auto raised = asserts(tp % cp == 0, fmt::format("tp_size {} must be a multiple of attn_cp_size {}", tp, cp)))
      return raised;
    if (auto raised =
            asserts(tp % (args.dp_size * cp) == 0,
                    fmt::format("tp_size {} must be a multiple of dp_size {} x attn_cp_size {}", tp, args.dp_size, cp)))
      return raised;
  }
  if (moe_dp > 1) {
    if (auto raised =
            asserts(tp % moe_dp == 0, fmt::format("tp_size {} must be a multiple of moe_dp_size {}", tp, moe_dp)))
      return raised;
    if (auto raised = asserts(ep > 1 ? ep * moe_dp == tp : moe_dp <= tp,
                              fmt::format("ep_size {} x moe_dp_size {} must be tp_size {}", ep, moe_dp, tp)))
      return raised;
    if (auto raised =
            asserts(args.pp_size == 1, fmt::format("moe_dp_size {} needs pp_size 1, not {}", moe_dp, args.pp_size)))
      return raised;
  }
  return asserts(cp == moe_dp || moe_dp == 1,
                 fmt::format("attn_cp_size {} must be moe_dp_size {}, unless that is 1", cp, moe_dp));
}

// ---- _handle_moe_kernel_config: which quantization a runner takes, and the expert parallel size it can do

struct RunnerLimits {
  std::string_view runner;
  std::string_view quantizations;  // besides None, where allowed
  bool none_allowed;
  bool ep_size_is_1_or_tp_size;
};
constexpr RunnerLimits kRunnerLimits[] = {
    {"flashinfer_cutlass", "modelopt_fp4 modelopt_fp8 modelopt_mixed", true, true},
    {"flashinfer_cutedsl", "modelopt_fp4 modelopt_mixed nvfp4_online", false, true},
    {"flashinfer_trtllm_routed", "fp8 mxfp8 modelopt_fp4 modelopt_mixed nvfp4_online", true, false},
};

Raised handle_moe_kernel_config(const StartRules& rules, ServerArgs& args) {
  if (args.quantization == "mxfp8" && args.moe_runner_backend == "auto")
    args.moe_runner_backend = std::string(rules.mxfp8_runner);
  for (const RunnerLimits& limits : kRunnerLimits) {
    if (args.moe_runner_backend != limits.runner) continue;
    const bool allowed = args.quantization ? is_one_of(*args.quantization, limits.quantizations) : limits.none_allowed;
    if (!allowed)
      return asserts(false,
                     fmt::format("Invalid quantization '{}'. {} supports only {}{}", args.quantization.value_or("None"),
                                 limits.runner, one_of(limits.quantizations), limits.none_allowed ? " or none" : ""));
    if (limits.ep_size_is_1_or_tp_size && args.dwdp_size <= 1)  // distributed weights bring their own ep_size
      return asserts(args.ep_size == 1 || args.ep_size == args.tp_size,
                     "The expert parallel size must be 1 or the same as the tensor parallel size");
  }
  return std::nullopt;
}

// ---- _handle_a2a_moe

void spread_experts(const StartRules& rules, ServerArgs& args) {
  if (is_one_of(args.moe_a2a_backend, rules.ep_size_is_tp_size)) args.ep_size = args.tp_size;
}

void write_flashinfer_sizes(ServerArgs& args) {
  args.ep_size = args.tp_size;
  args.disable_shared_experts_fusion = true;
}

Raised handle_flashinfer(const StartRules& rules, ServerArgs& args, Environment& env) {
  if (rules.ep_size_comes_first) write_flashinfer_sizes(args);
  if (rules.flashinfer_needs_dp_attention)
    if (auto raised = asserts(args.enable_dp_attention && args.dp_size == args.tp_size,
                              "Flashinfer MoE A2A is only supported with dp_size == tp_size and --enable-dp-attention"))
      return raised;
  write_flashinfer_sizes(args);
  if (!env.is_set(kNvfp4Dispatch) &&
      (rules.nvfp4_dispatch == Nvfp4Dispatch::always || args.quantization == "modelopt_fp4"))
    env.set(std::string(kNvfp4Dispatch), "True");
  return asserts(
      is_one_of(args.moe_runner_backend, rules.flashinfer_runners),
      fmt::format("Flashinfer MoE A2A is only supported with {} moe runner backend", one_of(rules.flashinfer_runners)));
}

void disable_graphs(const StartRules& rules, ServerArgs& args) {
  if (!rules.graphs_per_phase) {
    args.disable_cuda_graph = true;
    return;
  }
  args.disable_decode_cuda_graph = true;  // both phases of cuda_graph_config are written
  args.disable_prefill_cuda_graph = true;
}

Raised handle_deepep(const StartRules& rules, ServerArgs& args) {
  if (rules.deepep_cutedsl_is_low_latency && args.moe_runner_backend == "flashinfer_cutedsl") {
    if (args.deepep_mode == "auto") args.deepep_mode = "low_latency";
    if (args.deepep_mode == "normal")
      return Error{
          ErrorKind::value_error,
          "flashinfer_cutedsl FP4 MoE only supports DeepEP low_latency dispatch (masked layout). DeepEP normal "
          "(prefill) dispatch has no CuteDSL FP4 handler. Pass --deepep-mode low_latency or auto."};
  }
  if (args.deepep_mode == "normal") disable_graphs(rules, args);
  return std::nullopt;
}

Raised handle_deepep_v2(ServerArgs& args) {
  if (args.moe_runner_backend == "auto") args.moe_runner_backend = "deep_gemm";
  if (args.moe_runner_backend != "deep_gemm")
    return Error{ErrorKind::value_error,
                 "DeepEP v2 MoE supports only --moe-runner-backend deep_gemm, not " + args.moe_runner_backend};
  if (args.enable_two_batch_overlap || args.enable_single_batch_overlap)
    return Error{ErrorKind::value_error,
                 "DeepEP v2 MoE supports neither --enable-two-batch-overlap nor --enable-single-batch-overlap"};
  args.disable_prefill_cuda_graph = true;  // its prefill reads counts on the host
  return std::nullopt;
}

// Static-capacity backends are checked against the chunk where a prefill can reach them.
bool prefills_in_chunks(const ServerArgs& args) {
  return args.chunked_prefill_size.value_or(0) > 0 && args.disaggregation_mode != "decode";
}

Raised handle_mori(const StartRules& rules, ServerArgs& args, const Environment& env) {
  if (args.deepep_mode == "auto") args.deepep_mode = "normal";
  if (!prefills_in_chunks(args)) return std::nullopt;
  return asserts(*args.chunked_prefill_size <= env.get_int("SGLANG_MORI_NUM_MAX_DISPATCH_TOKENS_PER_RANK", 4096),
                 std::string(rules.mori_message));
}

Raised handle_pplx(ServerArgs& args, const Environment& env) {
  if (args.deepep_mode == "normal")
    return Error{
        ErrorKind::value_error,
        "moe_a2a_backend='pplx' only supports low-latency mode; set --deepep-mode to 'low_latency' or 'auto'."};
  args.deepep_mode = "low_latency";
  if (auto raised = asserts(args.enable_dp_attention && args.dp_size >= 2,
                            "moe_a2a_backend='pplx' requires --enable-dp-attention with at least 2 DP groups "
                            "(--dp-size >= 2)."))
    return raised;
  if (auto raised = asserts(is_one_of(args.moe_runner_backend, "deep_gemm auto"),
                            "moe_a2a_backend='pplx' is only supported with --moe-runner-backend deep_gemm (or auto)."))
    return raised;
  args.moe_runner_backend = "deep_gemm";
  if (!prefills_in_chunks(args)) return std::nullopt;
  const std::int64_t required = std::max(*args.chunked_prefill_size, args.cuda_graph_max_bs.value_or(0));
  return asserts(required <= env.get_int("SGLANG_PPLX_NUM_MAX_DISPATCH_TOKENS_PER_RANK", 128),
                 "SGLANG_PPLX_NUM_MAX_DISPATCH_TOKENS_PER_RANK (default 128) must be >= the per-rank pplx dispatch "
                 "tokens (chunked_prefill_size, or the decode cuda-graph batch size)");
}

// Waterfill balances shared experts through an all-to-all of its own choice.
void handle_waterfill(const StartRules& rules, StartOutcome& outcome) {
  ServerArgs& args = outcome.args;
  if (!args.enable_waterfill) return;
  if (!is_one_of(args.moe_a2a_backend, rules.waterfill_backends)) {
    outcome.notes.push_back(
        {fmt::format("waterfill is enabled: --moe-a2a-backend {} becomes deepep", args.moe_a2a_backend)});
    args.moe_a2a_backend = "deepep";
  }
  args.disable_shared_experts_fusion = false;
  args.enforce_shared_experts_fusion = true;
}

Raised handle_a2a_moe(const StartRules& rules, StartOutcome& outcome) {
  ServerArgs& args = outcome.args;
  Environment& env = outcome.env;
  handle_waterfill(rules, outcome);
  if (rules.variable_chooses_megamoe && args.moe_a2a_backend != "megamoe" && env.get_bool(kMegaMoe, false)) {
    outcome.notes.push_back(
        {fmt::format("{} is set: --moe-a2a-backend {} becomes megamoe", kMegaMoe, args.moe_a2a_backend)});
    args.moe_a2a_backend = "megamoe";
  }
  const std::string& backend = args.moe_a2a_backend;
  if (args.flashinfer_a2a_dispatch_type && backend != "flashinfer")
    return Error{ErrorKind::value_error,
                 fmt::format("--flashinfer-a2a-dispatch-type {} requires --moe-a2a-backend flashinfer, not {}",
                             *args.flashinfer_a2a_dispatch_type, backend)};
  if (backend == "flashinfer") return handle_flashinfer(rules, args, env);
  spread_experts(rules, args);
  if (backend == "deepep") return handle_deepep(rules, args);
  if (backend == "deepep_v2" && rules.has_deepep_v2) return handle_deepep_v2(args);
  if (backend == "mori" && !rules.mori_message.empty()) return handle_mori(rules, args, env);
  if (backend == "pplx") return handle_pplx(args, env);
  if (backend == "ascend_tp") args.moe_a2a_backend = "none";  // plain tensor parallelism under a name of its own
  return std::nullopt;
}

bool record(StartOutcome& outcome, std::string_view handler, Raised raised) {
  if (raised) outcome.error = HandlerError{handler, std::move(*raised)};
  return outcome.error.has_value();
}

}  // namespace

StartOutcome run_start_handlers(const StartRules& rules, ServerArgs args, Environment env) {
  StartOutcome outcome{std::move(args), std::move(env), std::nullopt, {}};
  if (record(outcome, kDataParallelism, handle_data_parallelism(outcome.args))) return outcome;
  record(outcome, kA2aMoe, handle_a2a_moe(rules, outcome));
  return outcome;
}

StartOutcome start_up(const StartRules& rules, ServerArgs args, Environment env) {
  StartOutcome outcome{std::move(args), std::move(env), std::nullopt, {}};
  if (record(outcome, "prefill context parallelism", handle_prefill_context_parallelism(rules, outcome)))
    return outcome;
  handle_dwdp(outcome);
  if (record(outcome, kDataParallelism, handle_data_parallelism(outcome.args))) return outcome;
  if (record(outcome, kContextParallelism, handle_context_parallelism(outcome.args))) return outcome;
  if (record(outcome, kMoeKernelConfig, handle_moe_kernel_config(rules, outcome.args))) return outcome;
  record(outcome, kA2aMoe, handle_a2a_moe(rules, outcome));
  return outcome;
}

std::optional<Error> check_cutedsl_token_budget(const StartRules& rules, const ServerArgs& args, const Environment& env,
                                                std::int64_t decode_graph_tokens, std::int64_t prefill_graph_tokens) {
  if (rules.cutedsl_budget == CutedslBudget::none || args.moe_a2a_backend != "flashinfer" ||
      args.moe_runner_backend != "flashinfer_cutedsl" || args.disaggregation_mode == "decode" ||
      args.max_prefill_tokens <= 0)
    return std::nullopt;
  std::int64_t required = args.max_prefill_tokens;
  if (rules.cutedsl_budget == CutedslBudget::largest_forward)
    required = std::max({required, decode_graph_tokens, prefill_graph_tokens});
  std::int64_t capacity = 0;
  if (__builtin_mul_overflow(env.get_int(kCapVariable, 1024), args.ep_size, &capacity) || capacity >= required)
    return std::nullopt;
  return Error{ErrorKind::value_error,
               fmt::format("FlashInfer MoE A2A with flashinfer_cutedsl requires {0} * ep_size to cover the largest "
                           "CuteDSL MoE forward: {1} tokens, but {0}={2}, ep_size={3} give {4}",
                           kCapVariable, required, env.get_int(kCapVariable, 1024), args.ep_size, capacity)};
}

}  // namespace a2asim
