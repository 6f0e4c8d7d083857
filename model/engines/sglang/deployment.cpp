#include "model/engines/sglang/deployment.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <ranges>

#include "model/engines/sglang/cap_variable.h"
#include "model/engines/sglang/start/start_fix.h"
#include "model/engines/sglang/static_caps.h"

namespace a2asim {
namespace {

constexpr std::int64_t kMaxWorld = 4096;  // ranks; no deployment has more, and everything below stays far from overflow

// What SGLang takes from the device's memory when the command does not say (ServerArgs._handle_gpu_memory_settings).
struct MemoryDefaults {
  double below_gib;
  std::int64_t chunked_prefill_size;  // tokens, before the division by dp_size
  std::int64_t graph_max_bs_small_tp;  // tp_size < 4
  std::int64_t graph_max_bs;
  std::int64_t largest_graph(std::int64_t tp_size) const { return tp_size < 4 ? graph_max_bs_small_tp : graph_max_bs; }
};
constexpr MemoryDefaults kMemoryDefaults[] = {
    {20, 2048, 8, 8}, {35, 4096, 48, 160}, {60, 4096, 32, 160}, {90, 8192, 256, 512}, {160, 8192, 256, 512},
};
constexpr MemoryDefaults kLargestMemory{0, 16384, 512, 512};
constexpr MemoryDefaults kUnknownMemory{0, 4096, 160, 160};
constexpr std::int64_t kLeastDefaultChunk = 2048;  // tokens: of all rows above
// resolve_max_num_reqs: an unset limit is clamped to 2048..4096 by the token capacity, which a command does not settle.
constexpr std::int64_t kLeastDefaultRequests = 2048;
constexpr std::int64_t kMostClampedRequests = 4096;

const MemoryDefaults& memory_defaults(std::optional<double> gpu_memory_gib) {
  if (!gpu_memory_gib) return kUnknownMemory;
  for (const MemoryDefaults& row : kMemoryDefaults)
    if (*gpu_memory_gib < row.below_gib) return row;
  return kLargestMemory;
}

// The engine stops at the first refusal; what comes after it would be judged on numbers that were never reached.
void reject(Deployment& out, std::string_view where, std::string_view handler, Error error, std::string fix) {
  if (!out.rejections.empty()) return;
  out.rejections.push_back({std::string(where), std::string(handler), std::move(error), std::move(fix)});
}

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return a / b + (a % b > 0 ? 1 : 0); }

void note(Deployment& out, std::string message) { out.notes.push_back({std::move(message)}); }

Result<void> resolve_topology(Deployment& out) {
  const ServerArgs& args = out.args;
  const auto world = out.generation->world_info(DpAttentionInputs{.enable_dp_attention = args.enable_dp_attention,
                                                                  .tp_rank = 0,
                                                                  .tp_size = args.tp_size,
                                                                  .dp_size = args.dp_size,
                                                                  .attn_cp_size = args.attn_cp_size,
                                                                  .moe_dense_tp_size = args.moe_dense_tp_size});
  const auto topology = make_topology(TopologyInputs{.tp_size = args.tp_size,
                                                     .dp_size = args.dp_size,
                                                     .ep_size = args.ep_size,
                                                     .moe_dp_size = args.moe_dp_size,
                                                     .attn_cp_size = args.attn_cp_size,
                                                     .moe_dense_tp_size = args.moe_dense_tp_size,
                                                     .enable_dp_attention = args.enable_dp_attention});
  if (world && topology) {
    out.topology = *topology;
    return {};
  }
  reject(out, "start", "compute_dp_attention_world_info", world ? topology.error() : world.error(),
         fmt::format("make --tp-size {} a multiple of dp_size x attn_cp_size and of the expert groups", args.tp_size));
  // Keeps a report possible: one replica over all ranks.
  out.topology = Topology{.tp_size = args.tp_size, .dp_size = args.dp_size, .ep_size = args.ep_size,
                          .attn_tp_size = args.tp_size};
  return {};
}

void resolve_gather(Deployment& out, bool mori_recv_bound) {
  const ServerArgs& args = out.args;
  out.gather_inputs = GatherInputs{.enable_dp_attention = args.enable_dp_attention,
                                   .dp_size = args.dp_size,
                                   .tp_size = args.tp_size,
                                   .moe_dense_tp_size = args.moe_dense_tp_size,
                                   .enable_dp_lm_head = args.enable_dp_lm_head,
                                   .moe_a2a_backend = args.moe_a2a_backend,
                                   .disable_attn_tp_gather = args.disable_attn_tp_gather,
                                   .mori_recv_bound = mori_recv_bound};
  const GatherRules& rules = out.generation->gather;
  out.gather_row = mlp_tp_gather_row(rules, out.gather_inputs);
  const auto take = [&](std::string_view predicate, const Result<bool>& value) {
    if (value) return *value;
    reject(out, "start", predicate, value.error(),
           args.moe_dense_tp_size ? fmt::format("leave out --moe-dense-tp-size (now {})", *args.moe_dense_tp_size)
                                  : std::string("DP attention needs --dp-size above 1"));
    return false;
  };
  out.require_mlp_tp_gather = take("require_mlp_tp_gather", require_mlp_tp_gather(rules, out.gather_inputs));
  out.require_attn_tp_gather = take("require_attn_tp_gather", rules.require_attn_tp_gather(out.gather_inputs));
  out.require_gathered_buffer = out.require_mlp_tp_gather || out.require_attn_tp_gather;
  out.require_mlp_sync = args.enable_dp_attention || out.require_gathered_buffer;
}

void resolve_speculation(Deployment& out) {
  ServerArgs& args = out.args;
  out.speculates = args.speculative_algorithm.has_value();
  if (!out.speculates) return;
  if (args.speculative_eagle_topk == 1 && args.speculative_num_steps && is_eagle_like(args.speculative_algorithm)) {
    const std::int64_t resolved = *args.speculative_num_steps + 1;
    if (args.speculative_num_draft_tokens && *args.speculative_num_draft_tokens != resolved)
      note(out, fmt::format("--speculative-num-draft-tokens {} becomes {} (num_steps + 1, because topk is 1)",
                            *args.speculative_num_draft_tokens, resolved));
    args.speculative_num_draft_tokens = resolved;
  }
  if (!args.speculative_num_draft_tokens)
    note(out, "the speculative width depends on the model and is not settled by the command: give "
              "--speculative-num-draft-tokens; 1 is assumed");
  out.speculative.num_draft_tokens = std::max<std::int64_t>(args.speculative_num_draft_tokens.value_or(1), 1);
  out.speculative.eagle_topk = std::max<std::int64_t>(args.speculative_eagle_topk.value_or(1), 1);
  out.num_tokens_per_bs = out.speculative.num_draft_tokens;
}

void resolve_limits(Deployment& out) {
  const ServerArgs& args = out.args;
  const std::int64_t replicas = out.topology.attn_dp_size;
  const RequestBoundRules& rules = out.generation->requests;
  out.requests_per_dp_rank = {kLeastDefaultRequests, false};
  if (args.max_running_requests) {
    std::int64_t bound = *args.max_running_requests / replicas;
    if (rules.clamps_explicit_limit) bound = std::min(bound, kMostClampedRequests);
    out.requests_per_dp_rank = {bound, true};
    if (bound < 1)
      reject(out, "start", "resolve_max_num_reqs",
             Error{ErrorKind::assertion_error, "max_running_request is zero"},
             fmt::format("raise --max-running-requests to {} (now {}; dp_size {} divides it)", replicas,
                         *args.max_running_requests, replicas));
  }
  if (const std::int64_t tokens = args.max_total_tokens.value_or(0); tokens > 0) {
    out.requests_per_dp_rank.value = std::min(out.requests_per_dp_rank.value, tokens / 2);
    if (tokens < 2)
      reject(out, "start", "resolve_max_num_reqs",
             Error{ErrorKind::assertion_error, "max_running_request is zero"},
             fmt::format("raise --max-total-tokens from {}: half of it bounds the requests of a rank", tokens));
  }
  out.decode_reachable = args.disaggregation_mode != "prefill";
  out.prefill_reachable = args.disaggregation_mode != "decode";
  // chunked_prefill_size is resolved here: after the handlers, divided by dp_size under DP attention.
  const std::int64_t chunk = args.chunked_prefill_size.value_or(0);
  out.prefill_tokens.is_explicit = out.prefill_tokens.is_explicit || chunk <= 0;
  out.prefill_tokens.value = chunk > 0 ? chunk : args.max_prefill_tokens;
}

// The draft model. Only EAGLE on the target's own NextN layer is known to have experts: EAGLE3 and other draft models
// are dense as a rule, and NGRAM has none. The last draft step needs no forward, so that one step drafts without any.
void resolve_draft(Deployment& out) {
  const ServerArgs& args = out.args;
  std::string algorithm = args.speculative_algorithm.value_or("");
  std::ranges::transform(algorithm, algorithm.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  out.drafts = algorithm == "EAGLE" || algorithm == "NEXTN";
  if (!out.drafts) {
    if (args.speculative_moe_a2a_backend)
      note(out, fmt::format("--speculative-moe-a2a-backend {}: the draft model is taken as one without experts, not "
                            "checked",
                            *args.speculative_moe_a2a_backend));
    return;
  }
  out.draft_backend = args.speculative_moe_a2a_backend.value_or(args.moe_a2a_backend);
  out.draft_tokens_per_request = args.speculative_num_steps.value_or(2) > 1 ? out.speculative.eagle_topk : 0;
  out.draft_is_explicit =
      args.speculative_num_steps && args.speculative_eagle_topk && !args.speculative_draft_model_path;
  if (out.draft_backend == args.moe_a2a_backend) return;
  const bool sized_by_ranks = out.draft_backend == "flashinfer";
  note(out, fmt::format("the draft model uses --speculative-moe-a2a-backend {}, the target {}{}", out.draft_backend,
                        args.moe_a2a_backend,
                        sized_by_ranks ? ": the sizes that its ranks derive are not checked" : ""));
}

// Prefill graphs that are captured through the all-to-all: with is_extend_in_batch off, so that #35758 too takes its
// branch there. Clamped to the chunk.
void resolve_prefill_graphs(Deployment& out, std::int64_t least_chunk) {
  const ServerArgs& args = out.args;
  const bool sizes_given = args.cuda_graph_max_bs_prefill || args.cuda_graph_bs_prefill;
  if (!args.cuda_graph_backend_prefill && !sizes_given) return;
  if (!out.generation->prefill_graphs_with_flashinfer || prefill_graphs_disabled(args)) return;
  if (!out.prefill_reachable || args.chunked_prefill_size.value_or(0) <= 0) return;
  note(out, "prefill graphs are captured, which needs the cap; which batches replay them is not modelled");
  const std::int64_t chunk = out.prefill_tokens.is_explicit ? *args.chunked_prefill_size : least_chunk;
  std::int64_t largest = args.cuda_graph_max_bs_prefill.value_or(chunk);
  if (args.cuda_graph_bs_prefill && !args.cuda_graph_bs_prefill->empty())
    largest = std::ranges::max(*args.cuda_graph_bs_prefill);
  out.prefill_graph_tokens = {std::min(largest, chunk), args.cuda_graph_backend_prefill == "breakable" && sizes_given};
}

// The sizes of the decode graphs; a rejection when none is left.
Result<void> resolve_graphs(Deployment& out, const MemoryDefaults& memory) {
  const ServerArgs& args = out.args;
  const bool given = args.cuda_graph_bs && !args.cuda_graph_bs->empty();
  out.graph_max_bs.value = args.cuda_graph_max_bs.value_or(memory.largest_graph(args.tp_size));
  if (decode_graphs_disabled(args) || !out.decode_reachable) return {};
  std::vector<std::int64_t> sizes;
  if (given) {
    sizes = *args.cuda_graph_bs;
    std::sort(sizes.begin(), sizes.end());
    sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
    out.graph_max_bs.value = sizes.back();
  } else {
    auto generated = out.generation->graphs.decode_capture_sizes(out.graph_max_bs.value, out.speculates,
                                                                 args.disable_cuda_graph_padding);
    if (!generated) return tl::unexpected(generated.error());
    sizes = std::move(*generated);
  }
  const std::string_view flag = given ? "--cuda-graph-bs" : "--cuda-graph-max-bs";
  if (!sizes.empty() && sizes.front() < 1)
    return fail(ErrorKind::bad_input, fmt::format("{} {}: a batch size must be at least 1", flag, sizes.front()));
  if (!sizes.empty() && sizes.back() > kMaxCaptureSize)
    return fail(ErrorKind::bad_input, fmt::format("{} {}: larger than {}", flag, sizes.back(), kMaxCaptureSize));
  const bool whole_pool = out.generation->requests.pool_is_not_divided && args.max_running_requests;
  CaptureFilter filter;
  filter.decode_bs = sizes;
  filter.req_to_token_pool_size = whole_pool ? *args.max_running_requests : out.requests_per_dp_rank.value;
  filter.num_tokens_per_bs = out.num_tokens_per_bs;
  filter.require_gathered_buffer = out.require_gathered_buffer;
  filter.attn_tp_size = out.topology.attn_tp_size;
  filter.attn_cp_size = out.topology.attn_cp_size;
  filter.enable_two_batch_overlap = args.enable_two_batch_overlap;
  if (sizes.empty() || filter.req_to_token_pool_size < 1) return {};
  auto captured = out.generation->graphs.batch_sizes_to_capture(filter);
  if (captured) {
    out.capture_bs = std::move(*captured);
  } else {
    reject(out, "start", "graph capture sizes", captured.error(),
           out.topology.attn_tp_size <= filter.req_to_token_pool_size
               ? fmt::format("give --cuda-graph-bs {} (no size now gives tokens that are a multiple of attn_tp_size)",
                             out.topology.attn_tp_size)
               : std::string("give --disable-cuda-graph"));
  }
  return {};
}

DispatchType dispatch_type(const Deployment& out) {
  const auto type = parse_dispatch_type(out.args.flashinfer_a2a_dispatch_type.value_or("bf16"));
  return type ? *type : DispatchType::bf16;  // "auto" resolves to bf16 unless the model is quantised: never larger
}

Result<void> resolve_capacity(Deployment& out) {
  const ServerArgs& args = out.args;
  const CapacityRules& rules = out.generation->capacity;
  const std::optional<std::string_view> env = out.env.get(kCapVariable);
  const int ep_size = static_cast<int>(out.topology.ep_size);
  out.max_num_tokens = rules.max_num_tokens(env, args.chunked_prefill_size, ep_size);
  const std::string_view times = out.generation->cap_is_times_ep_size ? " x ep_size" : "";
  if (env && int_env_or(env, -1) == int_env_or(env, -2)) {
    out.max_num_tokens_source = fmt::format("{}={}{}", kCapVariable, *env, times);
  } else {
    out.max_num_tokens_source = fmt::format("default: {}{}", out.generation->cap_default, times);
  }
  if (!out.model) return {};
  CapacityInputs in;
  in.env = env;
  in.chunked_prefill_size = args.chunked_prefill_size;
  in.ep_size = ep_size;
  in.hidden_size = out.model->hidden_size;
  in.top_k = out.model->top_k;
  if (args.speculative_algorithm) in.speculative_algorithm = *args.speculative_algorithm;
  in.moe_nvfp4_dispatch = out.env.get_bool("SGLANG_MOE_NVFP4_DISPATCH", false);
  in.dispatch_type = dispatch_type(out);
  auto sized = capacity(rules, in);
  if (!sized) return tl::unexpected(sized.error());
  out.capacity = *sized;
  return {};
}

// A call of one token in an ample workspace.
Result<void> check_any_dispatch(const Deployment& out, const FlashInferLimits& flashinfer) {
  const int ep_size = static_cast<int>(out.topology.ep_size);
  if (ep_size > flashinfer.max_ranks)
    return fail(ErrorKind::runtime_error,
                fmt::format("Check failed: epSize must be in the range (0, {}], got {}", flashinfer.max_ranks, ep_size));
  if (!out.model || !out.capacity) return {};
  std::vector<Payload> payloads;
  for (const std::int64_t bytes :
       payload_bytes_per_token(dispatch_type(out), out.model->hidden_size, out.model->top_k))
    payloads.push_back({bytes, 1});
  const int top_k = static_cast<int>(std::min<std::int64_t>(out.model->top_k, 1 << 20));
  const DispatchCall call{.ep_size = ep_size,
                          .ep_rank = 0,
                          .runtime_max_tokens_per_rank = 1,
                          .max_num_tokens = 1,
                          .workspace_bytes_per_rank = std::int64_t{1} << 50,
                          .top_k = top_k,
                          .num_experts = out.model->num_experts + out.args.ep_num_redundant_experts,
                          .payloads = payloads};
  if (auto checked = check_dispatch_op(flashinfer, call); !checked) return checked;
  return check_dispatch_launch(flashinfer, top_k, ep_size);
}

// What FlashInfer refuses in every dispatch, whatever the batch.
void resolve_launch_error(Deployment& out) {
  const FlashInferLimits& flashinfer = limits(out.generation->capacity.flashinfer);
  const Result<void> checked = check_any_dispatch(out, flashinfer);
  if (checked) return;
  std::string fix = fmt::format("give --moe-a2a-backend none (now flashinfer; no FlashInfer up to {} can)",
                                limits(newest_generation().capacity.flashinfer).tag);
  for (const Generation& later : newer_than(*out.generation)) {
    if (!check_any_dispatch(out, limits(later.capacity.flashinfer))) continue;
    fix = fmt::format("use SGLang of {} ({}) or newer, whose FlashInfer {} can; or give --moe-a2a-backend none (now "
                      "flashinfer)",
                      later.date, later.name, limits(later.capacity.flashinfer).tag);
    break;
  }
  out.launch_error = Rejection{"first_forward", "FlashInfer dispatch", checked.error(), std::move(fix)};
}

// Runs the rule for every bucket as SGLang does at capture: is_extend forced off, the same list on every rank.
void capture_graphs(Deployment& out) {
  // Built-in rules do not look at ep_rank: one answer serves all ranks.
  const std::size_t ep_ranks = out.rule ? static_cast<std::size_t>(out.topology.tp_size) : 1;
  std::vector<std::int64_t> list;
  for (const std::int64_t bs : out.capture_bs) {
    const CaptureTokenList tokens = out.generation->graphs.capture_token_list(
        out.require_mlp_tp_gather, out.require_attn_tp_gather, out.topology.attn_dp_size, bs, out.num_tokens_per_bs);
    list.assign(static_cast<std::size_t>(tokens.entries), tokens.num_tokens);
    std::vector<SizingDecision> baked;
    for (std::size_t rank = 0; rank < ep_ranks; ++rank) {
      RankView view = out.base_view(static_cast<int>(rank));
      view.capture = true;
      view.rows = tokens.num_tokens / out.topology.attn_tp_size;
      if (tokens.dispatch_sees_it && tokens.entries > 0) view.dp_global = std::span<const std::int64_t>(list);
      Result<SizingDecision> sized = out.size(view);
      if (!sized) {  // a cap assertion shows as R above the cap; anything else stops the start
        view.max_num_tokens = std::numeric_limits<std::int64_t>::max();
        Error error = sized.error();
        sized = out.size(view);
        if (!sized) {
          reject(out, "start", "graph capture", std::move(error), "see the assertion's own text");
          out.capture_bs.clear();
          out.baked.clear();
          return;
        }
      }
      baked.push_back(*sized);
    }
    out.baked.push_back(std::move(baked));
  }
}

LeftoverList leftover_list(const Deployment& out) {
  if (out.capture_bs.empty())
    return out.generation->list_unassigned_before_capture ? LeftoverList::unassigned : LeftoverList::none;
  const CaptureTokenList tokens =
      out.generation->graphs.capture_token_list(out.require_mlp_tp_gather, out.require_attn_tp_gather,
                                                out.topology.attn_dp_size, out.capture_bs.front(), out.num_tokens_per_bs);
  return tokens.dispatch_sees_it && tokens.entries > 0 ? LeftoverList::captured : LeftoverList::none;
}

void check_cutedsl(Deployment& out) {
  const bool decode_graphs = !decode_graphs_disabled(out.args) && out.graph_max_bs.is_explicit;
  const std::int64_t decode_graph_tokens =
      decode_graphs
          ? out.graph_max_bs.value * std::max<std::int64_t>(out.args.speculative_num_draft_tokens.value_or(1), 1)
          : 0;
  const std::int64_t prefill_graph_tokens = out.prefill_graph_tokens.is_explicit ? out.prefill_graph_tokens.value : 0;
  const auto error = check_cutedsl_token_budget(out.generation->start, out.args, out.env, decode_graph_tokens,
                                                prefill_graph_tokens);
  if (!error) return;
  reject(out, "start", "_validate_cutedsl_a2a_token_budget", *error,
         fmt::format("set {} to {} (times ep_size {} it must cover the largest forward)", kCapVariable,
                     ceil_div(std::max({out.args.max_prefill_tokens, decode_graph_tokens, prefill_graph_tokens}),
                              out.topology.ep_size),
                     out.topology.ep_size));
}

Result<void> resolve_backend(Deployment& out) {
  out.uses_flashinfer = out.args.moe_a2a_backend == "flashinfer";
  out.has_static_cap = find_static_cap(out.args.moe_a2a_backend) != nullptr;
  if (!out.uses_flashinfer) return {};
  if (auto ok = resolve_capacity(out); !ok) return ok;
  resolve_launch_error(out);
  check_cutedsl(out);
  capture_graphs(out);
  out.leftover = leftover_list(out);
  if (out.launch_error && !out.capture_bs.empty())
    reject(out, "start", "graph capture", out.launch_error->error, out.launch_error->fix);
  return {};
}

// cutedsl and the NVFP4 dispatch ask for the quantization, which SGLang reads from the model where no flag gives it.
void settle_quantization(Deployment& out, const DeploymentInputs& inputs, ServerArgs& args) {
  if (args.quantization) return;
  if (args.moe_a2a_backend != "flashinfer" && !args.moe_runner_backend.starts_with("flashinfer")) return;
  if (inputs.model_quantization) {
    args.quantization = *inputs.model_quantization;
    note(out, fmt::format("quantization {} is taken from the model's config", *args.quantization));
  } else if (const auto guessed = guess_quantization(args.model_path.value_or(""))) {
    args.quantization = std::string(*guessed);
    note(out, fmt::format("quantization {} is guessed from the name in --model-path; give --quantization if it is "
                          "another",
                          *guessed));
  }
}

// The arguments as the handlers find them. What the GPU's memory decides is filled in where that memory is known. Else
// it stays open, so that no handler refuses what the command does not settle.
ServerArgs settle_defaults(Deployment& out, const DeploymentInputs& inputs, const MemoryDefaults& memory) {
  ServerArgs args = inputs.args;
  settle_quantization(out, inputs, args);
  const bool memory_known = inputs.gpu_memory_gib.has_value();
  const bool sizes_given = args.cuda_graph_bs && !args.cuda_graph_bs->empty();
  out.prefill_tokens.is_explicit = args.chunked_prefill_size || memory_known;
  out.graph_max_bs.is_explicit = args.cuda_graph_max_bs || sizes_given || memory_known;
  if (memory_known && !args.chunked_prefill_size) args.chunked_prefill_size = memory.chunked_prefill_size;
  if (decode_graphs_disabled(args)) return args;
  if (sizes_given) args.cuda_graph_max_bs = std::ranges::max(*args.cuda_graph_bs);
  if (memory_known && !args.cuda_graph_max_bs) args.cuda_graph_max_bs = memory.largest_graph(args.tp_size);
  return args;
}

// What a default chunk leaves a replica.
std::int64_t chunk_of_replica(const Deployment& out, std::int64_t tokens) {
  return out.args.enable_dp_attention ? tokens / out.args.dp_size : tokens;
}

void start(Deployment& out, const DeploymentInputs& inputs, const MemoryDefaults& memory) {
  if (!inputs.has_flashinfer_dispatcher && inputs.args.moe_a2a_backend == "flashinfer")
    reject(out, "start", "argparse",
           Error{ErrorKind::parse_error, "argument --moe-a2a-backend: invalid choice: 'flashinfer'"},
           fmt::format("SGLang has a FlashInfer dispatcher from #{} ({}) on", generations().front().pr,
                       generations().front().date));
  const ServerArgs given = settle_defaults(out, inputs, memory);
  const StartOutcome started = start_up(inputs.generation->start, given, inputs.env);
  out.args = started.args;
  out.env = started.env;
  out.notes.insert(out.notes.end(), started.notes.begin(), started.notes.end());
  if (started.error)
    reject(out, "start", started.error->handler, started.error->error,
           fix_for_start(inputs.generation->start, given, inputs.env, started));
  if (!out.args.chunked_prefill_size)
    out.args.chunked_prefill_size = chunk_of_replica(out, memory.chunked_prefill_size);
}

}  // namespace

RankView Deployment::base_view(int ep_rank) const {
  RankView view;
  view.ep_size = static_cast<int>(topology.ep_size);
  view.ep_rank = ep_rank;
  view.require_mlp_tp_gather = gather_row == GatherRow::dp_size_is_1 ? GatherPredicate::raises
                               : require_mlp_tp_gather               ? GatherPredicate::yes
                                                                     : GatherPredicate::no;
  view.enable_dp_attention = args.enable_dp_attention;
  view.attn_tp_size = static_cast<int>(topology.attn_tp_size);
  view.max_num_tokens = max_num_tokens;
  return view;
}

Result<std::unique_ptr<Deployment>> resolve_deployment(const DeploymentInputs& inputs) {
  const ServerArgs& given = inputs.args;
  for (const auto& [flag, value] : {std::pair{"--tp-size", given.tp_size}, std::pair{"--dp-size", given.dp_size},
                                    std::pair{"--ep-size", given.ep_size}, std::pair{"--attn-cp-size", given.attn_cp_size}})
    if (value < 1 || value > kMaxWorld)
      return fail(ErrorKind::bad_input, fmt::format("{} {}: must be between 1 and {}", flag, value, kMaxWorld));

  auto out = std::make_unique<Deployment>();
  out->given = inputs;
  const MemoryDefaults& memory = memory_defaults(inputs.gpu_memory_gib);
  out->generation = inputs.generation;
  out->model = inputs.model;
  out->rule = inputs.rule;
  start(*out, inputs, memory);
  if (auto ok = resolve_topology(*out); !ok) return tl::unexpected(ok.error());
  out->skip_all_gather = out->env.get_bool("SGLANG_SCHEDULER_SKIP_ALL_GATHER", false);
  resolve_gather(*out, out->env.get_bool("SGLANG_MORI_RECV_BOUND", false));
  resolve_speculation(*out);
  resolve_draft(*out);
  resolve_limits(*out);
  resolve_prefill_graphs(*out, chunk_of_replica(*out, kLeastDefaultChunk));
  if (auto ok = resolve_graphs(*out, memory); !ok) return tl::unexpected(ok.error());
  if (auto ok = resolve_backend(*out); !ok) return tl::unexpected(ok.error());
  return out;
}

}  // namespace a2asim
