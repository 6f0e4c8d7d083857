// server_args.jsonl: command lines through argparse and the two start-up handlers.
#include "model/engines/sglang/start/server_args.h"

#include <type_traits>

#include "model/engines/sglang/start/server_args_start.h"
#include "tests/golden/generation_of_row.h"
#include "tests/golden/table.h"

namespace a2asim::golden {
namespace {

template <class T>
json to_json(const T& value) {
  return value;
}
template <class T>
json to_json(const std::optional<T>& value) {
  return value ? json(*value) : json(nullptr);
}

json field(const ServerArgs& args, std::string_view dest) {
  const ServerArgsField* found = find_server_args_field(dest);
  return std::visit([&](auto member) { return to_json(args.*member); }, found->member);
}

// What the table records of a version's ServerArgs.
std::vector<std::string_view> recorded_fields(const Generation& version) {
  std::vector<std::string_view> fields = {"tp_size",
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
                                          "load_balance_method"};
  const std::vector<std::string_view> january = {"cuda_graph_max_bs", "cuda_graph_bs"};
  const std::vector<std::string_view> later = {
      "cuda_graph_max_bs_decode",   "cuda_graph_bs_decode", "cuda_graph_backend_decode",
      "cuda_graph_backend_prefill", "attn_cp_size",         "moe_dp_size",
      "disable_attn_tp_gather"};
  const auto& more = &version == &generations().front() ? january : later;
  fields.insert(fields.end(), more.begin(), more.end());
  return fields;
}

std::string traceback_line(const Error& error) {
  return std::string(name(error.kind)) + (error.message.empty() ? "" : ": " + error.message);
}

}  // namespace

json answer_server_args(Fields& in, const json&) {
  const auto variant = in.get<std::string>("variant");
  const auto argv = in.get<std::vector<std::string>>("argv");
  const Generation& version = generation_of_row(variant);
  const auto parsed = parse_server_args(version.options, argv, ParseMode::strict);
  if (!parsed) return {{"error", traceback_line(parsed.error())}};

  const auto fields = recorded_fields(version);
  json out = {{"parsed", json::object()}};
  for (const std::string_view dest : fields) out["parsed"][dest] = field(parsed->args, dest);
  if (!parsed->args.chunked_prefill_size) {
    out["handlers"] = "skipped: chunked_prefill_size unset";
    return {{"out", out}};
  }
  const StartOutcome outcome = run_start_handlers(version.start, parsed->args, Environment());
  out["changed"] = json::object();
  for (const std::string_view dest : fields)
    if (field(outcome.args, dest) != field(parsed->args, dest)) out["changed"][dest] = field(outcome.args, dest);
  for (const auto& [variable, value] : outcome.env.values()) out["env"][variable] = value;
  if (outcome.error) out["handler_error"][outcome.error->handler] = traceback_line(outcome.error->error);
  return {{"out", out}};
}

}  // namespace a2asim::golden
