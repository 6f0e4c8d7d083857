#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "model/engines/sglang/questions/asked.h"
#include "model/engines/sglang/stages/stages.h"
#include "model/engines/sglang/start/start_fix.h"

namespace a2asim::stages {
namespace {

// What SGLang takes from the device's memory when the command does not say (ServerArgs._handle_gpu_memory_settings).
struct MemoryDefaults {
  double below_gib;
  std::int64_t chunked_prefill_size;   // tokens, before the division by dp_size
  std::int64_t graph_max_bs_small_tp;  // tp_size < 4
  std::int64_t graph_max_bs;
  std::int64_t largest_graph(std::int64_t tp_size) const { return tp_size < 4 ? graph_max_bs_small_tp : graph_max_bs; }
};
constexpr MemoryDefaults kMemoryDefaults[] = {
    {20, 2048, 8, 8}, {35, 4096, 48, 160}, {60, 4096, 32, 160}, {90, 8192, 256, 512}, {160, 8192, 256, 512},
};
constexpr MemoryDefaults kLargestMemory{0, 16384, 512, 512};
constexpr MemoryDefaults kUnknownMemory{0, 4096, 160, 160};

const MemoryDefaults& memory_defaults(std::optional<double> gpu_memory_gib) {
  if (!gpu_memory_gib) return kUnknownMemory;
  for (const MemoryDefaults& row : kMemoryDefaults)
    if (*gpu_memory_gib < row.below_gib) return row;
  return kLargestMemory;
}

// cutedsl and the NVFP4 dispatch ask for the quantization, which SGLang reads from the model where no flag gives it.
void settle_quantization(const StartRules& rules, const DeploymentInputs& inputs, ServerArgs& args, Said& said) {
  if (args.quantization) return;
  if (args.moe_a2a_backend != "flashinfer" && !args.moe_runner_backend.starts_with("flashinfer")) return;
  if (inputs.model_quantization) {
    args.quantization = *inputs.model_quantization;
    said.note(fmt::format("quantization {} is taken from the model's config", *args.quantization));
  } else if (const auto guessed = guess_quantization(args.model_path.value_or(""));
             guessed && (*guessed != "mxfp8" || rules.runner_follows_checkpoint)) {
    args.quantization = std::string(*guessed);
    said.note(
        fmt::format("quantization {} is guessed from the name in --model-path; give --quantization if it is "
                    "another",
                    *guessed));
  }
}

// The arguments as the handlers find them. What the GPU's memory decides is filled in where that memory is known. Else
// it stays open, so that no handler refuses what the command does not settle.
void settle_defaults(const MemoryDefaults& memory, Started& out, Said& said) {
  ServerArgs& args = out.args;
  settle_quantization(out.generation().start, out.given, args, said);
  const bool memory_known = out.given.gpu_memory_gib.has_value();
  const bool sizes_given = args.cuda_graph_bs && !args.cuda_graph_bs->empty();
  out.chunk_is_explicit = args.chunked_prefill_size || memory_known;
  out.graph_max_bs_is_explicit = args.cuda_graph_max_bs || sizes_given || memory_known;
  if (memory_known && !args.chunked_prefill_size) args.chunked_prefill_size = memory.chunked_prefill_size;
  if (decode_graphs_disabled(args)) return;
  if (sizes_given) args.cuda_graph_max_bs = std::ranges::max(*args.cuda_graph_bs);
  if (memory_known && !args.cuda_graph_max_bs) args.cuda_graph_max_bs = memory.largest_graph(args.tp_size);
}

// ServerArgs._handle_speculative_decoding, from July 2026 arg_groups/speculative_hook.py: what speculation sets
// besides.
void settle_speculation(ServerArgs& args, Said& said) {
  if (!args.speculative_algorithm) return;
  std::string algorithm = *args.speculative_algorithm;
  std::ranges::transform(algorithm, algorithm.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  if (algorithm == "STANDALONE" && args.enable_dp_attention)
    said.reject(
        "_handle_speculative_decoding",
        Error{ErrorKind::value_error, "Currently standalone speculative decoding does not support dp attention."},
        "leave out --enable-dp-attention, or choose another --speculative-algorithm");
  if (algorithm == "DFLASH" && !args.speculative_num_draft_tokens)
    args.speculative_num_draft_tokens = args.speculative_dflash_block_size;
  if (algorithm == "DSPARK") {
    args.speculative_num_steps = args.speculative_eagle_topk = 1;
    if (args.speculative_dspark_block_size) args.speculative_num_draft_tokens = *args.speculative_dspark_block_size + 1;
  }
  if (args.max_running_requests) return;
  constexpr std::int64_t kRequests = 48;
  args.max_running_requests = kRequests;
  said.note(
      fmt::format("--max-running-requests is not given: with speculation SGLang runs {} requests in all", kRequests));
}

// The last argument that SGLang settles, after the handlers.
void settle_speculative_width(ServerArgs& args, Said& said) {
  if (!args.speculative_algorithm) return;
  const bool is_standalone = args.speculative_algorithm == "STANDALONE";
  if (args.speculative_eagle_topk == 1 && args.speculative_num_steps &&
      (is_eagle_like(args.speculative_algorithm) || is_standalone)) {
    const std::int64_t resolved = *args.speculative_num_steps + 1;
    if (args.speculative_num_draft_tokens && *args.speculative_num_draft_tokens != resolved)
      said.note(fmt::format("--speculative-num-draft-tokens {} becomes {} (num_steps + 1, because topk is 1)",
                            *args.speculative_num_draft_tokens, resolved));
    args.speculative_num_draft_tokens = resolved;
  }
  if (!args.speculative_num_draft_tokens)
    said.note(
        "the speculative width depends on the model and is not settled by the command: give "
        "--speculative-num-draft-tokens; 1 is assumed");
}

}  // namespace

std::int64_t chunk_of_replica(const ServerArgs& args, std::int64_t tokens) {
  return args.enable_dp_attention ? tokens / args.dp_size : tokens;
}

Result<Started> start(const DeploymentInputs& inputs, Said& said) {
  if (!inputs.has_flashinfer_dispatcher && inputs.args.moe_a2a_backend == "flashinfer")
    said.reject("argparse", Error{ErrorKind::parse_error, "argument --moe-a2a-backend: invalid choice: 'flashinfer'"},
                fmt::format("SGLang has a FlashInfer dispatcher from #{} ({}) on", generations().front().pr,
                            generations().front().date));
  const MemoryDefaults& memory = memory_defaults(inputs.gpu_memory_gib);
  Started out{.given = inputs, .args = inputs.args, .env = inputs.env};
  settle_defaults(memory, out, said);
  const ServerArgs wished = out.args;
  StartOutcome started = start_up(out.generation().start, wished, inputs.env);
  // The handlers divide the chunk, so they are asked only where it is known.
  if (ExternalEngine* const outside = engine_of(inputs.rule);
      answers(outside, QuestionKind::startup) && wished.chunked_prefill_size) {
    Result<StartOutcome> answered = asked::start(*outside, wished, inputs.env, std::move(started));
    if (!answered) return tl::unexpected(answered.error());
    started = std::move(*answered);
  }
  out.args = started.args;
  out.env = started.env;
  said.notes.insert(said.notes.end(), started.notes.begin(), started.notes.end());
  if (started.error)
    said.reject(started.error->handler, started.error->error,
                fix_for_start(out.generation().start, wished, inputs.env, started));
  if (!out.args.chunked_prefill_size)
    out.args.chunked_prefill_size = chunk_of_replica(out.args, memory.chunked_prefill_size);
  out.assumed_graph_max_bs = memory.largest_graph(out.args.tp_size);
  settle_speculation(out.args, said);
  settle_speculative_width(out.args, said);
  return out;
}

}  // namespace a2asim::stages
