#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "tools/plan/plan_formats.h"
#include "tools/program/json_document.h"

namespace a2asim {
namespace {

using Json = nlohmann::ordered_json;

Json traffic(const PlanTraffic& at) {
  return {{"sent_remote_bytes", at.sent_remote_bytes},
          {"received_remote_bytes", at.received_remote_bytes},
          {"local_bytes", at.local_bytes}};
}

Json routing(const PlanRouting& at, bool with_time) {
  Json out = {{"dispatch", traffic(at.dispatch)}, {"combine", traffic(at.combine)}, {"least_time_us", nullptr}};
  if (with_time)
    out["least_time_us"] = {
        {"dispatch", at.dispatch_us}, {"combine", at.combine_us}, {"together", at.dispatch_us + at.combine_us}};
  return out;
}

Json rule(const PlanRule& at) {
  Json out = {{"path", name(at.path)},
              {"own_count_only", at.own_count_only},
              {"generations", at.generations},
              {"chosen", at.is_chosen},
              {"rule", at.rule},
              {"runtime_max_tokens_per_rank", or_null(at.runtime_max_tokens)},
              {"computed_slots", nullptr},
              {"needed_slots", nullptr},
              {"wasted_slots", nullptr},
              {"refused", at.refused.empty() ? Json() : Json(at.refused)},
              {"all_ranks_agree", at.agrees}};
  if (at.runtime_max_tokens) {
    out["computed_slots"] = at.computed_slots;
    out["needed_slots"] = at.needed_slots;
    out["wasted_slots"] = at.wasted_slots();
  }
  return out;
}

Json point(const PlanPoint& at, bool with_time) {
  Json regions = Json::array(), rules = Json::array(), headroom = Json::array();
  for (const PlanRegion& one : at.regions)
    regions.push_back({{"name", one.name}, {"offset_bytes", one.offset_bytes}, {"size_bytes", one.size_bytes}});
  for (const PlanRule& one : at.rules) rules.push_back(rule(one));
  for (const PlanHeadroom& one : at.headroom)
    headroom.push_back({{"gpu", one.gpu},
                        {"memory_mib", one.memory_mib},
                        {"left_bytes", one.left_bytes},
                        {"fits", one.left_bytes >= 0}});
  return {{"ep_size", at.ep_size},
          {"tokens_per_rank", at.tokens},
          {"rows_per_rank", at.rows_per_rank},
          {"launch", at.launch},
          {"can_run", name(can_run(at))},
          {"backend", at.backend},
          {"capacity",
           {{"max_num_tokens",
             at.regions.empty() && at.capacity.max_num_tokens == 0 ? Json() : Json(at.capacity.max_num_tokens)},
            {"workspace_bytes_per_rank", at.workspace_known ? Json(at.capacity.workspace_bytes_per_rank) : Json()},
            {"source", at.capacity_source},
            {"dispatch_bytes_per_token", at.capacity.dispatch_bytes_per_token},
            {"combine_bytes_per_token", at.capacity.combine_bytes_per_token}}},
          {"workspace", std::move(regions)},
          {"traffic",
           {{"expected_copies_per_token", at.expected_copies},
            {"expected", routing(at.expected, with_time)},
            {"worst", routing(at.worst, with_time)}}},
          {"slots", std::move(rules)},
          {"headroom", std::move(headroom)},
          {"problems", at.problems},
          {"notes", at.notes}};
}

}  // namespace

std::string plan_as_json(const Plan& plan) {
  const PlanInputs& in = plan.inputs;
  Json points = Json::array();
  for (const PlanPoint& one : plan.points) points.push_back(point(one, in.link_gbps.has_value()));
  return print(
      Json{{"tool", tool_as_json()},
           {"command", "plan"},
           {"engine", engine_of(*in.generation).name},
           {"generation", in.generation->name},
           {"flashinfer", engine_of(*in.generation).flashinfer(*in.generation).tag},
           {"model",
            {{"num_experts", in.model.num_experts}, {"top_k", in.model.top_k}, {"hidden_size", in.model.hidden_size}}},
           {"dispatch_dtype", name(in.dispatch_type)},
           {"combine_dtype", name(in.combine_type)},
           {"payload_bytes_per_token", payload_bytes_per_token(in.dispatch_type, in.model.hidden_size, in.model.top_k)},
           {"attn_tp_size", in.attn_tp_size},
           {"layers", in.layers},
           {"link_bytes_per_second", in.link_gbps ? Json(*in.link_gbps * 1e9 / 8) : Json()},
           {"gpu_memory_source", in.gpu_memory_gib ? "--gpu-memory" : kGpuMemorySource},
           {"points", std::move(points)}});
}

}  // namespace a2asim
