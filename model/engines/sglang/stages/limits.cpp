#include "model/engines/sglang/stages/stages.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace a2asim::stages {
namespace {

constexpr std::int64_t kLeastDefaultChunk = 2048;  // tokens: of all rows above
constexpr std::int64_t kMostClampedRequests = 4096;

// The draft model. Only EAGLE on the target's own NextN layer is known to have experts: EAGLE3 and other draft models
// are dense as a rule, and NGRAM has none. The last draft step needs no forward, so that one step drafts without any.
void add_draft(const ServerArgs& args, Speculation& out, Said& said) {
  std::string algorithm = out.speculative_algorithm;
  std::ranges::transform(algorithm, algorithm.begin(),
                         [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
  out.drafts = algorithm == "EAGLE" || algorithm == "NEXTN";
  if (!out.drafts) {
    if (args.speculative_moe_a2a_backend)
      said.note(fmt::format("--speculative-moe-a2a-backend {}: the draft model is taken as one without experts, not "
                            "checked",
                            *args.speculative_moe_a2a_backend));
    return;
  }
  out.draft_backend = args.speculative_moe_a2a_backend.value_or(args.moe_a2a_backend);
  out.draft_tokens_per_request = args.speculative_num_steps.value_or(2) > 1 ? out.speculative.eagle_topk : 0;
  out.draft_is_explicit =
      args.speculative_num_steps && args.speculative_eagle_topk && !args.speculative_draft_model_path;
  if (out.draft_backend == args.moe_a2a_backend) return;
  const bool sized_by_ranks = out.draft_backend == "flashinfer";
  said.note(fmt::format("the draft model uses --speculative-moe-a2a-backend {}, the target {}{}", out.draft_backend,
                        args.moe_a2a_backend,
                        sized_by_ranks ? ": the sizes that its ranks compute are not checked" : ""));
}

Limit requests_of(const Started& started, std::int64_t replicas, Said& said) {
  const ServerArgs& args = started.args;
  const auto refuse = [&](std::string fix) {
    said.reject("resolve_max_num_reqs", Error{ErrorKind::assertion_error, "max_running_request is zero"},
                std::move(fix));
  };
  Limit out{kLeastDefaultRequests, false};
  if (args.max_running_requests) {
    std::int64_t bound = *args.max_running_requests / replicas;
    if (started.generation().requests.clamps_explicit_limit) bound = std::min(bound, kMostClampedRequests);
    out = {bound, true};
    if (bound < 1)
      refuse(fmt::format("raise --max-running-requests to {} (now {}; dp_size {} divides it)", replicas,
                         *args.max_running_requests, replicas));
  }
  if (const std::int64_t tokens = args.max_total_tokens.value_or(0); tokens > 0) {
    out.value = std::min(out.value, tokens / 2);
    if (tokens < 2)
      refuse(fmt::format("raise --max-total-tokens from {}: half of it bounds the requests of a rank", tokens));
  }
  return out;
}

// Prefill graphs that are captured through the all-to-all: with is_extend_in_batch off, so that #35758 too takes its
// branch there. Clamped to the chunk.
void add_prefill_graphs(const Started& started, StepLimits& out, Said& said) {
  const ServerArgs& args = started.args;
  const bool sizes_given = args.cuda_graph_max_bs_prefill || args.cuda_graph_bs_prefill;
  if (!args.cuda_graph_backend_prefill && !sizes_given) return;
  if (!started.generation().prefill_graphs_with_flashinfer || prefill_graphs_disabled(args)) return;
  if (!out.prefill_reachable || args.chunked_prefill_size.value_or(0) <= 0) return;
  said.note("prefill graphs are captured, which needs the cap; which batches replay them is not modelled");
  const std::int64_t chunk = out.prefill_tokens.is_explicit ? *args.chunked_prefill_size
                                                            : chunk_of_replica(args, kLeastDefaultChunk);
  std::int64_t largest = args.cuda_graph_max_bs_prefill.value_or(chunk);
  if (args.cuda_graph_bs_prefill && !args.cuda_graph_bs_prefill->empty())
    largest = std::ranges::max(*args.cuda_graph_bs_prefill);
  out.prefill_graph_tokens = {std::min(largest, chunk), args.cuda_graph_backend_prefill == "breakable" && sizes_given};
}

}  // namespace

Speculation speculation_of(const Started& started, Said& said) {
  const ServerArgs& args = started.args;
  Speculation out;
  out.speculates = args.speculative_algorithm.has_value();
  if (out.speculates) {
    out.speculative_algorithm = *args.speculative_algorithm;
    out.width_is_given = args.speculative_num_draft_tokens.has_value();
    out.speculative.num_draft_tokens = std::max<std::int64_t>(args.speculative_num_draft_tokens.value_or(1), 1);
    out.speculative.eagle_topk = std::max<std::int64_t>(args.speculative_eagle_topk.value_or(1), 1);
    out.num_tokens_per_bs = out.speculative.num_draft_tokens;
  }
  add_draft(args, out, said);
  return out;
}

StepLimits limits_of(const Started& started, const Layout& layout, Said& said) {
  const ServerArgs& args = started.args;
  StepLimits out;
  out.requests_per_dp_rank = requests_of(started, layout.topology.attn_dp_size, said);
  out.decode_reachable = args.disaggregation_mode != "prefill";
  out.prefill_reachable = args.disaggregation_mode != "decode";
  out.mixes_prefill_and_decode = args.enable_mixed_chunk;
  // chunked_prefill_size is resolved here: after the handlers, divided by dp_size under DP attention.
  const std::int64_t chunk = args.chunked_prefill_size.value_or(0);
  out.prefill_tokens = {chunk > 0 ? chunk : args.max_prefill_tokens, started.chunk_is_explicit || chunk <= 0};
  add_prefill_graphs(started, out, said);
  return out;
}

}  // namespace a2asim::stages
