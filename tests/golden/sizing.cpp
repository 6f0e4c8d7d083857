// sizing.jsonl: the whole FlashinferDispatcher, one forward: rule, then FlashInfer's checks, then what is dispatched.
#include <cstdint>
#include <numeric>
#include <vector>

#include "tests/golden/generation_of_row.h"
#include "tests/golden/table.h"

namespace a2asim::golden {
namespace {

constexpr std::int64_t kHiddenSize = 7168;  // fixed in all rows
constexpr int kTopK = 8;
constexpr std::int64_t kNumExperts = 256;

std::string in_words(const Error& error) { return std::string(name(error.kind)) + ": " + error.message; }

// As the dispatcher asks it from pr27945 to pr22394; the rows fix the backend to flashinfer.
GatherPredicate gather_predicate(const Generation& generation, Fields& in) {
  GatherInputs inputs;
  inputs.enable_dp_attention = in.get<bool>("enable_dp_attention");
  inputs.dp_size = in.get<std::int64_t>("dp_size");
  inputs.tp_size = in.get<std::int64_t>("tp_size");
  inputs.moe_dense_tp_size = in.get_or_null<std::int64_t>("moe_dense_tp_size");
  inputs.enable_dp_lm_head = in.get<bool>("enable_dp_lm_head");
  inputs.moe_a2a_backend = "flashinfer";
  const Result<bool> gathers = require_mlp_tp_gather(generation.gather, inputs);
  if (!gathers) return GatherPredicate::raises;
  return *gathers ? GatherPredicate::yes : GatherPredicate::no;
}

Result<Capacity> capacity_of(const Generation& generation, Fields& in) {
  std::optional<std::string> env;
  if (const auto value = in.get_or_null<std::int64_t>("env")) env = std::to_string(*value);
  CapacityInputs inputs;
  if (env) inputs.env = *env;
  inputs.chunked_prefill_size = in.get_or_null<std::int64_t>("chunked_prefill_size");
  inputs.ep_size = in.get<int>("ep_size");
  inputs.hidden_size = kHiddenSize;
  inputs.top_k = kTopK;
  return capacity(generation.capacity, inputs);
}

Result<void> flashinfer_checks(const Generation& generation, const RankView& view, const Capacity& cap,
                               const SizingDecision& decision) {
  constexpr Payload kPayloads[] = {{kHiddenSize, 2}, {kTopK, 4}, {kTopK, 4}};
  DispatchCall call;
  call.ep_size = view.ep_size;
  call.ep_rank = view.ep_rank;
  call.runtime_max_tokens_per_rank = decision.runtime_max_tokens_per_rank;
  call.max_num_tokens = cap.max_num_tokens;
  call.workspace_bytes_per_rank = cap.workspace_bytes_per_rank;
  call.top_k = kTopK;
  call.num_experts = kNumExperts;
  call.payloads = kPayloads;
  return check_flashinfer_dispatch(limits(generation.capacity.flashinfer), call);
}

// Whether the dispatcher has the attribute at all, which is when the rows report it.
bool has_dummy_token_attribute(const Generation& generation) {
  RankView empty_rank;
  const auto decision = generation.sizing(empty_rank);
  return decision && decision->has_dummy_token;
}

json answer_dispatch(const Generation& generation, const RankView& view, const Capacity& cap,
                     const SizingDecision& decision, std::string_view moe_runner_backend) {
  json out{{"max_num_tokens", cap.max_num_tokens}};
  if (decision.branch == SizingBranch::allgather_prefill) {
    const std::vector<std::int64_t> sizes = allgather_source_sizes(view);
    out["path"] = "allgather_prefill";
    out["source_sizes"] = sizes;
    out["gathered_rows"] = std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
    return out;
  }
  out["runtime_max_tokens_per_rank"] = decision.runtime_max_tokens_per_rank;
  if (has_dummy_token_attribute(generation)) out["has_dummy_token"] = decision.has_dummy_token;
  if (const auto accepted = flashinfer_checks(generation, view, cap, decision); !accepted) {
    out["flashinfer_error"] = in_words(accepted.error());
    return out;
  }
  const auto invalid_id = invalid_token_expert_id(generation.sanitize, moe_runner_backend, kNumExperts);
  out["dispatched_rows"] = decision.dispatched_rows;
  out["recv_rows"] = view.ep_size * decision.runtime_max_tokens_per_rank;
  out["invalid_token_expert_id"] = invalid_id ? json(*invalid_id) : json(nullptr);
  out["combined_rows"] = view.rows;
  return out;
}

}  // namespace

json answer_sizing(Fields& in, const json&) {
  const Generation& generation = generation_of_row(in.get<std::string>("generation"));
  const auto dp_global = in.get_or_null<std::vector<std::int64_t>>("dp_global");
  RankView view;
  view.ep_size = in.get<int>("ep_size");
  view.ep_rank = in.get<int>("ep_rank");
  if (dp_global) view.dp_global = *dp_global;
  view.rows = in.get<std::int64_t>("x0");
  view.capture = in.get<bool>("capture");
  view.extend = in.get<bool>("extend");
  view.require_mlp_tp_gather = gather_predicate(generation, in);
  view.enable_dp_attention = in.get<bool>("enable_dp_attention");
  view.attn_tp_size = in.get<int>("attn_tp_size");
  const auto moe_runner_backend = in.get<std::string>("moe_runner_backend");

  const Result<Capacity> cap = capacity_of(generation, in);
  if (!cap) return {{"error", in_words(cap.error())}};
  view.max_num_tokens = cap->max_num_tokens;
  const Result<SizingDecision> decision = generation.sizing(view);
  if (!decision) return {{"error", in_words(decision.error())}};
  return {{"out", answer_dispatch(generation, view, *cap, *decision, moe_runner_backend)}};
}

// Stricter than the usual comparison: the texts are SGLang's own, so which of its checks fired must agree too.
std::optional<std::string> mismatch_sizing(const json& ours, const json& row) {
  if (row.contains("error") && ours.contains("error") && ours["error"] != row["error"])
    return "error: ours " + ours["error"].dump() + ", the row " + row["error"].dump();
  return mismatch_exact(ours, row);
}

}  // namespace a2asim::golden
