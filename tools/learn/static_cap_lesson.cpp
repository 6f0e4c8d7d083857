// Lesson 8: the static cap: safe, and what it costs.
#include <algorithm>

#include "model/base/check_invariant.h"
#include "model/engines/sglang/generation.h"
#include "model/step/model_shapes.h"
#include "tools/learn/lesson.h"
#include "tools/program/text.h"
#include "tools/replay/replay_formats.h"

namespace a2asim {
namespace {

constexpr std::string_view kExact = "pr30450";

Scenario capped_scenario(const std::vector<std::int64_t>& tokens) {
  return lab_scenario(collapsed(lab_parallel()), {decode_step(tokens)});
}

// Speculative decoding from CUDA graphs, with a cap that is half of the rows of the busiest rank's bucket.
Scenario above_the_cap(const Lab& lab) {
  constexpr std::int64_t kWidth_tokens = 4;
  Parallel parallel = collapsed(lab_parallel());
  parallel.disable_cuda_graph.reset();
  parallel.cuda_graph_bs = {4, 8, 16};
  parallel.speculative_algorithm = "EAGLE";
  parallel.speculative_num_steps = kWidth_tokens - 1;
  parallel.speculative_eagle_topk = 1;
  parallel.speculative_num_draft_tokens = kWidth_tokens;
  const std::int64_t requests = lab.tokens[lab.busiest()];
  const auto bucket = std::ranges::find_if(parallel.cuda_graph_bs, [&](std::int64_t bs) { return bs >= requests; });
  parallel.max_num_tokens = *bucket * kWidth_tokens / 2;
  Step step = decode_step(lab.tokens);
  step.mode = {ForwardMode::target_verify};
  return lab_scenario(std::move(parallel), {step});
}

std::int64_t dummies(const Experiment& done) {
  return std::ranges::count_if(done.step().ranks,
                               [](const auto& rank) { return rank.decision.sizing.has_dummy_token; });
}

// Findings do not count them: one of them may speak for several ranks.
std::int64_t ranks_above_their_size(const Experiment& done) {
  return std::ranges::count_if(done.step().ranks, [](const ReplayedRank& rank) {
    const auto size = rank.runtime_max();
    return rank.decision.participates && size && rank.decision.rows > *size;
  });
}

LessonStep the_way_out(const Lab& lab) {
  LessonStep step;
  step.title = "A number that all ranks know anyway";
  const Experiment done = run(lab, capped_scenario(lab.tokens), kStaticCap);
  step.say(
      "Ranks that cannot know the counts of others can still agree on a constant. {} takes the cap max_num_tokens, "
      "here {}, which is fixed at the start:",
      kStaticCap, done.report.max_num_tokens);
  step.show(rank_table(done.step(), kLabRanks));
  if (done.ran()) step.show(picture_of(done.buffers[0][0]));
  step.say("Verdict `{}`: {}; wrong outputs: {}.", name(done.report.verdict), sizes_in_words(done),
           done.report.bad_tokens);
  step.facts = {{"max_num_tokens", done.report.max_num_tokens},
                {"runtime_max_tokens_per_rank", as_json(done.sizes())},
                {"verdict", name(done.report.verdict)},
                {"bad_tokens", done.report.bad_tokens}};
  return step;
}

LessonStep the_waste(const Lab& lab) {
  LessonStep step;
  step.title = "What it costs";
  const Experiment cap = run(lab, capped_scenario(lab.tokens), kStaticCap);
  const Experiment exact = run(lab, capped_scenario(lab.tokens), kExact);
  const Traffic &a = cap.report.traffic, &b = exact.report.traffic;
  step.say("Experts run over every slot. Slots in use over all ranks, R = the cap ({}) and R = the largest count ({}):",
           kStaticCap, kExact);
  step.show({fmt::format("{:<8} {}", kStaticCap, bar(a.rows_sent, a.rows_reserved)),
             fmt::format("{:<8} {}", kExact, bar(b.rows_sent, b.rows_reserved))});
  step.say(
      "Rows sent: {} (dummy rows of idle ranks: {}) against {} ({}). Slots computed: {} against {}, {:.1f} times as "
      "many.",
      a.rows_sent, dummies(cap), b.rows_sent, dummies(exact), a.rows_reserved, b.rows_reserved,
      static_cast<double>(a.rows_reserved) / static_cast<double>(std::max<std::int64_t>(b.rows_reserved, 1)));
  step.facts = {{"rows_sent", {a.rows_sent, b.rows_sent}}, {"rows_reserved", {a.rows_reserved, b.rows_reserved}}};
  return step;
}

LessonStep at_scale(const Lab& lab) {
  LessonStep step;
  step.title = "The same at production size";
  constexpr std::int64_t kRanks = 16;
  constexpr std::int64_t kRows = 64;
  const auto preset = find_model("DeepSeek-V3");
  A2ASIM_INVARIANT(preset.has_value(), "the preset of a lesson exists");
  Parallel parallel = collapsed(lab_parallel());
  parallel.tp_size = parallel.dp_size = parallel.ep_size = kRanks;
  parallel.max_num_tokens.reset();
  Scenario scenario = lab_scenario(std::move(parallel), {});
  scenario.model = {.num_experts = preset->shape.num_experts,
                    .top_k = preset->shape.top_k,
                    .hidden_size = preset->shape.hidden_size,
                    .layers = 1};
  const auto deployment = deployment_of(lab, scenario, kStaticCap);
  const std::int64_t cap = deployment->max_num_tokens;
  A2ASIM_INVARIANT(deployment->capacity.has_value(), "the shape of the model is known");
  step.say("{} on {} ranks: the cap is {} ({}), and the workspace takes {} on each rank.", preset->name, kRanks, cap,
           deployment->max_num_tokens_source, bytes_in_words(deployment->capacity->workspace_bytes_per_rank));
  step.say(
      "With {} requests on every rank, each rank's experts run over {} x {} = {} slots under the cap, and over {} x "
      "{} = {} with the exact size:",
      kRows, kRanks, cap, kRanks * cap, kRanks, kRows, kRanks * kRows);
  step.show({bar(kRanks * kRows, kRanks * cap)});
  step.facts = {{"max_num_tokens", cap},
                {"workspace_bytes_per_rank", deployment->capacity->workspace_bytes_per_rank},
                {"slots_with_cap", kRanks * cap},
                {"slots_exact", kRanks * kRows}};
  return step;
}

LessonStep not_that_safe(const Lab& lab) {
  LessonStep step;
  step.title = "Equal does not mean large enough";
  const Scenario scenario = above_the_cap(lab);
  const Experiment done = run(lab, scenario, kStaticCap);
  step.say("Speculative decoding sends {} rows for each request. Let the cap be {}, and replay from a graph:",
           *scenario.parallel->speculative_num_draft_tokens, *scenario.parallel->max_num_tokens);
  if (!done.report.steps.empty()) step.show(rank_table(done.step(), kLabRanks));
  const std::int64_t overflowing = done.report.steps.empty() ? 0 : ranks_above_their_size(done);
  step.say("Verdict `{}`: {}; ranks that have more rows than their R: {}.", name(done.report.verdict),
           sizes_in_words(done), overflowing);
  const auto& findings = done.report.steps.empty() ? done.report.start_findings : done.step().findings;
  const auto found = std::ranges::find(findings, FindingKind::receive_overflow, &Finding::kind);
  if (found != findings.end()) step.say("{}.", describe(*found));
  step.facts = {{"verdict", name(done.report.verdict)},
                {"overflowing_ranks", overflowing},
                {"max_num_tokens", *scenario.parallel->max_num_tokens}};
  return step;
}

LessonStep refused(const Lab& lab) {
  LessonStep step;
  step.title = "Better refused than overrun";
  const Experiment done = run(lab, above_the_cap(lab), kExact);
  step.say("The same launch under {} ends with verdict `{}`{}{}.", kExact, name(done.report.verdict),
           done.report.why.empty() ? "" : ": ", done.report.why);
  if (!done.report.fix.empty()) step.say("What to do: {}.", done.report.fix);
  step.say(
      "A size that follows the rows meets the check R <= max_num_tokens before anything is sent. A constant never "
      "does.");
  step.facts = {{"verdict", name(done.report.verdict)}, {"why", done.report.why}};
  return step;
}

Question how_many_slots(const Lab& lab) {
  constexpr std::int64_t kRanks = 8;
  constexpr std::int64_t kMaxNumTokens = 256;
  Parallel parallel = collapsed(lab_parallel());
  parallel.tp_size = parallel.dp_size = parallel.ep_size = kRanks;
  parallel.max_num_tokens = kMaxNumTokens;
  const std::int64_t requests = lab.tokens[lab.busiest()] + 1;
  const Scenario scenario = lab_scenario(
      std::move(parallel), {decode_step(std::vector<std::int64_t>(static_cast<std::size_t>(kRanks), requests))});
  const auto slots = [&](std::string_view sglang) {
    return run(lab, scenario, sglang).report.traffic.rows_reserved / kRanks;
  };
  const NumbersAnswer answer{{slots(kStaticCap), slots(kExact)}};
  return {fmt::format("{} ranks, max_num_tokens {}, {} requests on every rank, without CUDA graphs. Over how many "
                      "slots do the experts of one "
                      "rank run under {}, and over how many under {}?",
                      kRanks, kMaxNumTokens, requests, kStaticCap, kExact),
          answer,
          fmt::format("a buffer has ep_size x R slots: {} with R = the cap, {} with R = the largest count",
                      answer.right[0], answer.right[1])};
}

}  // namespace

Lesson lesson_static_cap() {
  return {"The static cap: safe, and what it costs",
          "R = max_num_tokens agrees always, computes over empty slots, and can be too small (#27945)",
          {the_way_out, the_waste, at_scale, not_that_safe, refused},
          how_many_slots};
}

}  // namespace a2asim
