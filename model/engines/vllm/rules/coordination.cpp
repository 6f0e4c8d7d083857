#include "model/engines/vllm/rules/coordination.h"

#include <algorithm>

namespace a2asim::vllm {
namespace {

bool is_uniform_decode(const ScheduledRank& rank, std::int64_t width) {
  return rank.is_idle || (rank.max_scheduled_tokens == width && rank.num_tokens == width * rank.num_reqs);
}

// Before #28579: the count is padded to a graph's size, and the graph is looked up once all have agreed.
std::int64_t padded_locally(const StepInputs& in, std::int64_t num_tokens) {
  const std::int64_t padded =
      in.enforce_eager || in.graphs.setting->decode == GraphMode::none ? 0 : in.graphs.padded(num_tokens);
  return padded > 0 ? padded : num_tokens;
}

Result<Dispatched> dispatch_first(const StepInputs& in, const ScheduledRank& rank) {
  if (!in.rules.dispatches_again) return Dispatched{GraphMode::none, padded_locally(in, rank.num_tokens)};
  if (in.enforce_eager) return Dispatched{GraphMode::none, rank.num_tokens};
  return in.rules.dispatch(in.graphs, rank.num_tokens, is_uniform_decode(rank, in.graphs.width),
                           rank.uses_cascade_attention ? all_but(GraphMode::full) : kAnyMode);
}

unsigned allowed_again(const Coordination& rules, const ScheduledRank& rank, GraphMode agreed) {
  if (rules.again_in_agreed_mode_only) return only(agreed);
  const bool full = rules.exchanges_mode ? agreed == GraphMode::full : !rank.uses_cascade_attention;
  return full ? kAnyMode : all_but(GraphMode::full);
}

// A graph of exactly the agreed size, if there is one: nothing is padded any more.
DecidedRank look_up(const StepInputs& in, const ScheduledRank& rank, std::int64_t tokens) {
  const bool own = rank.is_idle && in.rules.idle_replays_its_own;
  const std::int64_t size = own ? rank.num_tokens : tokens;
  if (in.enforce_eager || in.graphs.padded(size) != size) return {GraphMode::none, tokens, std::nullopt};
  const auto found = in.rules.dispatch(in.graphs, size, is_uniform_decode(rank, in.graphs.width), kAnyMode);
  const GraphMode mode = found ? found->mode : GraphMode::none;
  return {mode, mode == GraphMode::none ? tokens : size, std::nullopt};
}

DecidedRank dispatch_again(const StepInputs& in, const ScheduledRank& rank, std::int64_t tokens, GraphMode agreed) {
  DecidedRank out{GraphMode::none, tokens, std::nullopt};
  if (in.enforce_eager) return out;
  const auto again = in.rules.dispatch(in.graphs, tokens, is_uniform_decode(rank, in.graphs.width),
                                       allowed_again(in.rules, rank, agreed));
  if (!again)
    out.raised = again.error();
  else if (again->num_tokens != tokens)
    out.raised = Error{ErrorKind::assertion_error, "batch_descriptor.num_tokens == num_tokens_padded"};
  else
    out.mode = again->mode;
  return out;
}

}  // namespace

Agreement agree(const Coordination& rules, std::span<const Proposal> ranks, std::int64_t microbatches) {
  Agreement out{.microbatches = true, .mode = GraphMode::full};
  std::int64_t least = ranks.front().unpadded;
  for (const Proposal& rank : ranks) {
    out.most = std::max(out.most, rank.padded);
    out.mode = std::min(out.mode, rank.mode);
    out.microbatches &= rank.wants_microbatches;
    out.all_allow_padding &= rank.allows_padding;
    least = std::min(least, rank.unpadded);
  }
  if (!rules.exchanges_mode) out.mode = GraphMode::none;
  out.microbatches &= out.most / microbatches * (microbatches - 1) < least;  // else somebody's last one were empty
  switch (rules.padding) {
    case Padding::never:
      break;
    case Padding::always:
      out.pads = true;
      break;
    case Padding::unless_eager:
    case Padding::unless_setting_none:
      out.pads = out.all_allow_padding || out.microbatches;
      break;
    case Padding::by_agreed_mode:
      out.pads = out.mode != GraphMode::none || out.microbatches;
      break;
  }
  return out;
}

bool asserts_padding(const Coordination& rules, const Agreement& agreed, const Proposal& rank) {
  return rules.padding == Padding::unless_setting_none && rank.allows_padding != agreed.all_allow_padding;
}

Agreement step_v1(std::span<const StepInputs> each, std::span<const ScheduledRank> ranks, std::span<Proposal> proposals,
                  std::span<DecidedRank> decided) {
  const auto of = [&](std::size_t rank) -> const StepInputs& { return each[each.size() == 1 ? 0 : rank]; };
  const Coordination& rules = each.front().rules;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const StepInputs& in = of(i);
    decided[i].raised.reset();
    const Result<Dispatched> first = dispatch_first(in, ranks[i]);
    if (!first) decided[i].raised = first.error();
    const Dispatched own = first ? *first : Dispatched{GraphMode::none, ranks[i].num_tokens};
    const std::int64_t unpadded = rules.counts_padding_as_tokens ? own.num_tokens : ranks[i].num_tokens;
    const bool allows =
        rules.padding == Padding::unless_eager ? !in.enforce_eager : in.graphs.setting->decode != GraphMode::none;
    proposals[i] = {unpadded, own.num_tokens,
                    in.microbatching.wants(unpadded, is_uniform_decode(ranks[i], in.graphs.width)), own.mode, allows};
  }
  const Agreement agreed = agree(rules, proposals, each.front().microbatching.count);
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (!decided[i].raised && asserts_padding(rules, agreed, proposals[i]))
      decided[i].raised = Error{ErrorKind::assertion_error, "should_attempt_dp_padding == should_dp_pad"};
    if (decided[i].raised) continue;
    const std::int64_t tokens = agreed.tokens_of(proposals[i]);
    decided[i] = rules.dispatches_again ? dispatch_again(of(i), ranks[i], tokens, agreed.mode)
                                        : look_up(of(i), ranks[i], tokens);
  }
  return agreed;
}

AgreementV2 step_v2(const RunnerV2& rules, std::span<const Candidates> each, std::span<const ScheduledRankV2> ranks,
                    std::span<Candidate> decided) {
  const auto of = [&](std::size_t rank) -> const Candidates& { return each[each.size() == 1 ? 0 : rank]; };
  AgreementV2 out{false, GraphMode::full};
  std::int64_t most = 0;
  std::optional<std::int64_t> uniform = ranks.front().uniform_token_count;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    const ScheduledRankV2& rank = ranks[i];
    const GraphMode mode = rank.needs_eager
                               ? GraphMode::none
                               : of(i).dispatch(rank.num_reqs, rank.num_tokens, rank.uniform_token_count).mode;
    out.runs |= rank.num_tokens > 0;
    out.mode = std::min(out.mode, mode);
    most = std::max(most, rank.num_tokens);
    if (rank.uniform_token_count != uniform && !rules.first_width_counts) uniform.reset();
  }
  for (std::size_t i = 0; i < ranks.size(); ++i)
    decided[i] = out.runs && out.mode != GraphMode::none
                     ? of(i).dispatch(ranks[i].num_reqs, most, uniform)
                     : Candidate{GraphMode::none, ranks[i].num_tokens, ranks[i].num_reqs, std::nullopt};
  return out;
}

}  // namespace a2asim::vllm
