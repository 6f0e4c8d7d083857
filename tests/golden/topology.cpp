#include "model/engines/sglang/rules/topology.h"

#include "tests/golden/table.h"
#include "tests/golden/variant.h"

namespace a2asim::golden {
namespace {

DpAttentionWorldInfo world_info(const std::string& variant) {
  return by_variant<DpAttentionWorldInfo>(variant, {{"jan2026", compute_dp_attention_world_info_pr14668},
                                                    {"june2026", compute_dp_attention_world_info_pr27945},
                                                    {"pr30450", compute_dp_attention_world_info_pr27945},
                                                    {"main2026", compute_dp_attention_world_info_pr27945}});
}

}  // namespace

json answer_topology(Fields& in, const json&) {
  const auto variant = in.get<std::string>("variant");
  const auto fn = in.get<std::string>("fn");
  DpAttentionInputs inputs{.enable_dp_attention = in.get<bool>("enable_dp_attention"),
                           .tp_rank = in.get<std::int64_t>("tp_rank"),
                           .tp_size = in.get<std::int64_t>("tp_size"),
                           .dp_size = in.get<std::int64_t>("dp_size")};
  const auto error = [](const Error& e) { return json{{"error", std::string(name(e.kind)) + ": " + e.message}}; };
  if (fn == "compute_dp_attention_local_info") {
    inputs.moe_dense_tp_size = in.get_or_null<std::int64_t>("moe_dense_tp_size");
    const auto info = compute_dp_attention_local_info(inputs);
    if (!info) return error(info.error());
    return {{"out", {info->attn_tp_rank, info->attn_tp_size, info->attn_dp_rank}}};
  }
  if (fn != "compute_dp_attention_world_info") throw std::runtime_error("unknown fn " + fn);
  inputs.attn_cp_size = in.get_or_null<std::int64_t>("attn_cp_size").value_or(1);
  const auto info = world_info(variant)(inputs);
  if (!info) return error(info.error());
  json out = {info->attn_tp_rank, info->attn_tp_size, info->attn_dp_rank};
  if (!variant.starts_with("jan2026")) out.push_back(info->attn_dp_size);
  return {{"out", out}};
}

}  // namespace a2asim::golden
