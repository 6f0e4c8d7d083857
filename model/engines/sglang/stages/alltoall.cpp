#include "model/engines/sglang/stages/stages.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/engines/sglang/cap_variable.h"
#include "model/engines/sglang/questions/asked.h"
#include "model/engines/sglang/static_caps.h"

namespace a2asim::stages {
namespace {

constexpr std::string_view kNvfp4Dispatch = "SGLANG_MOE_NVFP4_DISPATCH";

// What the flag asks for; nothing, and "auto", leave it to the model.
std::optional<DispatchType> asked_type(const ServerArgs& args) {
  const auto type = parse_dispatch_type(args.flashinfer_a2a_dispatch_type.value_or("auto"));
  return type ? std::optional(*type) : std::nullopt;
}

// What layers send (FlashinferDispatcher.dispatch): a type that is asked for, where their experts take it. A draft
// model's layers are not quantised: for them the workspace may be larger.
DispatchType sent_type(const Started& started) {
  const std::string quantization = started.args.quantization.value_or("");
  const bool by_flag = started.generation().capacity.sized_for_larger_type;
  const bool is_mxfp8 = quantization == "mxfp8" && by_flag;
  const bool is_nvfp4 = quantization == "modelopt_fp4" || quantization == "nvfp4_online";
  const std::optional<DispatchType> asked = by_flag ? asked_type(started.args) : std::nullopt;
  if (is_mxfp8 && asked.value_or(DispatchType::mxfp8) == DispatchType::mxfp8) return DispatchType::mxfp8;
  const bool wants_nvfp4 = asked ? *asked == DispatchType::nvfp4 : started.env.get_bool(kNvfp4Dispatch, false);
  return is_nvfp4 && wants_nvfp4 ? DispatchType::nvfp4 : DispatchType::bf16;
}

// The cap, what it is made of, and the workspace.
Result<void> add_capacity(const Started& started, std::int64_t ranks, AllToAllSetup& out) {
  const ServerArgs& args = started.args;
  CapacityRules rules = started.generation().capacity;
  std::string outside_cap;
  const std::optional<std::string_view> env = started.env.get(kCapVariable);
  const int ep_size = static_cast<int>(ranks);
  out.max_num_tokens = rules.max_num_tokens(env, args.chunked_prefill_size, ep_size);
  const std::string_view times = started.generation().cap_is_times_ep_size ? " x ep_size" : "";
  if (env && int_env_or(env, -1) == int_env_or(env, -2)) {
    out.max_num_tokens_source = fmt::format("{}={}{}", kCapVariable, *env, times);
  } else {
    out.max_num_tokens_source = fmt::format("default: {}{}", started.generation().cap_default, times);
  }
  const std::optional<ModelShape>& model = started.given.model;
  ExternalEngine* const outside = engine_of(started.given.rule);
  const bool asks = answers(outside, QuestionKind::cap);
  if (!model && !asks) return {};
  CapacityInputs in;
  in.env = env;
  in.chunked_prefill_size = args.chunked_prefill_size;
  in.ep_size = ep_size;
  in.hidden_size = model ? model->hidden_size : 4096;  // the cap does not depend on it
  in.top_k = model ? model->top_k : 8;
  if (args.speculative_algorithm) in.speculative_algorithm = *args.speculative_algorithm;
  in.moe_nvfp4_dispatch = started.env.get_bool(kNvfp4Dispatch, false);
  in.dispatch_type = asked_type(args).value_or(DispatchType::bf16);  // "auto" never takes more than bf16
  if (asks) {
    const Result<asked::Cap> cap = asked::cap(*outside, in);
    if (!cap) return tl::unexpected(cap.error());
    out.max_num_tokens = cap->max_num_tokens;
    out.max_num_tokens_source = "computed by the code under test";
    // The same workspace, whatever the version's rule would make of the variable.
    outside_cap = std::to_string(cap->max_num_tokens);
    rules.max_num_tokens = max_num_tokens_pr25907;
    rules.sized_for_larger_type = false;
    in.env = outside_cap;
    in.moe_nvfp4_dispatch =
        cap->dispatch_bytes_per_token < dispatch_bytes_per_token(DispatchType::bf16, in.hidden_size, in.top_k);
  }
  if (!model) return {};
  auto sized = capacity(rules, in);
  if (!sized) return tl::unexpected(sized.error());
  out.capacity = *sized;
  return {};
}

// A call of one token in an ample workspace.
Result<void> check_any_dispatch(const AllToAllSetup& out, const std::optional<ModelShape>& model, std::int64_t ranks,
                                const FlashInferLimits& flashinfer) {
  const int ep_size = static_cast<int>(ranks);
  if (ep_size > flashinfer.max_ranks)
    return fail(ErrorKind::runtime_error,
                fmt::format("Check failed: epSize must be in the range (0, {}], got {}", flashinfer.max_ranks,
                            ep_size));
  if (!model || !out.capacity) return {};
  std::vector<Payload> payloads;
  for (const std::int64_t bytes : payload_bytes_per_token(out.dispatch_type, model->hidden_size, model->top_k))
    payloads.push_back({bytes, 1});
  const int top_k = static_cast<int>(std::min<std::int64_t>(model->top_k, 1 << 20));
  const DispatchCall call{.ep_size = ep_size,
                          .ep_rank = 0,
                          .runtime_max_tokens_per_rank = 1,
                          .max_num_tokens = 1,
                          .workspace_bytes_per_rank = std::int64_t{1} << 50,
                          .top_k = top_k,
                          .num_experts = out.num_experts,
                          .payloads = payloads};
  if (auto checked = check_dispatch_op(flashinfer, call); !checked) return checked;
  return check_dispatch_launch(flashinfer, top_k, ep_size);
}

// Whether any forward of this worker goes through dispatch.
bool dispatches(const Started& started) {
  const ServerArgs& args = started.args;
  const bool captures_prefill = args.cuda_graph_backend_prefill && !prefill_graphs_disabled(args);
  return args.disaggregation_mode != "prefill" || !started.generation().extend_leaves_alltoall || started.given.rule ||
         captures_prefill;
}

// What FlashInfer refuses in every dispatch, whatever the batch.
void add_launch_error(const Started& started, std::int64_t ranks, AllToAllSetup& out) {
  if (!dispatches(started)) return;
  const auto check = [&](const FlashInferLimits& flashinfer) {
    return check_any_dispatch(out, started.given.model, ranks, flashinfer);
  };
  const Result<void> checked = check(*out.flashinfer);
  if (checked) return;
  std::string fix = fmt::format("give --moe-a2a-backend none (now flashinfer; no FlashInfer up to {} can)",
                                limits(newest_generation().capacity.flashinfer).tag);
  for (const Generation& later : newer_than(started.generation())) {
    if (!check(limits(later.capacity.flashinfer))) continue;
    fix = fmt::format("use SGLang of {} ({}) or newer, whose FlashInfer {} can; or give --moe-a2a-backend none (now "
                      "flashinfer)",
                      later.date, later.name, limits(later.capacity.flashinfer).tag);
    break;
  }
  out.launch_error = Rejection{"first_forward", "FlashInfer dispatch", checked.error(), std::move(fix)};
}

}  // namespace

Result<AllToAllSetup> alltoall_of(const Started& started, const Layout& layout) {
  const ServerArgs& args = started.args;
  const Generation& generation = started.generation();
  AllToAllSetup out;
  out.backend = args.moe_a2a_backend;
  out.uses_flashinfer = out.derives_sizes = out.backend == "flashinfer";
  out.has_static_cap = find_static_cap(out.backend) != nullptr;
  out.dispatch_type = sent_type(started);
  out.flashinfer = &limits(generation.capacity.flashinfer);
  if (started.given.model) out.num_experts = started.given.model->num_experts + args.ep_num_redundant_experts;
  out.invalid_expert_id = invalid_token_expert_id(generation.sanitize, args.moe_runner_backend, out.num_experts);
  if (!out.uses_flashinfer) return out;
  if (auto ok = add_capacity(started, layout.topology.ep_size, out); !ok) return tl::unexpected(ok.error());
  add_launch_error(started, layout.topology.ep_size, out);
  return out;
}

}  // namespace a2asim::stages
