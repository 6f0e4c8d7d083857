#include "model/engines/vllm/deployment.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/engines/vllm/rules/deepep.h"
#include "model/engines/vllm/rules/rounds.h"
#include "model/engines/vllm/stages.h"

namespace a2asim::vllm {
namespace {

std::int64_t chunk_of(const DeploymentInputs& in) {
  constexpr std::int64_t kChunk_tokens = 256;
  const bool reads = in.generation->capacity.chunk_is_a_variable;
  return reads ? std::max<std::int64_t>(in.env.get_int("VLLM_MOE_DP_CHUNK_SIZE", kChunk_tokens), 1) : kChunk_tokens;
}

// The tokens that a rank's buffer is made for.
Buffer buffer_of(const VllmPart& part) {
  using enum Kernels;
  const DeploymentInputs& in = part.given;
  const CapacityRules& rules = part.generation().capacity;
  Buffer out;
  const bool by_tokens = part.kernels == flashinfer_one_sided || part.kernels == deepep_v2;
  if (by_tokens || (is_chunked(part.kernels) && !rules.chunks)) {
    out.tokens = part.limits.max_num_batched_tokens;
    out.source = "max_num_batched_tokens";
  } else if (is_chunked(part.kernels)) {
    out.tokens = chunk_of(in);
    out.is_chunked = !(rules.may_disable_chunks && in.env.get("VLLM_ENABLE_MOE_DP_CHUNK") == "0");
    out.source = rules.chunk_is_a_variable ? "VLLM_MOE_DP_CHUNK_SIZE" : "the constant of the version";
  }
  return out;
}

Topology topology_of(const EngineArgs& args) {
  const ParallelSizes& s = args.parallel.sizes;
  Topology out;
  out.tp_size = s.flat();
  out.flag_tp_size = s.tp;
  out.dp_size = out.attn_dp_size = s.dp;
  out.ep_size = args.parallel.enable_expert_parallel ? s.flat() : 1;
  out.attn_tp_size = s.tp;
  out.attn_cp_size = s.pcp;
  return out;
}

// A graph's own size is what its kernels were captured with.
void add_graphs(const VllmPart& part, Deployment& out) {
  const Graphs& graphs = part.graphs;
  if (graphs.setting->decode == GraphMode::none) return;
  for (const std::int64_t size : graphs.sizes) {
    const std::int64_t requests = size / graphs.width;
    if (requests < 1 || (!out.capture_bs.empty() && out.capture_bs.back() == requests)) continue;
    const std::int64_t rows = ceil_div(size, part.sp);
    out.capture_bs.push_back(requests);
    out.baked.push_back({SizingDecision{rows, rows, false, SizingBranch::max_of_list}});
  }
  out.graph_max_bs = {out.capture_bs.empty() ? 0 : out.capture_bs.back(), part.limits_are_known};
}

void add_limits(const VllmPart& part, Deployment& out) {
  const std::int64_t width = part.graphs.width;
  const std::int64_t requests = std::min(part.limits.max_num_seqs, part.limits.max_num_batched_tokens / width);
  out.requests_per_dp_rank = {std::max<std::int64_t>(requests, 1), part.limits_are_known};
  out.prefill_tokens = {part.limits.max_num_batched_tokens, part.limits_are_known};
  out.speculates = part.given.args.num_speculative_tokens > 0;
  out.width_is_given = out.speculates;
  out.speculative.num_draft_tokens = out.num_tokens_per_bs = width;
  out.speculative_algorithm = part.given.args.speculative_method;
  out.graphs_are_disabled = part.graphs.setting->decode == GraphMode::none;
}

}  // namespace

bool is_chunked(Kernels kernels) {
  using enum Kernels;
  return kernels == pplx || kernels == deepep_low_latency || kernels == mori || kernels == nixl_ep;
}

std::optional<std::string> dispatch_type_of(const DeploymentInputs& inputs) {
  std::string words = inputs.model_quantization.value_or(inputs.args.quantization.value_or(""));
  const bool by_name = words.empty();
  if (by_name) words = inputs.args.model;
  std::ranges::transform(words, words.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  const auto has = [&](std::string_view part) { return words.find(part) != std::string::npos; };
  if (has("mxfp4") || has("mxfp8")) return "mxfp8";
  if (has("nvfp4") || has("fp4")) return "nvfp4";
  if (has("fp8")) return "fp8";
  if (has("bf16") || (!by_name && words == "none")) return "";
  return std::nullopt;
}

Result<std::unique_ptr<Deployment>> resolve_deployment(const DeploymentInputs& inputs) {
  auto out = std::make_unique<Deployment>();
  const auto part = std::make_shared<VllmPart>();
  part->given = inputs;
  out->generation = inputs.generation;
  out->model = inputs.model;
  out->rule = inputs.rule;
  out->topology = topology_of(inputs.args);
  stages::start(*part, *out);
  part->buffer = buffer_of(*part);
  out->backend = part->parallel.backend;
  out->flashinfer = &limits(part->generation().flashinfer);
  out->invalid_expert_id = -1;
  out->max_num_tokens = kNoCap;
  out->max_num_tokens_source = part->buffer.source;
  if (inputs.model) out->num_experts = inputs.model->num_experts + inputs.args.parallel.num_redundant_experts;
  out->derives_sizes = part->kernels != Kernels::none && part->kernels != Kernels::deepep_high_throughput;
  out->uses_flashinfer = part->kernels == Kernels::flashinfer_one_sided;
  if (out->uses_flashinfer) out->max_num_tokens = part->buffer.tokens;
  add_limits(*part, *out);
  add_graphs(*part, *out);
  if (auto ok = stages::add_buffers(*part, *out); !ok) return tl::unexpected(ok.error());
  out->part = part;
  return out;
}

}  // namespace a2asim::vllm
