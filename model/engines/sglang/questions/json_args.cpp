#include "model/engines/sglang/questions/json_args.h"

#include <nlohmann/json.hpp>

namespace a2asim {
namespace {

using Json = nlohmann::json;

constexpr std::string_view kJsonFields[] = {"tp_size",
                                            "dp_size",
                                            "ep_size",
                                            "pp_size",
                                            "nnodes",
                                            "node_rank",
                                            "enable_dp_attention",
                                            "enable_dp_lm_head",
                                            "moe_dense_tp_size",
                                            "moe_a2a_backend",
                                            "moe_runner_backend",
                                            "chunked_prefill_size",
                                            "max_running_requests",
                                            "deepep_mode",
                                            "speculative_algorithm",
                                            "speculative_num_steps",
                                            "speculative_eagle_topk",
                                            "speculative_num_draft_tokens",
                                            "disable_cuda_graph",
                                            "max_prefill_tokens",
                                            "ep_num_redundant_experts",
                                            "disaggregation_mode",
                                            "mem_fraction_static",
                                            "quantization",
                                            "schedule_conservativeness",
                                            "disable_shared_experts_fusion",
                                            "load_balance_method",
                                            "cuda_graph_max_bs",
                                            "cuda_graph_bs"};

template <class T>
Json to_json(const T& value) {
  return value;
}
template <class T>
Json to_json(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

template <class T>
bool read(const Json& value, T& to) {
  if constexpr (std::is_same_v<T, bool>) {
    if (!value.is_boolean()) return false;
  } else if constexpr (std::is_same_v<T, std::string>) {
    if (!value.is_string()) return false;
  } else if constexpr (std::is_same_v<T, double>) {
    if (!value.is_number()) return false;
  } else if constexpr (std::is_same_v<T, std::int64_t>) {
    if (!value.is_number_integer()) return false;
  } else {
    if (!value.is_array()) return false;
    for (const Json& entry : value)
      if (!entry.is_number_integer()) return false;
  }
  to = value.get<T>();
  return true;
}
template <class T>
bool read(const Json& value, std::optional<T>& to) {
  if (value.is_null()) {
    to.reset();
    return true;
  }
  T inner{};
  if (!read(value, inner)) return false;
  to = std::move(inner);
  return true;
}

}  // namespace

std::span<const std::string_view> answered_fields() { return kJsonFields; }

Json json_of(const ServerArgs& args) {
  Json out = Json::object();
  for (const std::string_view name : kJsonFields) {
    const ServerArgsField* field = find_server_args_field(name);
    if (field == nullptr) continue;
    out[name] = std::visit([&](auto member) { return to_json(args.*member); }, field->member);
  }
  return out;
}

bool set_field(ServerArgs& args, std::string_view name, const Json& value) {
  const ServerArgsField* field = find_server_args_field(name);
  if (field == nullptr) return false;
  return std::visit([&](auto member) { return read(value, args.*member); }, field->member);
}

std::string text_of(const Error& error) {
  return std::string(name(error.kind)) + (error.message.empty() ? "" : ": " + error.message);
}

}  // namespace a2asim
