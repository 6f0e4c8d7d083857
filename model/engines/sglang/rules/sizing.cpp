#include "model/engines/sglang/rules/sizing.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <limits>

// Rules run millions of times a second and hardly ever fail: the texts of the errors stay out of their way.
#define A2ASIM_COLD [[gnu::cold, gnu::noinline]]

namespace a2asim {
namespace {

using Decision = Result<SizingDecision>;

// Until #22394: an empty rank sends one dummy row.
SizingDecision with_dummy_token(const RankView& view) {
  SizingDecision decision;
  decision.has_dummy_token = view.rows == 0;
  decision.dispatched_rows = decision.has_dummy_token ? 1 : view.rows;
  return decision;
}

SizingDecision without_dummy_token(const RankView& view) {
  SizingDecision decision;
  decision.dispatched_rows = view.rows;
  return decision;
}

void choose(SizingDecision& decision, SizingBranch branch, std::int64_t tokens) {
  decision.branch = branch;
  decision.runtime_max_tokens_per_rank = tokens;
}

// From #25685 on: a list of one entry is only the local count, so it says nothing about the peers.
bool has_global_list(const RankView& view) { return view.dp_global && view.dp_global->size() > 1; }

// The list is not empty. Four maxima at a time, because each one waits for the one before it.
std::int64_t max_of_list(std::span<const std::int64_t> list) {
  std::array<std::int64_t, 4> most;
  most.fill(list.front());
  std::size_t i = 0;
  for (; i + most.size() <= list.size(); i += most.size())
    for (std::size_t lane = 0; lane < most.size(); ++lane) most[lane] = std::max(most[lane], list[i + lane]);
  for (; i < list.size(); ++i) most[0] = std::max(most[0], list[i]);
  return std::max(std::max(most[0], most[1]), std::max(most[2], most[3]));
}

void choose_list_or_rows(SizingDecision& decision, const RankView& view) {
  if (has_global_list(view))
    choose(decision, SizingBranch::max_of_list, max_of_list(*view.dp_global));
  else
    choose(decision, SizingBranch::local_rows, decision.dispatched_rows);
}

// #22669: the dummy row needs a slot even where the list says zero.
void raise_to_dummy_token(SizingDecision& decision) {
  if (decision.has_dummy_token && decision.runtime_max_tokens_per_rank < 1) decision.runtime_max_tokens_per_rank = 1;
}

// #27945 to #22394: list, else the static cap where nobody gathers, else the rows. The predicate is asked last, and
// raises only where it is asked.
Decision list_cap_or_rows(SizingDecision decision, const RankView& view, bool cap_allowed) {
  const bool asks = !has_global_list(view) && view.ep_size > 1 && cap_allowed;
  if (asks && view.require_mlp_tp_gather == GatherPredicate::raises)
    return fail(ErrorKind::assertion_error, "dp_size must be greater than 1");
  if (asks && view.require_mlp_tp_gather == GatherPredicate::no)
    choose(decision, SizingBranch::static_cap, view.max_num_tokens);
  else
    choose_list_or_rows(decision, view);
  raise_to_dummy_token(decision);
  return decision;
}

// #30450: the rows of one rank say nothing about its peers under DP attention.
bool rows_would_differ(const RankView& view) {
  return !has_global_list(view) && view.enable_dp_attention && view.ep_size > 1;
}

A2ASIM_COLD tl::unexpected<Error> not_rank_invariant(const RankView& view) {
  const std::string list = view.dp_global ? fmt::format("[{}]", fmt::join(*view.dp_global, ", ")) : "None";
  return fail(ErrorKind::assertion_error,
              fmt::format("FlashInfer A2A: DP attention reached the x.shape[0] fallback with ep_size={} > 1 "
                          "(dp_global={}); runtime_max_tokens_per_rank would not be rank-invariant.",
                          view.ep_size, list));
}

A2ASIM_COLD tl::unexpected<Error> rows_overflow(const SizingDecision& decision) {
  return fail(ErrorKind::assertion_error,
              fmt::format("runtime_max_tokens_per_rank={} < x.shape[0]={}: MoeAlltoAll recv buffer would overflow.",
                          decision.runtime_max_tokens_per_rank, decision.dispatched_rows));
}

A2ASIM_COLD tl::unexpected<Error> exceeds_workspace(const SizingDecision& decision, std::int64_t max_num_tokens) {
  return fail(ErrorKind::assertion_error,
              fmt::format("FlashInfer A2A runtime token geometry exceeds its fixed workspace: "
                          "runtime_max_tokens_per_rank={} > max_num_tokens={}. Increase "
                          "SGLANG_FLASHINFER_NUM_MAX_DISPATCH_TOKENS_PER_RANK to cover the largest mixed prefill and "
                          "speculative-verify batch.",
                          decision.runtime_max_tokens_per_rank, max_num_tokens));
}

std::int64_t num_allgather_sources(const RankView& view) {
  return view.dp_global ? static_cast<std::int64_t>(view.dp_global->size()) * view.attn_tp_size : view.ep_size;
}

// source < num_allgather_sources(view)
std::int64_t allgather_source_size(const RankView& view, std::int64_t source) {
  if (!view.dp_global) return view.rows;
  const std::int64_t tokens = (*view.dp_global)[static_cast<std::size_t>(source / view.attn_tp_size)];
  return tokens / view.attn_tp_size + (source % view.attn_tp_size < tokens % view.attn_tp_size ? 1 : 0);
}

Decision allgather_prefill(const RankView& view) {
  const std::int64_t sources = num_allgather_sources(view);
  if (sources != view.ep_size)
    return fail(ErrorKind::runtime_error,
                fmt::format("FlashInfer WideEP prefill AG source geometry does not match EP: len(source_sizes)={}, "
                            "ep_size={}.",
                            sources, view.ep_size));
  const std::int64_t own = allgather_source_size(view, view.ep_rank);
  if (own != view.rows)
    return fail(ErrorKind::runtime_error,
                fmt::format("FlashInfer WideEP prefill AG local source geometry mismatch: source_sizes[{}]={} != "
                            "hidden_states.shape[0]={}.",
                            view.ep_rank, own, view.rows));
  SizingDecision decision = without_dummy_token(view);
  choose(decision, SizingBranch::allgather_prefill, 0);
  return decision;
}

}  // namespace

Decision sizing_pr14668(const RankView& view) {
  SizingDecision decision = with_dummy_token(view);
  if (view.dp_global && view.dp_global->empty()) return fail(ErrorKind::value_error, "max() arg is an empty sequence");
  if (view.dp_global)
    choose(decision, SizingBranch::max_of_list, max_of_list(*view.dp_global));
  else
    choose(decision, SizingBranch::local_rows, decision.dispatched_rows);
  return decision;
}

Decision sizing_pr25685(const RankView& view) {
  SizingDecision decision = with_dummy_token(view);
  choose_list_or_rows(decision, view);
  return decision;
}

Decision sizing_pr25907(const RankView& view) {
  SizingDecision decision = with_dummy_token(view);
  choose_list_or_rows(decision, view);
  raise_to_dummy_token(decision);
  return decision;
}

Decision sizing_pr27945(const RankView& view) { return list_cap_or_rows(with_dummy_token(view), view, true); }

Decision sizing_pr29461(const RankView& view) { return list_cap_or_rows(with_dummy_token(view), view, !view.capture); }

Decision sizing_pr22394(const RankView& view) {
  return list_cap_or_rows(without_dummy_token(view), view, !view.capture);
}

Decision sizing_pr30450(const RankView& view) {
  SizingDecision decision = without_dummy_token(view);
  if (rows_would_differ(view)) return not_rank_invariant(view);
  choose_list_or_rows(decision, view);
  if (decision.runtime_max_tokens_per_rank < decision.dispatched_rows) return rows_overflow(decision);
  return decision;
}

Decision sizing_pr35758(const RankView& view) {
  if (view.extend) return allgather_prefill(view);
  SizingDecision decision = without_dummy_token(view);
  if (rows_would_differ(view)) return not_rank_invariant(view);
  choose_list_or_rows(decision, view);
  if (decision.branch == SizingBranch::max_of_list) {
    const std::int64_t tokens = decision.runtime_max_tokens_per_rank;
    choose(decision, SizingBranch::max_of_list_scatter,
           tokens / view.attn_tp_size + (tokens % view.attn_tp_size != 0 ? 1 : 0));
  }
  if (decision.runtime_max_tokens_per_rank > view.max_num_tokens)
    return exceeds_workspace(decision, view.max_num_tokens);
  if (decision.runtime_max_tokens_per_rank < decision.dispatched_rows) return rows_overflow(decision);
  return decision;
}

Decision size_by_own_rule(const SizingRule& rule, Result<SizingDecision> (*built_in)(const RankView&),
                          const RankView& view) {
  Decision own = rule(view);
  if (!own) return own;
  // The built-in rule, told that R is the gathered maximum, adds what this version does beside choosing R.
  const std::int64_t r = own->runtime_max_tokens_per_rank;
  const std::array<std::int64_t, 2> gathered = {r, r};
  const RankView around{
      .dp_global = gathered, .rows = view.rows, .max_num_tokens = std::numeric_limits<std::int64_t>::max()};
  Decision decision = built_in(around);
  if (decision) choose(*decision, SizingBranch::external, r);
  return decision;
}

std::vector<std::int64_t> allgather_source_sizes(const RankView& view) {
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(num_allgather_sources(view)));
  for (std::size_t source = 0; source < sizes.size(); ++source)
    sizes[source] = allgather_source_size(view, static_cast<std::int64_t>(source));
  return sizes;
}

std::optional<std::int64_t> invalid_token_expert_id(SanitizeRule rule, std::string_view moe_runner_backend,
                                                    std::int64_t num_experts) {
  const bool routed = moe_runner_backend == "flashinfer_trtllm_routed";
  const bool native = routed || moe_runner_backend == "flashinfer_trtllm" || moe_runner_backend == "deep_gemm";
  switch (rule) {
    case SanitizeRule::none:
      return std::nullopt;
    case SanitizeRule::minus_one:
      return -1;
    case SanitizeRule::num_experts:
      return num_experts;
    case SanitizeRule::minus_one_if_routed:
      return routed ? -1 : num_experts;
    case SanitizeRule::minus_one_if_native:
      return native ? -1 : num_experts;
  }
  return std::nullopt;
}

}  // namespace a2asim
