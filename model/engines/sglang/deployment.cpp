#include "model/engines/sglang/deployment.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/base/clamped_math.h"
#include "model/engines/sglang/cap_variable.h"
#include "model/engines/sglang/questions/asked.h"
#include "model/engines/sglang/stages/stages.h"

namespace a2asim {
namespace {

using stages::Said;

constexpr std::int64_t kMaxWorld = 4096;  // ranks; no deployment has more, and everything below stays far from overflow

Result<CaptureTokenList> capture_list(const SglangPart& part, const Deployment& deployment, std::int64_t bs) {
  const std::int64_t replicas = deployment.topology.attn_dp_size, width = deployment.num_tokens_per_bs;
  if (ExternalEngine* const outside = engine_of(part.given.rule); answers(outside, QuestionKind::capture))
    return asked::token_list(*outside, part.require_mlp_tp_gather, part.require_attn_tp_gather, replicas, bs, width);
  const auto list_of = part.generation().graphs.capture_token_list;
  return list_of(part.require_mlp_tp_gather, part.require_attn_tp_gather, replicas, bs, width);
}

// Runs the rule for every bucket as SGLang does at capture: is_extend forced off, the same list on every rank.
Result<void> capture_graphs(const SglangPart& part, Deployment& out, Said& said) {
  // Built-in rules do not look at ep_rank: one answer serves all ranks.
  const std::size_t ep_ranks = out.rule ? static_cast<std::size_t>(out.topology.tp_size) : 1;
  std::vector<std::int64_t> list;
  for (const std::int64_t bs : out.capture_bs) {
    const Result<CaptureTokenList> listed = capture_list(part, out, bs);
    if (!listed) return tl::unexpected(listed.error());
    const CaptureTokenList& tokens = *listed;
    list.assign(static_cast<std::size_t>(tokens.entries), tokens.num_tokens);
    std::vector<SizingDecision> baked;
    for (std::size_t rank = 0; rank < ep_ranks; ++rank) {
      RankView view = base_view(part, out, static_cast<int>(rank));
      view.capture = true;
      view.rows = tokens.num_tokens / out.topology.attn_tp_size;
      if (tokens.dispatch_sees_it && tokens.entries > 0) view.dp_global = std::span<const std::int64_t>(list);
      Result<SizingDecision> sized = size(part, out.rule, view);
      if (!sized) {  // a cap assertion shows as R above the cap; anything else stops the start
        view.max_num_tokens = std::numeric_limits<std::int64_t>::max();
        Error error = sized.error();
        if (!out.rule) sized = size(part, out.rule, view);  // a user's own is asked with nothing made up
        if (!sized) {
          said.reject("graph capture", std::move(error), "see the assertion's own text");
          out.capture_bs.clear();
          out.baked.clear();
          return {};
        }
      }
      baked.push_back(*sized);
    }
    out.baked.push_back(std::move(baked));
  }
  return {};
}

LeftoverList leftover_list(const SglangPart& part, const Deployment& deployment) {
  if (deployment.capture_bs.empty())
    return part.generation().list_unassigned_before_capture ? LeftoverList::unassigned : LeftoverList::none;
  const Result<CaptureTokenList> tokens = capture_list(part, deployment, deployment.capture_bs.front());
  return tokens && tokens->dispatch_sees_it && tokens->entries > 0 ? LeftoverList::captured : LeftoverList::none;
}

void check_cutedsl(const Started& started, const Deployment& out, Said& said) {
  const ServerArgs& args = started.args;
  const bool decode_graphs = !decode_graphs_disabled(args) && out.graph_max_bs.is_explicit;
  const std::int64_t decode_graph_tokens =
      decode_graphs ? out.graph_max_bs.value * std::max<std::int64_t>(args.speculative_num_draft_tokens.value_or(1), 1)
                    : 0;
  const std::int64_t prefill_graph_tokens = out.prefill_graph_tokens.is_explicit ? out.prefill_graph_tokens.value : 0;
  const auto error = check_cutedsl_token_budget(started.generation().start, args, started.env, decode_graph_tokens,
                                                prefill_graph_tokens);
  if (!error) return;
  const std::int64_t largest = std::max({args.max_prefill_tokens, decode_graph_tokens, prefill_graph_tokens});
  said.reject("_validate_cutedsl_a2a_token_budget", *error,
              fmt::format("set {} to {} (times ep_size {} it must cover the largest forward)", kCapVariable,
                          ceil_div(largest, out.topology.ep_size), out.topology.ep_size));
}

}  // namespace

GatherInputs gather_inputs(const Started& started) {
  const ServerArgs& args = started.args;
  return GatherInputs{.enable_dp_attention = args.enable_dp_attention,
                      .dp_size = args.dp_size,
                      .tp_size = args.tp_size,
                      .moe_dense_tp_size = args.moe_dense_tp_size,
                      .enable_dp_lm_head = args.enable_dp_lm_head,
                      .moe_a2a_backend = args.moe_a2a_backend,
                      .disable_attn_tp_gather = args.disable_attn_tp_gather,
                      .mori_recv_bound = started.env.get_bool("SGLANG_MORI_RECV_BOUND", false)};
}

Result<SizingDecision> size(const SglangPart& part, const SizingRule& rule, const RankView& view) {
  const auto built_in = part.generation().sizing;
  if (!rule) return built_in(view);
  if (ExternalEngine* const outside = engine_of(rule)) {
    const Result<SizedOutside> sized = ask_size(*outside, view);
    if (!sized) return tl::unexpected(sized.error());
    if (sized->is_complete) return sized->decision;
    const auto only_r = [&](const RankView&) -> Result<SizingDecision> { return sized->decision; };
    return size_by_own_rule(only_r, built_in, view);
  }
  return size_by_own_rule(rule, built_in, view);
}

RankView base_view(const SglangPart& part, const Deployment& deployment, int ep_rank) {
  RankView view;
  view.ep_size = static_cast<int>(deployment.topology.ep_size);
  view.ep_rank = ep_rank;
  view.require_mlp_tp_gather = part.gather_row == GatherRow::dp_size_is_1 ? GatherPredicate::raises
                               : part.require_mlp_tp_gather               ? GatherPredicate::yes
                                                                          : GatherPredicate::no;
  view.enable_dp_attention = part.args.enable_dp_attention;
  view.attn_tp_size = static_cast<int>(deployment.topology.attn_tp_size);
  view.max_num_tokens = deployment.max_num_tokens;
  return view;
}

Result<std::unique_ptr<Deployment>> resolve_deployment(const DeploymentInputs& inputs) {
  const ServerArgs& given = inputs.args;
  for (const auto& [flag, value] :
       {std::pair{"--tp-size", given.tp_size}, std::pair{"--dp-size", given.dp_size},
        std::pair{"--ep-size", given.ep_size}, std::pair{"--attn-cp-size", given.attn_cp_size}})
    if (value < 1 || value > kMaxWorld)
      return fail(ErrorKind::bad_input, fmt::format("{} {}: must be between 1 and {}", flag, value, kMaxWorld));

  Said said;
  Result<Started> begun = stages::start(inputs, said);
  if (!begun) return tl::unexpected(begun.error());
  Started& started = *begun;
  const Result<stages::Layout> laid_out = stages::layout_of(started, said);
  if (!laid_out) return tl::unexpected(laid_out.error());
  const stages::Layout& layout = *laid_out;
  Speculation speculation = stages::speculation_of(started, said);
  StepLimits limits = stages::limits_of(started, layout, said);
  Result<DecodeGraphs> graphs = stages::graphs_of(started, layout, speculation, limits, said);
  if (!graphs) return tl::unexpected(graphs.error());
  Result<AllToAllSetup> alltoall = stages::alltoall_of(started, layout);
  if (!alltoall) return tl::unexpected(alltoall.error());

  auto out = std::make_unique<Deployment>(
      Deployment{std::move(speculation), std::move(limits), std::move(*graphs), std::move(*alltoall), inputs.generation,
                 layout.topology, inputs.model, inputs.rule, {}, {}, nullptr});
  if (ExternalEngine* const outside = engine_of(inputs.rule); outside && !outside->answers(QuestionKind::sizing))
    out->rule = {};  // then the version's own
  const auto part = std::make_shared<SglangPart>(std::move(started), layout.knowledge);
  if (out->uses_flashinfer) {
    check_cutedsl(*part, *out, said);
    if (auto captured = capture_graphs(*part, *out, said); !captured) return tl::unexpected(captured.error());
    part->leftover = leftover_list(*part, *out);
    if (out->launch_error && !out->capture_bs.empty())
      said.reject("graph capture", out->launch_error->error, out->launch_error->fix);
  }
  out->part = part;
  out->rejections = std::move(said.rejections);
  out->notes = std::move(said.notes);
  return out;
}

}  // namespace a2asim
