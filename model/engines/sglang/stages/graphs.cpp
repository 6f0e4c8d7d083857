#include <fmt/format.h>

#include <algorithm>

#include "model/engines/sglang/questions/asked.h"
#include "model/engines/sglang/stages/stages.h"

namespace a2asim::stages {
namespace {

// The sizes that the command asks for, ascending.
Result<std::vector<std::int64_t>> wished_sizes(const Started& started, bool speculates, Limit& most) {
  const ServerArgs& args = started.args;
  const bool given = args.cuda_graph_bs && !args.cuda_graph_bs->empty();
  std::vector<std::int64_t> sizes;
  if (given) {
    sizes = *args.cuda_graph_bs;
    std::sort(sizes.begin(), sizes.end());
    sizes.erase(std::unique(sizes.begin(), sizes.end()), sizes.end());
    most.value = sizes.back();
  } else {
    ExternalEngine* const outside = engine_of(started.given.rule);
    const bool asks = answers(outside, QuestionKind::capture) && most.value >= 1 && most.value <= kMaxCaptureSize;
    auto generated = asks ? asked::decode_sizes(*outside, most.value, speculates, args.disable_cuda_graph_padding)
                          : started.generation().graphs.decode_capture_sizes(most.value, speculates,
                                                                             args.disable_cuda_graph_padding);
    if (!generated) return generated;
    sizes = std::move(*generated);
  }
  const std::string_view flag = given ? "--cuda-graph-bs" : "--cuda-graph-max-bs";
  if (!sizes.empty() && sizes.front() < 1)
    return fail(ErrorKind::bad_input, fmt::format("{} {}: a batch size must be at least 1", flag, sizes.front()));
  if (!sizes.empty() && sizes.back() > kMaxCaptureSize)
    return fail(ErrorKind::bad_input, fmt::format("{} {}: larger than {}", flag, sizes.back(), kMaxCaptureSize));
  return sizes;
}

}  // namespace

Result<DecodeGraphs> graphs_of(const Started& started, const Layout& layout, const Speculation& speculation,
                               const StepLimits& limits, Said& said) {
  const ServerArgs& args = started.args;
  DecodeGraphs out;
  out.graphs_are_disabled = args.disable_cuda_graph;
  out.graph_max_bs = {args.cuda_graph_max_bs.value_or(started.assumed_graph_max_bs), started.graph_max_bs_is_explicit};
  if (decode_graphs_disabled(args) || !limits.decode_reachable) return out;
  auto sizes = wished_sizes(started, speculation.speculates, out.graph_max_bs);
  if (!sizes) return tl::unexpected(sizes.error());
  const bool whole_pool = started.generation().requests.pool_is_not_divided && args.max_running_requests;
  CaptureFilter filter;
  filter.decode_bs = *sizes;
  filter.req_to_token_pool_size = whole_pool ? *args.max_running_requests : limits.requests_per_dp_rank.value;
  filter.num_tokens_per_bs = speculation.num_tokens_per_bs;
  filter.require_gathered_buffer = layout.knowledge.require_gathered_buffer;
  filter.attn_tp_size = layout.topology.attn_tp_size;
  filter.attn_cp_size = layout.topology.attn_cp_size;
  filter.enable_two_batch_overlap = args.enable_two_batch_overlap;
  if (sizes->empty() || filter.req_to_token_pool_size < 1) return out;
  ExternalEngine* const outside = engine_of(started.given.rule);
  auto captured = answers(outside, QuestionKind::capture) ? asked::batch_sizes(*outside, filter)
                                                          : started.generation().graphs.batch_sizes_to_capture(filter);
  if (!captured && captured.error().kind == ErrorKind::bad_input) return tl::unexpected(captured.error());
  if (captured) {
    out.capture_bs = std::move(*captured);
  } else {
    said.reject("graph capture sizes", captured.error(),
                filter.attn_tp_size <= filter.req_to_token_pool_size
                    ? fmt::format("give --cuda-graph-bs {} (no size now gives tokens that are a multiple of "
                                  "attn_tp_size)",
                                  filter.attn_tp_size)
                    : std::string("give --disable-cuda-graph"));
  }
  return out;
}

}  // namespace a2asim::stages
