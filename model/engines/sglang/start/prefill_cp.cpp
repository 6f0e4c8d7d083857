#include "model/engines/sglang/start/prefill_cp.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

#include "model/step/model_shapes.h"

namespace a2asim {
namespace {

// How a model attends, by the name in its path. DeepSeek V4 splits a prefill only token by token.
enum class Attention : std::uint8_t { unknown, sparse, deepseek_v4, mla, other };
struct NamedAttention {
  std::string_view name;
  Attention attention;
};
constexpr std::array<NamedAttention, 9> kNamed{{{"deepseek-v3.2", Attention::sparse},
                                                {"glm-5", Attention::sparse},
                                                {"deepseek-v4", Attention::deepseek_v4},
                                                {"deepseek-v3", Attention::mla},
                                                {"deepseek-r1", Attention::mla},
                                                {"kimi-k2", Attention::mla},
                                                {"mistral-large-3", Attention::mla},
                                                {"longcat-flash", Attention::mla},
                                                {"moonlight", Attention::mla}}};

Attention attention_of(std::string_view model_path) {
  std::string path(model_path);
  for (char& c : path) c = c == '_' ? '-' : c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  for (const NamedAttention& named : kNamed)
    if (path.find(named.name) != std::string::npos) return named.attention;
  return guess_model(model_path) ? Attention::other : Attention::unknown;
}

bool splits_by_zigzag(const ServerArgs& args) {
  return args.cp_strategy ? args.cp_strategy == "zigzag"
                          : args.enable_nsa_prefill_context_parallel && args.dsa_prefill_cp_mode == "in-seq-split";
}

Error assertion(std::string message) { return {ErrorKind::assertion_error, std::move(message)}; }

std::optional<Error> refuse_size(const StartRules& rules, const ServerArgs& args) {
  if (rules.prefill_cp_needs_8_ranks && args.tp_size != 8)
    return assertion(
        fmt::format("context parallelism only supports a single machine: tp_size 8, not {}", args.tp_size));
  if (args.tp_size > 8)
    return assertion(
        fmt::format("context parallelism only supports a single machine: tp_size <= 8, not {}", args.tp_size));
  return std::nullopt;
}

// The whole replica attends in parallel, and with `deepep` exchanges over DeepEP.
void force(StartOutcome& outcome, bool deepep) {
  ServerArgs& args = outcome.args;
  const std::int64_t cp = args.dp_size > 0 ? args.tp_size / args.dp_size : args.tp_size;
  outcome.notes.push_back({fmt::format(
      "prefill context parallelism sets --enable-dp-attention, --moe-dense-tp-size 1, --attn-cp-size {}{}", cp,
      deepep && args.moe_a2a_backend != "deepep"
          ? fmt::format(" and --moe-a2a-backend deepep (was {})", args.moe_a2a_backend)
          : "")});
  args.enable_dp_attention = true;
  args.moe_dense_tp_size = 1;
  args.attn_cp_size = cp;
  if (!deepep) return;
  args.moe_a2a_backend = "deepep";
  args.ep_size = args.tp_size;
}

std::optional<Error> handle_sparse(const StartRules& rules, Attention attention, StartOutcome& outcome) {
  ServerArgs& args = outcome.args;
  const bool zigzag = splits_by_zigzag(args);
  if (attention == Attention::deepseek_v4 && zigzag)
    return Error{ErrorKind::value_error, "DeepSeekV4 only supports interleave CP strategy, got zigzag"};
  if (!zigzag && args.dp_size != 1) return assertion("For round-robin split mode, dp attention is not supported.");
  if (auto raised = refuse_size(rules, args)) return raised;
  if (args.disaggregation_mode == "decode") return assertion("CP is only supported for prefill when PD disaggregation");
  force(outcome, zigzag);
  return std::nullopt;
}

}  // namespace

std::optional<Error> handle_prefill_context_parallelism(const StartRules& rules, StartOutcome& outcome) {
  ServerArgs& args = outcome.args;
  const bool for_sparse = args.enable_nsa_prefill_context_parallel;
  if (!for_sparse && !args.enable_prefill_context_parallel && !args.enable_prefill_cp) return std::nullopt;
  if (for_sparse && args.enable_prefill_context_parallel)
    return Error{ErrorKind::value_error,
                 "--enable-prefill-context-parallel and --enable-nsa-prefill-context-parallel are mutually exclusive"};
  if (args.enable_prefill_cp && !args.cp_strategy && !for_sparse && !args.enable_prefill_context_parallel)
    return Error{ErrorKind::value_error, "--cp-strategy must be set when --enable-prefill-cp is enabled."};
  Attention attention = attention_of(args.model_path.value_or(""));
  if (attention == Attention::unknown) {
    const bool assumed = for_sparse;
    outcome.notes.push_back({fmt::format(
        "prefill context parallelism forces other settings by the model, whose name says nothing here: taken as {}",
        assumed ? "one with sparse attention (DeepSeek-V3.2, GLM-5)" : "one for which nothing is forced")});
    if (assumed) attention = Attention::sparse;
  }
  // Each generation of options names its models; the first one for MLA does nothing to sparse attention.
  const bool generic = args.enable_prefill_cp;
  if (attention == Attention::sparse || attention == Attention::deepseek_v4)
    return for_sparse || generic ? handle_sparse(rules, attention, outcome) : std::nullopt;
  if (attention != Attention::mla || !rules.prefill_cp_covers_mla) return std::nullopt;
  if (!args.enable_prefill_context_parallel && !generic) return std::nullopt;
  if (auto raised = refuse_size(rules, args)) return raised;
  force(outcome, true);
  return std::nullopt;
}

}  // namespace a2asim
