#include "model/check/check_explain.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <span>

#include "model/check/capacity_fix.h"
#include "model/check/checked_engine.h"
#include "model/check/finding_info.h"
#include "model/step/external_engine.h"

namespace a2asim {
namespace {

std::string_view on_hardware(FindingKind kind, Situation situation = Situation::always) {
  return finding_info(kind).on_hardware(situation);
}

std::string_view unit(Phase phase) { return phase == Phase::prefill ? "tokens" : "requests"; }

std::string counts_text(const TroubledBatch& batch) {
  std::vector<std::string> words;
  for (const RankBatch& rank : batch.batches) words.push_back(fmt::format("{}", rank.count));
  return fold_ranks(words);
}

std::string r_text(const TroubledBatch& batch) {
  std::vector<std::string> words;
  for (const RankDecision& rank : batch.decisions) {
    if (rank.raised && !rank.exceeds_cap)
      words.push_back(std::string(name(rank.raised->kind)));
    else
      words.push_back(fmt::format("{}", rank.sizing.runtime_max_tokens_per_rank));
  }
  return fold_ranks(words);
}

std::string rank_line(const TroubledBatch& batch, std::size_t rank) {
  const RankDecision& decision = batch.decisions[rank];
  const std::int64_t count = batch.batches[rank].count;
  std::string_view what = unit(batch.phase);
  if (count == 1) what.remove_suffix(1);  // the s
  const std::string where = fmt::format("DP rank {}: {} {}", rank, count, what);
  if (decision.raised && !decision.exceeds_cap)
    return fmt::format("{} -> raises {}: {}", where, name(decision.raised->kind), decision.raised->message);
  const std::string_view branch = decision.sizing.branch == SizingBranch::static_cap ? "the static cap max_num_tokens"
                                                                                     : text(decision.sizing.branch);
  if (decision.replay)
    return fmt::format("{} -> replays bucket {} (baked at capture: {}) -> R = {}", where, decision.bucket, branch,
                       decision.sizing.runtime_max_tokens_per_rank);
  const std::string dummy = decision.sizing.has_dummy_token ? ", a dummy row" : "";
  return fmt::format("{} -> eager, {} rows{}; {} -> R = {}", where, decision.rows, dummy, branch,
                     decision.sizing.runtime_max_tokens_per_rank);
}

using Outcome = std::pair<std::int64_t, bool>;  // R, and whether the rank raised
Outcome outcome_of(const RankDecision& decision) {
  return {decision.sizing.runtime_max_tokens_per_rank, decision.raised.has_value()};
}

// " (same on ranks 2 and 5)": those behind this one with its outcome.
std::string alike_text(const TroubledBatch& batch, std::size_t rank) {
  std::vector<std::size_t> alike;
  for (std::size_t other = rank + 1; other < batch.decisions.size(); ++other)
    if (outcome_of(batch.decisions[other]) == outcome_of(batch.decisions[rank])) alike.push_back(other);
  if (alike.empty()) return "";
  if (alike.size() == 1) return fmt::format(" (same on rank {})", alike[0]);
  if (alike.size() == 2) return fmt::format(" (same on ranks {} and {})", alike[0], alike[1]);
  const bool in_a_row = alike.back() - alike.front() + 1 == alike.size();
  return in_a_row ? fmt::format(" (same on ranks {} to {})", alike.front(), alike.back())
                  : fmt::format(" (same on {} other ranks)", alike.size());
}

// One line for each distinct outcome, the first rank that has it; what is cut is counted.
void add_rank_lines(const TroubledBatch& batch, std::vector<std::string>& chain) {
  constexpr std::size_t kOutcomes = 4;
  std::vector<Outcome> seen;
  std::vector<std::int64_t> others;  // R of ranks whose outcome has no line
  for (std::size_t rank = 0; rank < batch.decisions.size(); ++rank) {
    const Outcome outcome = outcome_of(batch.decisions[rank]);
    if (std::find(seen.begin(), seen.end(), outcome) != seen.end()) continue;
    if (seen.size() == kOutcomes) {
      others.push_back(outcome.first);
      continue;
    }
    seen.push_back(outcome);
    chain.push_back(rank_line(batch, rank) + alike_text(batch, rank));
  }
  if (others.empty()) return;
  const auto [least, most] = std::minmax_element(others.begin(), others.end());
  chain.push_back(fmt::format("{} more DP {} other R, {}", others.size(),
                              others.size() == 1 ? "rank uses" : "ranks use",
                              *least == *most ? std::to_string(*least) : fmt::format("from {} to {}", *least, *most)));
}

bool any_replay(const TroubledBatch& batch) {
  return std::any_of(batch.decisions.begin(), batch.decisions.end(), [](const RankDecision& d) { return d.replay; });
}

Advice fix_cap_variable(const Deployment& deployment, std::int64_t needed_tokens) {
  const CapVariable cap = checked_engine(deployment).cap(deployment);
  if (cap.tokens > deployment.max_num_tokens)  // something else limits
    return fmt::format("{} does not help: {}", cap.name, deployment.max_num_tokens_source);
  const CapacityFix raise{{raise_cap_variable(deployment, needed_tokens)}};
  return advice(std::span(&raise, 1));
}

bool capture_exceeds_cap(const Deployment& deployment) {
  return std::any_of(deployment.baked.begin(), deployment.baked.end(), [&](const std::vector<SizingDecision>& ranks) {
    return ranks.front().runtime_max_tokens_per_rank > deployment.max_num_tokens;
  });
}

std::string severity_note(const TroubledBatch& batch) {
  return batch.limits_are_explicit ? "" : " (the command leaves this limit open)";
}

void add_knowledge(const Deployment& deployment, CheckFinding& finding) {
  finding.chain = checked_engine(deployment).knowledge();
  finding.any_of = checked_engine(deployment).unmet_conditions();
}

}  // namespace

CheckFinding make_note(FindingKind kind, Phase phase, std::string message, std::string fix) {
  CheckFinding finding;
  finding.kind = kind;
  finding.severity = Severity::note;
  finding.phase = phase;
  finding.message = std::move(message);
  finding.fix = std::move(fix);
  return finding;
}

std::string fold_ranks(const std::vector<std::string>& per_rank) {
  std::string out;
  for (std::size_t i = 0; i < per_rank.size();) {
    std::size_t end = i;
    while (end < per_rank.size() && per_rank[end] == per_rank[i]) ++end;
    if (!out.empty()) out += ", ";
    out += end - i > 3 ? fmt::format("{} x{}", per_rank[i], end - i)
                       : fmt::format("{}", fmt::join(per_rank.begin() + static_cast<std::ptrdiff_t>(i),
                                                     per_rank.begin() + static_cast<std::ptrdiff_t>(end), ", "));
    i = end;
  }
  return "[" + out + "]";
}

CheckWitness to_witness(const TroubledBatch& batch) {
  CheckWitness witness;
  for (std::size_t rank = 0; rank < batch.batches.size(); ++rank) {
    const RankDecision& decision = batch.decisions[rank];
    witness.tokens_per_dp_rank.push_back(batch.batches[rank].count);
    witness.modes.emplace_back(name(decision.mode));
    witness.runtime_max_tokens_per_rank.push_back(decision.raised && !decision.exceeds_cap
                                                      ? std::nullopt
                                                      : std::optional(decision.sizing.runtime_max_tokens_per_rank));
    witness.paths.emplace_back(decision.replay ? "graph" : "eager");
  }
  return witness;
}

// Ranks left for a collective with a size for each rank, and expect different ones.
CheckFinding explain_gather(const Deployment& deployment, const TroubledBatch& batch) {
  const auto sizes = [](const TroubledBatch::Gather& gather) {
    std::vector<std::string> words;
    for (const std::int64_t size : gather.sizes) words.push_back(std::to_string(size));
    return fold_ranks(words);
  };
  const TroubledBatch::Gather &first = batch.gathers.front(), &other = batch.gathers.back();
  CheckFinding finding;
  finding.kind = FindingKind::geometry_disagreement;
  finding.severity = Severity::error;
  finding.phase = batch.phase;
  finding.message = fmt::format(
      "ranks call one all-gather with different sizes, from {} {}: rank {} expects {} rows of the "
      "ranks, rank {} expects {}",
      unit(batch.phase), counts_text(batch), first.rank, sizes(first), other.rank, sizes(other));
  finding.consequence = on_hardware(finding.kind, Situation::gather);
  add_knowledge(deployment, finding);
  finding.advise(checked_engine(deployment).fix_disagreement(false));
  finding.witness = to_witness(batch);
  return finding;
}

CheckFinding explain_disagreement(const Deployment& deployment, const TroubledBatch& batch) {
  if (!batch.gathers.empty()) return explain_gather(deployment, batch);
  CheckFinding finding;
  finding.kind = FindingKind::geometry_disagreement;
  finding.severity = Severity::error;
  finding.phase = batch.phase;
  finding.message = fmt::format("ranks use different buffer sizes R = {} for {} {}", r_text(batch), unit(batch.phase),
                                counts_text(batch));
  const auto left = std::ranges::count_if(batch.decisions, leaves);
  if (left > 0 && left < std::ssize(batch.decisions))
    finding.message = fmt::format("{} of {} ranks gather, the others send by the all-to-all, from {} {}", left,
                                  batch.decisions.size(), unit(batch.phase), counts_text(batch));
  const bool raises = std::any_of(batch.decisions.begin(), batch.decisions.end(),
                                  [](const RankDecision& d) { return d.raised && !d.exceeds_cap; });
  finding.consequence = on_hardware(finding.kind, raises              ? Situation::some_ranks_raise
                                                  : any_replay(batch) ? Situation::graph_replay
                                                                      : Situation::eager);
  add_knowledge(deployment, finding);
  add_rank_lines(batch, finding.chain);
  // Code outside that answers the predicates sees the flags of the launch as a version does.
  if (deployment.rule && !answers(engine_of(deployment.rule), QuestionKind::gather))
    finding.advise("make the rule depend only on what every rank knows alike (see the differing views above)");
  else
    finding.advise(checked_engine(deployment).fix_disagreement(any_replay(batch)));
  finding.witness = to_witness(batch);
  return finding;
}

CheckFinding explain_over_capacity(const Deployment& deployment, const TroubledBatch& batch,
                                   std::int64_t needed_tokens) {
  CheckFinding finding;
  finding.kind = FindingKind::over_capacity;
  finding.severity = batch.limits_are_explicit ? Severity::error : Severity::note;
  finding.phase = batch.phase;
  std::int64_t r = 0;
  std::size_t over = 0;
  for (const RankDecision& decision : batch.decisions) {
    r = std::max(r, decision.sizing.runtime_max_tokens_per_rank);
    over += decision.exceeds_cap ? 1 : 0;
  }
  finding.message = fmt::format("R = {} exceeds the cap max_num_tokens = {} from {} {}{}; it may grow to {}", r,
                                deployment.max_num_tokens, unit(batch.phase), counts_text(batch), severity_note(batch),
                                needed_tokens);
  finding.consequence =
      on_hardware(finding.kind, over == batch.decisions.size() ? Situation::every_rank : Situation::some_ranks);
  if (capture_exceeds_cap(deployment))
    finding.consequence += "; a graph bucket is above the cap too, so that capture already fails at the start";
  add_knowledge(deployment, finding);
  finding.chain.push_back(
      fmt::format("max_num_tokens = {} ({})", deployment.max_num_tokens, deployment.max_num_tokens_source));
  add_rank_lines(batch, finding.chain);
  finding.needed_tokens_per_rank = needed_tokens;
  finding.advise(fix_cap_variable(deployment, needed_tokens));
  finding.witness = to_witness(batch);
  return finding;
}

CheckFinding explain_silent_overflow(const Deployment& deployment, const TroubledBatch& batch,
                                     std::int64_t needed_tokens) {
  CheckFinding finding = explain_over_capacity(deployment, batch, needed_tokens);
  const auto worst = std::max_element(
      batch.decisions.begin(), batch.decisions.end(), [](const RankDecision& a, const RankDecision& b) {
        return a.rows - a.sizing.runtime_max_tokens_per_rank < b.rows - b.sizing.runtime_max_tokens_per_rank;
      });
  finding.message = fmt::format("{} rows on a rank exceed R = {} (cap {}) from {} {}{}; rows may grow to {}",
                                worst->rows, worst->sizing.runtime_max_tokens_per_rank, deployment.max_num_tokens,
                                unit(batch.phase), counts_text(batch), severity_note(batch), needed_tokens);
  finding.consequence = on_hardware(FindingKind::receive_overflow);
  return finding;
}

CheckFinding explain_capture(const Deployment& deployment, const TroubledBatch& batch) {
  CheckFinding finding;
  finding.kind = FindingKind::over_capacity;
  finding.severity = Severity::error;
  finding.phase = batch.phase;
  const RankDecision& first = batch.decisions.front();
  const std::int64_t r = first.sizing.runtime_max_tokens_per_rank;
  const std::int64_t width = deployment.num_tokens_per_bs;
  const std::string bucket = fmt::format("the graph bucket {}{}", batch.batches.front().count,
                                         width > 1 ? fmt::format(" x {} tokens", width) : "");
  if (r > deployment.max_num_tokens) {
    finding.message = fmt::format(
        "{} needs R = {}, above the cap max_num_tokens = {}: it is captured at the start, "
        "whatever the request limit",
        bucket, r, deployment.max_num_tokens);
    finding.consequence = on_hardware(finding.kind, Situation::capture);
  } else {
    finding.message = fmt::format(
        "{} has {} rows, above R = {}: it is captured at the start, whatever the request limit", bucket, first.rows, r);
    finding.consequence = on_hardware(FindingKind::receive_overflow);
  }
  add_knowledge(deployment, finding);
  finding.chain.push_back(
      fmt::format("max_num_tokens = {} ({})", deployment.max_num_tokens, deployment.max_num_tokens_source));
  add_rank_lines(batch, finding.chain);
  finding.needed_tokens_per_rank = deployment.capture_bs.back() * width / deployment.topology.attn_tp_size;
  finding.advise(fix_cap_variable(deployment, finding.needed_tokens_per_rank));
  finding.witness = to_witness(batch);
  return finding;
}

CheckFinding explain_draft(const Deployment& deployment, const PhaseOutcome& draft) {
  const std::int64_t needed = draft.largest_tokens_per_rank;
  CheckFinding finding = draft.over_cap ? explain_over_capacity(deployment, *draft.over_cap, needed)
                                        : explain_silent_overflow(deployment, *draft.silent_overflow, needed);
  finding.message = fmt::format("a draft step ({} tokens a request, the eagle topk): {}",
                                deployment.draft_tokens_per_request, finding.message);
  if (!deployment.draft_is_explicit)
    finding.chain.push_back("the draft model, its steps or its topk are not settled by the command");
  return finding;
}

CheckFinding explain_rejection(const Rejection& rejection) {
  CheckFinding finding;
  finding.kind = FindingKind::rejected;
  finding.severity = Severity::error;
  finding.phase = Phase::start;
  const bool at_start = rejection.where == "start";
  const std::string_view when = at_start ? "the engine refuses to start" : "every forward fails";
  finding.message = fmt::format("{}: {}: {}{}{}", when, rejection.handler, name(rejection.error.kind),
                                rejection.error.message.empty() ? "" : ": ", rejection.error.message);
  finding.consequence = on_hardware(finding.kind, at_start ? Situation::start : Situation::first_forward);
  finding.advise(rejection.fix);
  return finding;
}

CheckFinding explain_every_forward(const Deployment& deployment, const TroubledBatch& batch) {
  const auto raised = std::find_if(batch.decisions.begin(), batch.decisions.end(),
                                   [](const RankDecision& d) { return d.raised.has_value(); });
  const Error error = raised == batch.decisions.end() ? Error{} : *raised->raised;
  const std::string_view kind = batch.phase == Phase::prefill ? "prefill" : "decode";
  CheckFinding finding = explain_rejection(Rejection{"first_forward", fmt::format("every {} forward", kind), error,
                                                     checked_engine(deployment).fix_every_forward()});
  finding.phase = batch.phase;
  add_knowledge(deployment, finding);
  add_rank_lines(batch, finding.chain);
  finding.witness = to_witness(batch);
  return finding;
}

CheckFinding explain_idle_step(const Deployment& deployment, const TroubledBatch& batch) {
  CheckFinding finding;
  finding.kind = FindingKind::idle_step;
  finding.severity = Severity::error;
  finding.phase = batch.phase;
  finding.message = fmt::format("without any request the ranks run a step with R = {}, which FlashInfer refuses",
                                batch.decisions.front().sizing.runtime_max_tokens_per_rank);
  finding.consequence = on_hardware(finding.kind);
  finding.advise(std::vector{unset_variable(std::string(engine_of(*deployment.generation).skip_exchange), "")});
  add_knowledge(deployment, finding);
  add_rank_lines(batch, finding.chain);
  finding.witness = to_witness(batch);
  return finding;
}

CheckFinding explain_waste(const Deployment& deployment, Phase phase, std::int64_t r, std::int64_t rows) {
  CheckFinding finding;
  finding.kind = FindingKind::wasted;
  finding.severity = Severity::note;
  finding.phase = phase;
  finding.waste = {r * deployment.topology.ep_size, rows * deployment.topology.ep_size};
  finding.message = fmt::format("R = {} while a rank has {} rows: {} slots are computed per rank where {} are needed",
                                r, rows, finding.waste->computed, finding.waste->needed);
  finding.consequence = on_hardware(finding.kind);
  finding.advise(checked_engine(deployment).fix_waste(deployment.max_num_tokens));
  return finding;
}

}  // namespace a2asim
