// Lesson 9: scatter, speculation, idle ranks: how many rows a rank has, and what R makes of it.
#include <algorithm>

#include "model/engines/sglang/generation.h"
#include "tools/learn/lesson.h"
#include "tools/program/text.h"
#include "tools/replay/replay_formats.h"

namespace a2asim {
namespace {

constexpr std::string_view kWhole = "pr30450";    // R is the count before the scatter
constexpr std::string_view kDivided = "pr35758";  // .. divided by attn_tp_size

// Two replicas of two attention-TP ranks each.
Scenario attention_tp(const std::vector<std::int64_t>& tokens) {
  Parallel parallel = lab_parallel();
  parallel.dp_size = 2;
  return lab_scenario(std::move(parallel), {decode_step(tokens)});
}

std::vector<std::int64_t> two_replicas(const std::vector<std::int64_t>& tokens) {
  return {tokens[0] + tokens[1], tokens[2] + tokens[3]};
}

// The busiest rank of the lab has work, all others have none.
std::vector<std::int64_t> one_busy_rank(const Lab& lab) {
  std::vector<std::int64_t> tokens(kLabRanks, 0);
  tokens[lab.busiest()] = lab.tokens[lab.busiest()];
  return tokens;
}

LessonStep scattered(const Lab& lab) {
  LessonStep step;
  step.title = "Attention tensor parallelism scatters the rows";
  const std::vector<std::int64_t> tokens = two_replicas(lab.tokens);
  const Experiment done = run(lab, attention_tp(tokens), kWhole);
  const std::int64_t attn_tp_size = done.report.topology ? done.report.topology->attn_tp_size : 1;
  step.say(
      "Let {} ranks share each of {} replicas (attn_tp_size {}). Every rank dispatches its piece of the replica's "
      "rows; the counts, {}, are those of whole replicas. {}:",
      attn_tp_size, tokens.size(), attn_tp_size, listed(tokens), kWhole);
  step.show(rank_table(done.step(), kLabRanks));
  if (!done.report.notes.empty())
    step.say("This version does not start such a layout with this backend, so look at the rules alone: {}.",
             done.report.notes.front());
  if (done.ran()) step.show(picture_of(done.buffers[0][0]));
  step.say("So {}. In use over all ranks:", sizes_in_words(done));
  step.show({bar(done.report.traffic.rows_sent, done.report.traffic.rows_reserved)});
  step.facts = {{"tokens", tokens},
                {"attn_tp_size", attn_tp_size},
                {"runtime_max_tokens_per_rank", as_json(done.sizes())},
                {"rows_reserved", done.report.traffic.rows_reserved}};
  return step;
}

LessonStep divided(const Lab& lab) {
  LessonStep step;
  step.title = "Divide, and round up";
  const std::vector<std::int64_t> tokens = two_replicas(lab.tokens);
  const Experiment whole = run(lab, attention_tp(tokens), kWhole);
  const Experiment done = run(lab, attention_tp(tokens), kDivided);
  step.say("{} sizes by {}: with requests {}, {}.", kDivided, text(done.step().ranks[0].decision.sizing.branch),
           listed(tokens), sizes_in_words(done));
  step.show({fmt::format("{:<8} {}", kWhole, bar(whole.report.traffic.rows_sent, whole.report.traffic.rows_reserved)),
             fmt::format("{:<8} {}", kDivided, bar(done.report.traffic.rows_sent, done.report.traffic.rows_reserved))});
  for (const std::string& note : done.report.notes) step.say("Note: {}.", note);
  step.facts = {{"runtime_max_tokens_per_rank", as_json(done.sizes())},
                {"rows_reserved", done.report.traffic.rows_reserved}};
  return step;
}

LessonStep one_sequence(const Lab& lab) {
  LessonStep step;
  step.title = "Without data-parallel attention all ranks share one batch";
  std::int64_t sum = 0;
  for (const std::int64_t count : lab.tokens) sum += count;
  Parallel parallel = lab_parallel();
  parallel.dp_size = 1;
  parallel.enable_dp_attention.reset();
  const Scenario scenario = lab_scenario(std::move(parallel), {decode_step({sum})});
  step.say("One batch of {}, scattered over {} ranks:", counted(static_cast<std::size_t>(sum), "request"), kLabRanks);
  std::vector<std::vector<std::string>> rows = {{"sglang", "rows of each rank", "R of each rank", "branch"}};
  std::string exact, other;
  for (const std::string_view sglang : {"pr24850", "pr25685", "pr27945", "pr30450"}) {
    const Experiment done = run(lab, scenario, sglang);
    std::vector<std::int64_t> pieces;
    for (const ReplayedRank& rank : done.step().ranks) pieces.push_back(rank.decision.rows);
    rows.push_back({std::string(sglang), listed(pieces), listed(done.sizes()),
                    std::string(text(done.step().ranks[0].decision.sizing.branch))});
    step.facts["runtime_max_tokens_per_rank"][std::string(sglang)] = as_json(done.sizes());
    std::string& where = done.sizes()[0] == std::ranges::max(pieces) ? exact : other;
    where += fmt::format("{}{}", where.empty() ? "" : ", ", sglang);
  }
  step.show(table(rows, {}));
  const auto or_none = [](const std::string& versions) { return versions.empty() ? "none" : versions; };
  step.say("As many slots as the fullest rank has rows: {}. Another number: {}.", or_none(exact), or_none(other));
  return step;
}

LessonStep speculation(const Lab& lab) {
  LessonStep step;
  step.title = "Speculation multiplies the rows";
  Parallel parallel = lab_parallel();
  parallel.speculative_algorithm = "EAGLE";
  parallel.speculative_num_steps = 3;
  parallel.speculative_eagle_topk = 1;
  parallel.speculative_num_draft_tokens = 4;
  Step verify = decode_step(lab.tokens);
  verify.mode = {ForwardMode::target_verify};
  const Experiment done = run(lab, lab_scenario(std::move(parallel), {verify}), newest_generation().name);
  step.say("A verify step computes every draft token of every request. Requests {}:", listed(lab.tokens));
  step.show(rank_table(done.step(), kLabRanks));
  step.say(
      "So {} (verdict `{}`). The width must enter on all ranks alike: into the list, into the rows, and into the cap "
      "of {}.",
      sizes_in_words(done), name(done.report.verdict), done.report.max_num_tokens);
  step.facts = {{"runtime_max_tokens_per_rank", as_json(done.sizes())}, {"verdict", name(done.report.verdict)}};
  return step;
}

LessonStep idle_ranks(const Lab& lab) {
  LessonStep step;
  step.title = "An idle rank, with and without a dummy";
  const std::vector<std::int64_t> tokens = one_busy_rank(lab);
  const std::size_t idle = lab.busiest() == 0 ? 1 : 0;
  std::vector<std::vector<std::string>> rows = {{"sglang", "rows dispatched", "dummy", "R of each rank", "verdict"}};
  std::string_view without;  // the first version that sends none
  for (const Generation& generation : generations()) {
    const Experiment done = run(lab, lab_scenario(lab_parallel(), {decode_step(tokens)}), generation.name);
    const SizingDecision& sizing = done.step().ranks[idle].decision.sizing;
    rows.push_back({std::string(generation.name), std::to_string(sizing.dispatched_rows),
                    sizing.has_dummy_token ? "yes" : "no", listed(done.sizes()),
                    std::string(name(done.report.verdict))});
    if (!sizing.has_dummy_token && without.empty()) without = generation.name;
    step.facts["dispatched_rows"][std::string(generation.name)] = sizing.dispatched_rows;
  }
  step.say("Requests {}: what rank {} does, which has none:", listed(tokens), idle);
  step.show(table(rows, {1}));
  step.say("A dummy is one row that is routed to the rank's own first expert and thrown away after combine. {}",
           without.empty() ? "All versions send it." : fmt::format("From {} on there is none.", without));
  return step;
}

LessonStep prefill(const Lab& lab) {
  LessonStep step;
  step.title = "Prefill may leave the all-to-all";
  std::vector<std::int64_t> tokens = lab.tokens;
  for (std::int64_t& count : tokens) count *= 8;
  Step extend = decode_step(tokens);
  extend.mode = {ForwardMode::extend};
  Parallel parallel = lab_parallel();
  parallel.max_num_tokens = 256;
  const Scenario scenario = lab_scenario(std::move(parallel), {extend});
  step.say("An extend step with {} tokens:", listed(tokens));
  for (const std::string_view sglang : {kWhole, kDivided}) {
    const Experiment done = run(lab, scenario, sglang);
    step.say("{}:", sglang);
    step.show(rank_table(done.step(), kLabRanks));
    step.facts["branches"][std::string(sglang)] = text(done.step().ranks[0].decision.sizing.branch);
  }
  step.say(
      "An all-gatherv with exact sizes needs no R, no cap and no workspace; it does need the counts of all ranks.");
  return step;
}

Question which_size(const Lab& lab) {
  const std::vector<std::int64_t> tokens = two_replicas(lab.reordered());
  const Experiment done = run(lab, attention_tp(tokens), kDivided);
  const std::int64_t attn_tp_size = done.report.topology ? done.report.topology->attn_tp_size : 1;
  const NumbersAnswer answer{{done.sizes()[0].value_or(0)}};
  return {
      fmt::format("tp_size {}, dp_size {} with DP attention, requests {} in decode. Which R do all ranks use under {}?",
                  kLabRanks, tokens.size(), listed(tokens), kDivided),
      answer,
      fmt::format("{}: the list is aligned to attn_tp_size {} first, its largest entry is {}",
                  text(done.step().ranks[0].decision.sizing.branch), attn_tp_size,
                  done.step().lists[0] ? std::ranges::max(*done.step().lists[0]) : 0)};
}

}  // namespace

Lesson lesson_scatter() {
  return {"Scatter, speculation, idle ranks",
          "rows are not requests: attn_tp_size, draft tokens, dummy rows, prefill",
          {scattered, divided, one_sequence, speculation, idle_ranks, prefill},
          which_size};
}

}  // namespace a2asim
