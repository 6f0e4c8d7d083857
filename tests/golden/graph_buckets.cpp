#include "model/engines/sglang/rules/graph_buckets.h"

#include "tests/golden/table.h"
#include "tests/golden/variant.h"

namespace a2asim::golden {
namespace {

using Sizes = std::vector<std::int64_t>;

std::string text(const Error& error) { return std::string(name(error.kind)) + ": " + error.message; }

json sizes_or_error(const Result<Sizes>& sizes) {
  if (sizes) return {{"out", *sizes}};
  return {{"error", text(sizes.error())}};
}

json capture(const GraphRules& rules, Fields& in) {
  const auto decode_bs = in.get<Sizes>("decode_bs");
  return sizes_or_error(rules.batch_sizes_to_capture({
      .decode_bs = decode_bs,
      .req_to_token_pool_size = in.get<std::int64_t>("req_to_token_pool_size"),
      .num_tokens_per_bs = in.get<std::int64_t>("num_tokens_per_bs"),
      .require_gathered_buffer = in.get<bool>("require_gathered_buffer"),
      .attn_tp_size = in.get<std::int64_t>("attn_tp_size"),
      .attn_cp_size = in.get<std::int64_t>("attn_cp_size"),
      .enable_two_batch_overlap = in.get<bool>("enable_two_batch_overlap"),
  }));
}

json replay(const GraphRules& rules, Fields& in) {
  const auto capture_bs = in.get<Sizes>("capture_bs");
  const auto tokens = in.get_or_null<Sizes>("global_num_tokens_cpu");
  const auto requests = in.get_or_null<Sizes>("original_global_num_tokens_cpu");
  const auto algorithm = in.get_or_null<std::string>("speculative_algorithm").value_or("");
  ReplayInputs inputs{.capture_bs = capture_bs,
                      .require_mlp_tp_gather = in.get<bool>("require_mlp_tp_gather"),
                      .batch_size = in.get<std::int64_t>("batch_size"),
                      .num_tokens_per_bs = in.get<std::int64_t>("num_tokens_per_bs"),
                      .divides_by_width = divides_by_width(algorithm),
                      .require_mlp_sync = in.get<bool>("require_mlp_sync"),
                      .can_run_dp_cuda_graph = in.get<bool>("can_run_dp_cuda_graph")};
  if (tokens) inputs.global_num_tokens = *tokens;
  if (requests) inputs.original_global_num_tokens = *requests;
  const ReplayDecision decision = rules.replay_bucket(inputs);
  if (decision.raised) return {{"error", name(*decision.raised)}};
  json out = {{"cuda_graph_bs", decision.cuda_graph_bs}, {"can_run", decision.can_run}};
  if (decision.bs)
    out["bs"] = *decision.bs;
  else
    out["bs_error"] = text(rules.replay_above_largest(inputs, decision));
  return {{"out", out}};
}

}  // namespace

json answer_graph_buckets(Fields& in, const json&) {
  const auto rules = by_variant<GraphRules>(in.get<std::string>("variant"), {{"jan2026", kGraphRulesPr14668},
                                                                             {"june2026", kGraphRulesPr27945},
                                                                             {"pr30450", kGraphRulesPr30450},
                                                                             {"main2026", kGraphRulesMain20260823}});
  const auto fn = in.get<std::string>("fn");
  if (fn == "replay_bucket") return replay(rules, in);
  if (fn == "get_batch_sizes_to_capture") return capture(rules, in);
  const auto max_bs = in.get<std::int64_t>("max_bs");
  if (fn == "_generate_piecewise_cuda_graph_tokens" || fn == "_generate_prefill_cuda_graph_batch_sizes")
    return sizes_or_error(rules.prefill_capture_sizes(max_bs));
  if (fn != "_generate_cuda_graph_batch_sizes" && fn != "_generate_decode_cuda_graph_batch_sizes")
    throw std::runtime_error("unknown fn " + fn);
  const bool speculative = in.get_or_null<std::string>("speculative_algorithm").has_value();
  return sizes_or_error(rules.decode_capture_sizes(max_bs, speculative, in.get<bool>("disable_cuda_graph_padding")));
}

}  // namespace a2asim::golden
