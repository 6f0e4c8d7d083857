// trtllm_topology, trtllm_factory, trtllm_method: who does what, and by which lane.
#include "model/engines/trtllm/rules/mapping.h"
#include "model/engines/trtllm/rules/method.h"
#include "tests/golden/table.h"

namespace a2asim::golden {
namespace {

using namespace trtllm;

MethodInputs method_inputs(Fields& in) {
  MethodInputs out;
  out.tp_size = in.get<std::int64_t>("tp_size");
  out.world_size = in.has("world_size") ? in.get<std::int64_t>("world_size") : out.tp_size;
  out.moe_ep_size = in.get<std::int64_t>("moe_ep_size");
  out.moe_tp_size = in.get<std::int64_t>("moe_tp_size");
  out.attention_dp = in.get<bool>("enable_attention_dp");
  out.top_k = in.get<std::int64_t>("top_k");
  out.one_nvlink_domain = out.has_nvlink = in.get<bool>("supports_mnnvl");
  out.local_ranks = in.get<std::int64_t>("local_mpi_size");
  for (const auto& [name, value] : in.at("env").items()) out.env.set(name, value.get<std::string>());
  return out;
}

json answer_of(const Outcome<std::string_view>& method) {
  return method ? json(std::string(*method)) : json{{"error", method.error().text()}};
}

}  // namespace

json answer_trtllm_topology(Fields& in, const json&) {
  MappingInputs inputs;
  inputs.cp_type = in.get_or_null<std::string>("cp_type").value_or("");
  inputs.cp_size = in.get<std::int64_t>("cp_size");
  inputs.tp_size = in.get<std::int64_t>("tp_size");
  inputs.pp_size = in.get<std::int64_t>("pp_size");
  inputs.moe_tp_size = in.get<std::int64_t>("moe_tp_size");
  inputs.moe_ep_size = in.get<std::int64_t>("moe_ep_size");
  inputs.attention_dp = in.get<bool>("enable_attention_dp");
  inputs.lm_head_tp_in_adp = in.get<bool>("enable_lm_head_tp_in_adp");
  const auto mapping = make_mapping(inputs);
  if (!mapping) return {{"out", {{"error", mapping.error().text()}}}};
  return {{"out",
           {{"moe_tp_size", mapping->moe_tp_size},
            {"moe_ep_size", mapping->moe_ep_size},
            {"attn_tp_size", mapping->attn_tp_size},
            {"attn_cp_size", mapping->attn_cp_size},
            {"world_size", mapping->world_size},
            {"dp_size", mapping->dp_size}}}};
}

json answer_trtllm_factory(Fields& in, const json&) {
  MethodInputs inputs = method_inputs(in);
  inputs.num_experts = in.get<std::int64_t>("num_experts");
  inputs.is_bf16 = in.get<std::string>("torch_dtype") == "bfloat16";
  inputs.max_ranks = in.get<std::int64_t>("kMaxRanks");
  const auto method = method_factory(inputs);
  if (!method) return {{"out", {{"error", method.error().text()}}}};
  if (method->lane == Lane::none) return {{"out", nullptr}};
  return {{"out", std::string(name(method->lane))}};
}

json answer_trtllm_method(Fields& in, const json&) {
  const MethodInputs inputs = method_inputs(in);
  return {{"out",
           {{"wideep", answer_of(wideep_method(inputs))},
            {"trtllmgen_2025_09_enable", trtllmgen_2025_09_enables(inputs)},
            {"trtllmgen_pr8728", answer_of(method_pr8728(inputs))},
            {"cutlass_pr9388", answer_of(method_pr9388(inputs))}}}};
}

}  // namespace a2asim::golden
