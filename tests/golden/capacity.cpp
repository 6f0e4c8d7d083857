// capacity.jsonl: the constructor of FlashinferDispatcher: cap, bytes per token, workspace.
#include <cstdint>

#include "tests/golden/generation_of_row.h"
#include "tests/golden/table.h"

namespace a2asim::golden {

json answer_capacity(Fields& in, const json&) {
  const Generation& generation = generation_of_row(in.get<std::string>("generation"));
  const auto env = in.get_or_null<std::string>("env");
  const auto algorithm = in.get_or_null<std::string>("speculative_algorithm");
  CapacityInputs inputs;
  if (env) inputs.env = *env;
  if (algorithm) inputs.speculative_algorithm = *algorithm;
  inputs.chunked_prefill_size = in.get_or_null<std::int64_t>("chunked_prefill_size");
  inputs.ep_size = in.get<int>("ep_size");
  inputs.hidden_size = in.get<std::int64_t>("hidden_size");
  inputs.top_k = in.get<std::int64_t>("router_topk");
  if (generation.capacity.sized_for_larger_type) {
    const auto type = parse_dispatch_type(in.get<std::string>("flashinfer_a2a_dispatch_type"));
    if (!type) return {{"error", type.error().message}};
    inputs.dispatch_type = *type;
    inputs.speculative_context = in.get<bool>("speculative_context");
  } else {
    inputs.moe_nvfp4_dispatch = in.get<bool>("SGLANG_MOE_NVFP4_DISPATCH");
  }
  in.ignore({"num_experts"});  // the constructor only passes it on

  const Result<Capacity> answer = capacity(generation.capacity, inputs);
  if (!answer) return {{"error", std::string(name(answer.error().kind)) + ": " + answer.error().message}};
  return {{"out",
           {{"max_num_tokens", answer->max_num_tokens},
            {"total_dispatch_payload_size_per_token", answer->dispatch_bytes_per_token},
            {"combine_payload_size_per_token", answer->combine_bytes_per_token},
            {"workspace_size", answer->formula_bytes},
            {"moe_a2a_workspace_size_per_rank", answer->workspace_bytes_per_rank}}}};
}

}  // namespace a2asim::golden
