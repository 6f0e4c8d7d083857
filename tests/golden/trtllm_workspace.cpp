// trtllm_workspace*: the one-sided lane's memory.
#include "model/engines/trtllm/rules/workspace.h"
#include "tests/golden/table.h"
#include "tests/golden/variant.h"

namespace a2asim::golden {
namespace {

using namespace trtllm;

WorkspaceShape shape_of(Fields& in) {
  return {.ep_size = in.get<std::int64_t>("ep_size"),
          .top_k = in.get<std::int64_t>("top_k"),
          .max_num_tokens = in.get<std::int64_t>("max_num_tokens"),
          .hidden_size = in.get_or_null<std::int64_t>("hidden_size").value_or(0)};
}

std::vector<std::int64_t> payloads_of(const std::string& payload, const WorkspaceShape& shape) {
  const std::int64_t padded = (shape.hidden_size + 255) / 256 * 256;
  if (payload == "bf16_hidden_padded_256") return payload_bytes(PayloadKind::bf16, padded, shape.top_k);
  if (payload == "nvfp4_scales_bf16") return payload_bytes(PayloadKind::nvfp4, shape.hidden_size, shape.top_k, 2);
  return payload_bytes(
      by_variant<PayloadKind>(payload,
                              {{"bf16", PayloadKind::bf16}, {"nvfp4", PayloadKind::nvfp4}, {"fp8", PayloadKind::fp8}}),
      shape.hidden_size, shape.top_k);
}

}  // namespace

json answer_trtllm_workspace_aux(Fields& in, const json&) {
  const WorkspaceLayout at =
      make_workspace_layout(in.get<int>("ep_size"), in.get<std::int64_t>("max_num_tokens"), in.get<int>("kMaxTopK"),
                            in.get<std::int64_t>("eplb_stats_num_experts"));
  return {{"out",
           {at.flag_val, at.local_token_counter, at.send_counters, at.recv_counters, at.dispatch_completion_flags,
            at.combine_completion_flags, at.topk_target_ranks, at.topk_send_indices, at.eplb_gathered_stats,
            at.payload_data}}};
}

json answer_trtllm_workspace(Fields& in, const json&) {
  in.ignore({"model"});
  const KernelLimits kernel{.max_top_k = in.get<int>("kMaxTopK")};
  if (in.get<std::string>("dtype") != "bfloat16") throw std::runtime_error("unknown dtype");
  const auto bytes = automatic_bytes(kernel, shape_of(in));
  return bytes ? json{{"out", *bytes}} : json{{"error", bytes.error().message}};
}

json answer_trtllm_workspace_choice(Fields& in, const json&) {
  const auto mb = in.get_or_null<std::string>("TRTLLM_MOE_A2A_WORKSPACE_MB");
  const WorkspaceShape shape = shape_of(in);
  std::optional<std::int64_t> automatic;
  if (shape.hidden_size > 0) automatic = automatic_bytes({}, shape).value();
  const auto bytes = chosen_bytes(mb, automatic);
  return bytes ? json{{"out", *bytes}} : json{{"error", bytes.error().text()}};
}

json answer_trtllm_workspace_dispatch(Fields& in, const json&) {
  in.ignore({"model", "workspace"});
  DispatchRequest request;
  request.shape = shape_of(in);
  request.num_experts = in.get<std::int64_t>("num_experts");
  request.runtime_max_tokens = in.get<std::int64_t>("runtime_max_tokens_per_rank");
  const auto payload = in.get<std::string>("payload");
  request.payloads = payloads_of(payload, request.shape);
  request.combine_bytes = payload == "bf16_hidden_padded_256" ? request.payloads[0] : 2 * request.shape.hidden_size;
  request.workspace_bytes = in.get<std::int64_t>("workspace_bytes");
  const auto placed = place_dispatch({}, request);
  if (!placed) return {{"out", {{"error", placed.error().message}}}};
  json out = {{"combine_payload_offset", placed->combine}, {"payload_offsets", placed->payloads}};
  if (placed->combine_error) out["combine_error"] = placed->combine_error->message;
  return {{"out", out}};
}

}  // namespace a2asim::golden
