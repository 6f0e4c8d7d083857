#include "model/engines/vllm/stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "model/engines/vllm/rules/deepep.h"
#include "model/step/fix_steps.h"
#include "model/step/model_shapes.h"

namespace a2asim::vllm::stages {
namespace {

void reject(Deployment& out, std::string_view handler, Error error, Advice fix, std::string_view where = "start") {
  out.rejections.push_back({std::string(where), std::string(handler), std::move(error), std::move(fix)});
}

// --- EngineArgs.create_engine_config, as far as it concerns replicas

struct Refusal {
  Error error;
  Advice fix;
};

std::optional<Refusal> refuse_launch_options(const EngineArgs& args) {
  const ParallelArgs& p = args.parallel;
  const auto invalid = [](std::string what, Advice fix = "change what the message names") {
    return Refusal{{ErrorKind::value_error, "Invalid data-parallel launch options: " + std::move(what)},
                   std::move(fix)};
  };
  if (p.hybrid_lb && p.external_lb)
    return invalid("`--data-parallel-hybrid-lb` and `--data-parallel-external-lb` cannot be enabled together.",
                   std::vector{remove_flag("--data-parallel-hybrid-lb"), remove_flag("--data-parallel-external-lb")});
  const std::int64_t world = p.sizes.dp * p.sizes.pp * p.sizes.tp;
  if (args.nnodes > 1 && world % args.nnodes != 0)
    return invalid(fmt::format("`--nnodes {}` must evenly divide the total world size ({}).", args.nnodes, world));
  if (args.node_rank < 0 || args.node_rank >= args.nnodes)
    return invalid(fmt::format("`--node-rank` must be between 0 and {}; got {}.", args.nnodes - 1, args.node_rank));
  if (p.external_lb && !args.dp_rank && args.nnodes == 1)
    return invalid("`--data-parallel-external-lb` requires a data-parallel rank.",
                   std::vector{choose("add --data-parallel-rank with the rank of this server"),
                               remove_flag("--data-parallel-external-lb")});
  if (args.dp_rank && args.dp_size_local.value_or(1) != 1)
    return invalid(fmt::format("an external data-parallel rank requires `--data-parallel-size-local 1`; got {}.",
                               *args.dp_size_local),
                   std::vector{remove_flag("--data-parallel-size-local", std::to_string(*args.dp_size_local))});
  return std::nullopt;
}

ParallelArgs parallel_args(const DeploymentInputs& in) {
  ParallelArgs args = in.args.parallel;
  if (const auto variable = in.env.get("VLLM_ALL2ALL_BACKEND")) args.backend_variable = std::string(*variable);
  const bool external = args.external_lb || in.args.dp_rank;
  args.external_lb = external;
  args.dp_rank = in.args.dp_rank.value_or(in.args.dp_start_rank.value_or(0));
  args.dp_size_local = external ? 1 : in.args.dp_size_local.value_or(args.sizes.dp);
  return args;
}

Advice fix_for_parallel(const ParallelArgs& args, const Error& error) {
  const auto says = [&](std::string_view text) { return error.message.find(text) != std::string::npos; };
  const Fix no_eplb = remove_flag("--enable-eplb");
  if (says("EPLB is not enabled"))
    return std::vector{
        set_flag("--enable-eplb"),
        choose(fmt::format("take num_redundant_experts (now {}) out of --eplb-config", args.num_redundant_experts))};
  if (says("enable_expert_parallel")) return std::vector{set_flag("--enable-expert-parallel"), no_eplb};
  if (says("EPLB requires"))
    return std::vector{no_eplb, choose("raise --tensor-parallel-size or --data-parallel-size")};
  if (says("data_parallel_size_local"))
    return std::vector{set_flag("--data-parallel-size-local", {std::to_string(args.sizes.dp)},
                                fmt::format("now {}", args.dp_size_local))};
  if (says("Input should be"))
    return std::vector{remove_flag("--all2all-backend", args.all2all_backend.value_or("")),
                       choose("give it one of these names"), choose("name the version that has it")};
  return "change what the message names";
}

void settle_parallel(VllmPart& part, Deployment& out) {
  const DeploymentInputs& in = part.given;
  if (auto refusal = refuse_launch_options(in.args))
    reject(out, "EngineArgs", std::move(refusal->error), std::move(refusal->fix));
  const ParallelArgs args = parallel_args(in);
  Result<ParallelConfig> config = parallel_config(part.generation().parallel, args);
  if (!config) {
    reject(out, "ParallelConfig", config.error(), fix_for_parallel(args, config.error()));
    return;
  }
  part.parallel = std::move(*config);
  part.kernels = part.parallel.all2all ? kernels_of(part.parallel.backend) : Kernels::none;
  part.sp = part.parallel.sequence_parallel && part.parallel.all2all ? args.sizes.tp : 1;
}

// --- limits

constexpr std::array kClasses = {GpuClass::small, GpuClass::large, GpuClass::blackwell_large};

bool operator==(const BatchLimits& a, const BatchLimits& b) {
  return a.max_num_batched_tokens == b.max_num_batched_tokens && a.max_num_seqs == b.max_num_seqs;
}

Advice fix_for_limits(const VllmPart& part, const BatchLimits& limits) {
  const BatchArgs& args = part.given.args.batch;
  const auto now = [](const std::optional<std::int64_t>& given, std::int64_t value) {
    return given ? fmt::format("now {}", value) : fmt::format("not given: {}", value);
  };
  return std::vector{at_least(set_flag("--max-num-batched-tokens", {std::to_string(limits.max_num_seqs)},
                                       now(args.max_num_batched_tokens, limits.max_num_batched_tokens))),
                     set_flag("--max-num-seqs", {std::to_string(limits.max_num_batched_tokens)},
                              now(args.max_num_seqs, limits.max_num_seqs))};
}

void settle_limits(VllmPart& part, Deployment& out) {
  const DeploymentInputs& in = part.given;
  const DefaultRules& rules = part.generation().defaults;
  BatchArgs args = in.args.batch;
  args.batched_dp_moe = is_batched_dp_moe(part.parallel.backend, in.args.parallel);
  const auto of = [&](GpuClass gpu) { return batch_limits(rules, args, gpu); };
  const GpuClass assumed = in.gpu_memory_gib ? gpu_class(*in.gpu_memory_gib, in.gpu_name) : GpuClass::small;
  part.limits = of(assumed);
  const bool open =
      !in.gpu_memory_gib && std::ranges::any_of(kClasses, [&](GpuClass gpu) { return !(of(gpu) == part.limits); });
  part.limits_are_known = !open;
  if (open)
    out.notes.push_back({fmt::format(
        "defaults follow the GPU, which is not known: max_num_batched_tokens and max_num_seqs are {} and {} from 160 "
        "GiB on, {} and {} from 70 GiB on, {} and {} below and on A100 (assumed); give --gpu NAME or --gpu-memory",
        of(GpuClass::blackwell_large).max_num_batched_tokens, of(GpuClass::blackwell_large).max_num_seqs,
        of(GpuClass::large).max_num_batched_tokens, of(GpuClass::large).max_num_seqs,
        of(GpuClass::small).max_num_batched_tokens, of(GpuClass::small).max_num_seqs)});
  const auto refused = [&](GpuClass gpu) { return refuse_limits(of(gpu)).has_value(); };
  if (open ? std::ranges::all_of(kClasses, refused) : refused(assumed))
    reject(out, "SchedulerConfig", *refuse_limits(part.limits), fix_for_limits(part, part.limits));
  else if (open && std::ranges::any_of(kClasses, refused))
    out.notes.push_back({"on some GPUs max_num_batched_tokens is then below max_num_seqs, and vLLM refuses to start"});
}

// --- graphs and the model runner

void settle_graphs(VllmPart& part, Deployment& out) {
  const DeploymentInputs& in = part.given;
  const Generation& v = part.generation();
  part.graphs.width = 1 + in.args.num_speculative_tokens;
  part.graphs.max_num_seqs = part.limits.max_num_seqs;
  part.microbatching = {part.parallel.microbatches, std::max<std::int64_t>(part.parallel.num_microbatches, 2),
                        in.args.dbo_decode_threshold, in.args.dbo_prefill_threshold};
  const bool eager = in.args.enforce_eager || !in.args.compiles;
  if (eager || (part.parallel.all2all && !v.graphs_with_all2all)) return;
  const GraphSetting* const setting =
      find_graph_setting(in.args.cudagraph_mode.value_or(std::string(v.default_graphs)));
  if (setting == nullptr || setting->decode == GraphMode::none) return;
  auto sizes = capture_sizes(v.defaults,
                             {.enforce_eager = false,
                              .sizes = in.args.capture_sizes,
                              .max_size = in.args.max_capture_size,
                              .width = part.graphs.width,
                              .interactivity = in.args.batch.performance_mode == "interactivity",
                              .sm100 = is_sm100(in.gpu_name)},
                             part.limits);
  if (!sizes) {
    reject(out, "VllmConfig", sizes.error(), "change the capture sizes of --compilation-config");
    return;
  }
  part.graphs.setting = setting;
  const std::int64_t most = sizes->empty() ? 0 : sizes->back();
  for (std::int64_t size : *sizes) {  // graphs of decode batches hold whole requests
    if (setting->decode == GraphMode::full)
      size = (size + part.graphs.width - 1) / part.graphs.width * part.graphs.width;
    if (size <= most && (part.graphs.sizes.empty() || part.graphs.sizes.back() < size))
      part.graphs.sizes.push_back(size);
  }
}

bool has_moe_model_on_v2(const std::string& model) {
  std::string name = model;
  std::ranges::transform(name, name.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  for (const std::string_view family : {"deepseek-v2", "qwen2-moe", "qwen1.5-moe", "granite", "kimi-k3"})
    if (name.find(family) != std::string::npos) return true;
  return false;
}

void settle_runner(VllmPart& part, Deployment& out) {
  const Generation& v = part.generation();
  const EngineArgs& args = part.given.args;
  if (!v.has_runner_v2) return;
  const auto asked = part.given.env.get("VLLM_USE_V2_MODEL_RUNNER");
  const bool by_default = args.parallel.sizes.pcp > 1 || args.speculative_method == "dspark" ||
                          (v.moe_models_on_v2 && has_moe_model_on_v2(args.model) && !part.parallel.microbatches &&
                           !args.parallel.enable_elastic_ep && args.speculative_method != "ngram");
  part.runs_v2 = asked ? *asked == "1" : by_default;
  if (part.runs_v2) out.notes.push_back({"runs on model runner V2"});
}

// --- experts

void check_experts(const VllmPart& part, Deployment& out) {
  const DeploymentInputs& in = part.given;
  const ParallelArgs& p = in.args.parallel;
  if (!in.model || !p.enable_expert_parallel || !p.enable_eplb || !part.generation().has_eplb_flag) return;
  const std::int64_t ep = p.sizes.flat(), experts = in.model->num_experts + p.num_redundant_experts;
  auto error = refuse_uneven_experts(experts, ep, part.generation().uneven_experts);
  if (!error) return;
  reject(out, "FusedMoE", std::move(*error),
         fmt::format("set num_redundant_experts in --eplb-config to {} (now {}): {} and {} experts are {} on {} ranks",
                     p.num_redundant_experts + ep - experts % ep, p.num_redundant_experts, in.model->num_experts,
                     p.num_redundant_experts, experts, ep));
}

void check_deepep_layout(const VllmPart& part, Deployment& out) {
  const ParallelSizes& s = part.given.args.parallel.sizes;
  const bool deepep = part.kernels == Kernels::deepep_high_throughput || part.kernels == Kernels::deepep_low_latency;
  if (!deepep || part.generation().capacity.deepep_knows_ep || s.tp == 1) return;
  reject(out, "DeepEP prepare",
         {ErrorKind::assertion_error, fmt::format("{} dispatchers, but {} expert-parallel ranks", s.dp, s.flat())},
         std::vector{set_flag("--tensor-parallel-size", {"1"}, fmt::format("now {}", s.tp)),
                     upgrade_to("v0.10.2", "#23619, 2025-09-10")},
         "first_forward");
}

// The FlashInfer NVFP4 experts gather over the data-parallel group, with a list that has an entry for every
// sequence-parallel rank.
void check_nvfp4_gather(const VllmPart& part, Deployment& out) {
  const bool gathers = part.kernels == Kernels::allgather_reducescatter || part.kernels == Kernels::naive;
  const bool flashinfer = part.given.env.get_bool("VLLM_USE_FLASHINFER_MOE_FP4", false);
  if (!part.generation().nvfp4_gathers_over_dp || !gathers || !flashinfer || part.sp == 1) return;
  if (dispatch_type_of(part.given) != "nvfp4") return;
  const ParallelSizes& s = part.given.args.parallel.sizes;
  reject(out, "all_gatherv",
         {ErrorKind::assertion_error, fmt::format("len(sizes) == world_size: {} sizes for {} ranks", s.flat(), s.dp)},
         std::vector{unset_variable("VLLM_USE_FLASHINFER_MOE_FP4", "now 1"),
                     set_flag("--tensor-parallel-size", {"1"}, fmt::format("now {}", s.tp))},
         "first_forward");
}

void check_moe_backend(const VllmPart& part, Deployment& out) {
  using enum Kernels;
  if (part.kernels == none || part.given.args.moe_backend != "flashinfer_cutedsl") return;
  if (part.kernels == deepep_low_latency || part.kernels == nixl_ep || !part.generation().cutedsl_wants_batches) return;
  reject(out, "MoE oracle",
         {ErrorKind::value_error,
          "FLASHINFER_CUTEDSL does not support the deployment configuration since kernel does not "
          "support the standard activation format"},
         std::vector{set_flag("--all2all-backend", {"deepep_low_latency"}, "now " + part.parallel.backend),
                     remove_flag("--moe-backend", "flashinfer_cutedsl")});
}

// --- buffers

// A multi-token-prediction head, which checkpoints that are named NVFP4 leave in bf16; of others it is not known.
// Before #42976 its dispatch goes through the workspace that the first layer made.
bool has_bf16_head(const VllmPart& part, const OneSidedLayer& layer) {
  const EngineArgs& args = part.given.args;
  const bool is_head = args.num_speculative_tokens > 0 && args.speculative_method.find("mtp") != std::string::npos;
  const OneSided& rules = part.generation().capacity.one_sided;
  return is_head && guess_quantization(args.model) && layer.quant_dtype == "nvfp4" && !rules.grows &&
         !refuse_type(rules, std::nullopt);
}

// The most tokens for which FlashInfer finds room there.
void limit_to_head(const VllmPart& part, const OneSidedLayer& layer, const OneSidedWorkspace& built, Deployment& out) {
  const auto ranks = static_cast<int>(part.given.args.parallel.sizes.flat());
  const std::int64_t cap = part.buffer.tokens;
  const WorkspaceLayout layout = make_workspace_layout(*out.flashinfer, ranks, cap);
  const std::int64_t dispatch = dispatch_bytes_per_token(DispatchType::bf16, layer.hidden_size, layer.top_k);
  std::int64_t fits = 0;
  for (std::int64_t step = std::int64_t{1} << 40; step > 0; step /= 2)
    if (fits + step <= cap &&
        workspace_bytes_per_rank(layout, ranks, fits + step, dispatch, combine_bytes_per_token(layer.hidden_size)) <=
            built.bytes_per_rank)
      fits += step;
  out.max_num_tokens = fits;
  out.max_num_tokens_source = fmt::format(
      "the workspace is made for max_num_batched_tokens {} of the nvfp4 layers; the draft head sends bf16", cap);
}

Result<void> add_one_sided(VllmPart& part, Deployment& out) {
  const DeploymentInputs& in = part.given;
  const Generation& v = part.generation();
  const OneSided& rules = v.capacity.one_sided;
  const ParallelSizes& s = in.args.parallel.sizes;
  const auto type = dispatch_type_of(in);
  if (!rules.marks_unused_rows) out.invalid_expert_id.reset();
  if (!rules.spans_ep_group && s.dp != s.flat())
    reject(out, "FlashInfer dispatch", {ErrorKind::runtime_error, "workspace first dim must equal ep_size"},
           std::vector{
               set_flag("--tensor-parallel-size", {"1"},
                        fmt::format("now {}: the workspace spans {} replicas, not {} ranks", s.tp, s.dp, s.flat())),
               upgrade_to("pr40893", "2026-04-26")},
           "first_forward");
  if (s.dp == 1 && part.sp == 1)
    reject(out, "prepare", {ErrorKind::assertion_error, "dp_metadata is not None"},
           std::vector{at_least(set_flag("--data-parallel-size", {"2"}, "now 1: this backend needs replicas"))},
           "first_forward");
  const std::optional<std::string> quant = type && !type->empty() ? type : std::nullopt;
  if (type)
    if (auto error = refuse_type(rules, quant)) {
      reject(out, "FusedMoE", std::move(*error), "use another --all2all-backend, or a model in nvfp4");
      return {};
    }
  if (!type)
    out.notes.push_back(
        {fmt::format("which type the experts ask for is not settled by the command; {} is assumed for the "
                     "workspace",
                     rules.types == OneSidedTypes::nvfp4_bf16_mxfp8 ? "bf16, the largest," : "nvfp4")});
  const bool as_nvfp4 = quant == "nvfp4" || (!type && rules.types != OneSidedTypes::nvfp4_bf16_mxfp8);
  out.dispatch_type = as_nvfp4 ? DispatchType::nvfp4 : quant == "mxfp8" ? DispatchType::mxfp8 : DispatchType::bf16;
  if (!in.model) return {};
  const OneSidedLayer layer{as_nvfp4 ? std::optional<std::string>("nvfp4") : quant, in.model->hidden_size,
                            in.model->top_k, out.num_experts, 0};
  const auto built =
      one_sided_workspace(rules, *out.flashinfer, std::span(&layer, 1), s.flat(), s.dp, part.buffer.tokens);
  if (!built) return tl::unexpected(built.error());
  part.buffer.bytes = built->bytes_per_rank;
  if (has_bf16_head(part, layer)) limit_to_head(part, layer, *built, out);
  out.capacity = Capacity{out.max_num_tokens, built->dispatch_bytes_per_token, built->combine_bytes_per_token,
                          built->bytes_per_rank, built->bytes_per_rank};
  return {};
}

// A call of one token: what FlashInfer refuses in every dispatch.
void add_launch_error(const VllmPart& part, Deployment& out) {
  const std::int64_t ep = part.given.args.parallel.sizes.flat();
  const FlashInferLimits& flashinfer = *out.flashinfer;
  Result<void> checked;
  if (ep > flashinfer.max_ranks)
    checked = fail(ErrorKind::runtime_error,
                   fmt::format("epSize must be in the range (0, {}], got {}", flashinfer.max_ranks, ep));
  else if (out.model)
    checked = check_dispatch_launch(flashinfer, static_cast<int>(std::min<std::int64_t>(out.model->top_k, 1 << 20)),
                                    static_cast<int>(ep));
  if (checked && out.model && flashinfer.divisible_experts && out.num_experts % ep != 0)
    checked = fail(ErrorKind::runtime_error, "num_experts must be divisible by ep_size");
  if (checked) return;
  out.launch_error =
      Rejection{"first_forward", "FlashInfer dispatch", checked.error(),
                fmt::format("use another --all2all-backend (FlashInfer {} refuses top_k {}, {} experts on {} "
                            "ranks)",
                            flashinfer.tag, out.model ? out.model->top_k : 0, out.num_experts, ep)};
}

void add_deepep(VllmPart& part, Deployment& out) {
  const DeploymentInputs& in = part.given;
  if (!in.model) return;
  const auto hidden = deepep_hidden_size(in.model->hidden_size);
  if (!hidden) {
    reject(out, "DeepEPLLPrepareAndFinalize",
           {ErrorKind::assertion_error,
            fmt::format("Hidden Size {} not in supported list of hidden sizes", in.model->hidden_size)},
           "use another --all2all-backend");
    return;
  }
  if (part.kernels != Kernels::deepep_low_latency) return;
  part.buffer.bytes = deepep_rdma_bytes(part.buffer.tokens, *hidden, out.num_experts);
  part.buffer.fits = part.buffer.bytes && deepep_accepts(*part.buffer.bytes);
}

}  // namespace

void start(VllmPart& part, Deployment& out) {
  settle_parallel(part, out);
  settle_limits(part, out);
  if (part.parallel.microbatches)
    if (auto error = refuse_microbatching(part.generation().defaults, part.parallel.backend))
      reject(out, "VllmConfig", std::move(*error),
             "use --all2all-backend deepep_low_latency or deepep_high_throughput, or leave out --enable-dbo");
  settle_graphs(part, out);
  settle_runner(part, out);
  check_experts(part, out);
  check_deepep_layout(part, out);
  check_nvfp4_gather(part, out);
  check_moe_backend(part, out);
}

Result<void> add_buffers(VllmPart& part, Deployment& out) {
  if (part.kernels == Kernels::deepep_low_latency || part.kernels == Kernels::nixl_ep) add_deepep(part, out);
  if (part.kernels != Kernels::flashinfer_one_sided) return {};
  add_launch_error(part, out);
  return add_one_sided(part, out);
}

}  // namespace a2asim::vllm::stages
