#include "model/engines/trtllm/deployment.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "model/engines/trtllm/rank_environment.h"
#include "model/engines/trtllm/resolve.h"

namespace a2asim::trtllm {
namespace {

constexpr std::int64_t kMaxWorld = 4096;
constexpr std::int64_t kDeepGemmChunk = 18688;

struct DomainOf {
  std::string_view gpu;
  std::int64_t gpus;
};
constexpr DomainOf kDomains[] = {{"gb200", 72}, {"gb300", 72}, {"nvl72", 72}, {"nvl576", 576}, {"nvl36", 36},
                                 {"gh200", 32}, {"rtx", 1},    {"l40", 1},    {"sm120", 1},    {"h100", 8},
                                 {"h200", 8},   {"h20", 8},    {"b200", 8},   {"b300", 8},     {"a100", 8}};

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return out;
}

std::string upper(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](char c) { return c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c; });
  return out;
}

void settle_domain(const Inputs& in, TrtllmPart& part) {
  const std::int64_t by_variable = in.env.get_int(kDomainVariable, 0);
  part.domain_is_known = in.nvlink_domain.has_value() || by_variable > 0;
  if (part.domain_is_known) {
    part.domain = in.nvlink_domain.value_or(by_variable);
    return;
  }
  const std::string gpu = lower(in.gpu);
  for (const DomainOf& known : kDomains)
    if (!gpu.empty() && gpu.find(known.gpu) != std::string::npos) {
      part.domain = known.gpus;
      part.domain_is_known = true;
      return;
    }
}

// Sizes of the command, each with its default.
Result<MappingInputs> read_sizes(const Arguments& args, TrtllmPart& part) {
  MappingInputs in;
  std::int64_t moe_tokens = 0;
  const auto read = [&](std::string_view name, std::int64_t& into, std::int64_t least, std::int64_t most) {
    Result<std::int64_t> value = args.number(name, into, least, most);
    if (value) into = *value;
    return value;
  };
  for (const auto& [name, into, least, most] :
       {std::tuple{"tensor_parallel_size", &in.tp_size, std::int64_t{1}, kMaxWorld},
        {"pipeline_parallel_size", &in.pp_size, 1, kMaxWorld},
        {"context_parallel_size", &in.cp_size, 1, kMaxWorld},
        {"moe_tensor_parallel_size", &in.moe_tp_size, -1, kMaxWorld},
        {"moe_expert_parallel_size", &in.moe_ep_size, -1, kMaxWorld},
        {"moe_cluster_parallel_size", &in.moe_cluster_size, -1, kMaxWorld},
        {"max_num_tokens", &part.max_num_tokens, 1, 1 << 24},
        {"max_batch_size", &part.max_batch_size, 1, 1 << 24},
        {"moe_config.max_num_tokens", &moe_tokens, 1, 1 << 30},
        {"speculative_config.max_draft_len", &part.draft_tokens, 0, 1024}})
    if (auto value = read(name, *into, least, most); !value) return tl::unexpected(value.error());
  in.attention_dp = args.flag("enable_attention_dp");
  in.lm_head_tp_in_adp = args.flag("enable_lm_head_tp_in_adp");
  in.cp_type = upper(args.text("cp_config.cp_type").value_or(""));
  part.max_num_tokens_is_given = args.text("max_num_tokens").has_value();
  part.moe_backend = upper(args.text("moe_config.backend").value_or("CUTLASS"));
  part.is_wideep = part.moe_backend == "WIDEEP";
  const std::int64_t replicas = in.attention_dp ? in.tp_size : 1;
  part.moe_max_num_tokens = moe_tokens > 0 ? moe_tokens : part.max_num_tokens * replicas;
  if (moe_tokens == 0 && part.moe_backend == "DEEPGEMM")
    part.moe_max_num_tokens = std::min(part.moe_max_num_tokens, kDeepGemmChunk);
  return in;
}

AllToAllSetup alltoall_of(TrtllmPart& part, Said& said) {
  AllToAllSetup out;
  const RankSetup& first = part.setups.front();
  out.backend = name(first.lane);
  out.max_num_tokens = part.max_num_tokens;
  out.max_num_tokens_source = part.max_num_tokens_is_given ? "max_num_tokens as given" : "max_num_tokens by default";
  out.flashinfer = &limits_of(part.generation());
  const auto& model = part.given.model;
  if (model) out.num_experts = slots_of(part);
  out.invalid_expert_id = -1;
  if (first.lane != Lane::one_sided) return out;
  out.uses_flashinfer = true;
  add_workspace(part, out, said);
  return out;
}

StepLimits limits_of(const TrtllmPart& part) {
  StepLimits out;
  const std::string role = lower(part.given.args.text("disaggregation_mode").value_or(""));
  const bool prefill_only = role.starts_with("prefill") || role == "context";
  const bool decode_only = role.starts_with("decode") || role == "generation";
  out.decode_reachable = !prefill_only;
  out.prefill_reachable = !decode_only;
  out.mixes_prefill_and_decode = true;
  const std::int64_t by_tokens = part.max_num_tokens / (1 + part.draft_tokens);
  const bool given = part.given.args.text("max_batch_size").has_value() || part.max_num_tokens_is_given;
  out.requests_per_dp_rank = {std::max<std::int64_t>(std::min(part.max_batch_size, by_tokens), 1), given};
  out.prefill_tokens = {part.max_num_tokens, part.max_num_tokens_is_given};
  return out;
}

Topology topology_of(const TrtllmPart& part, const MappingInputs& in) {
  Topology out;
  out.tp_size = in.tp_size;
  out.dp_size = out.attn_dp_size = part.mapping.dp_size;
  out.ep_size = part.mapping.moe_ep_size;
  out.attn_tp_size = in.attention_dp ? 1 : in.tp_size;
  out.enable_dp_attention = in.attention_dp;
  return out;
}

Speculation speculation_of(const TrtllmPart& part) {
  Speculation out;
  out.speculates = part.draft_tokens > 0;
  out.speculative_algorithm = part.given.args.text("speculative_config.decoding_type").value_or("");
  out.width_is_given = out.speculates;
  out.speculative.num_draft_tokens = 1 + part.draft_tokens;
  out.num_tokens_per_bs = 1 + part.draft_tokens;
  return out;
}

}  // namespace

ChunkInputs TrtllmPart::chunk_inputs(std::span<const std::int64_t> counts, std::size_t rank) const {
  return {.all_rank_num_tokens = counts,
          .most_tokens = moe_max_num_tokens,
          .low_latency_tokens = setup(rank).low_latency_tokens};
}

Result<std::unique_ptr<Deployment>> resolve(const Inputs& inputs) {
  auto part = std::make_shared<TrtllmPart>();
  part->given = inputs;
  Said said;
  settle_domain(inputs, *part);
  const Result<MappingInputs> sizes = read_sizes(inputs.args, *part);
  if (!sizes) return tl::unexpected(sizes.error());
  const Outcome<Mapping> mapping = make_mapping(*sizes);
  if (mapping)
    part->mapping = *mapping;
  else
    said.reject("Mapping", as_error(mapping.error()), fix_mapping(*sizes));
  if (!mapping) part->mapping.dp_size = sizes->attention_dp ? sizes->tp_size : 1;
  if (auto ok = choose_lanes(*sizes, *part, said); !ok) return tl::unexpected(ok.error());
  Result<DecodeGraphs> graphs = graphs_of(*part, said);
  if (!graphs) return tl::unexpected(graphs.error());
  AllToAllSetup alltoall = alltoall_of(*part, said);
  refuse_at_start(*part, alltoall, said);
  auto out = std::make_unique<Deployment>(Deployment{speculation_of(*part), limits_of(*part), std::move(*graphs),
                                                     std::move(alltoall), inputs.generation, topology_of(*part, *sizes),
                                                     inputs.model, inputs.rule, std::move(said.rejections),
                                                     std::move(said.notes), nullptr});
  add_remarks(*out, *part);
  const auto is_unread = [](const CheckFinding& remark) { return remark.kind == FindingKind::not_read; };
  for (const CheckFinding& remark : part->remarks)  // these are said of a launch that is refused, too
    if (is_unread(remark)) out->notes.push_back({remark.message + "; " + remark.fix, true, name(remark.kind)});
  std::erase_if(part->remarks, is_unread);
  out->part = part;
  return out;
}

}  // namespace a2asim::trtllm
