// Lesson 10: two engines, two ways to agree.
#include <algorithm>

#include "tools/learn/lesson.h"
#include "tools/replay/replay_formats.h"

namespace a2asim {
namespace {

constexpr std::string_view kOwnCounts = "pr26643";  // SGLang
constexpr std::string_view kExchange = "pr51726";   // this and the rest: vLLM
constexpr std::string_view kCountsOnly = "pr28579";
constexpr std::string_view kModesToo = "pr30173";
constexpr std::int64_t kPrefill_tokens = 9;  // between two graphs

// The same four ranks, started by vLLM.
Parallel vllm_parallel() {
  Parallel parallel = lab_parallel();
  parallel.max_num_tokens.reset();
  parallel.max_running_requests = 16 * static_cast<std::int64_t>(kLabRanks);
  parallel.chunked_prefill_size = 64 * static_cast<std::int64_t>(kLabRanks);
  return parallel;
}

Parallel with_graphs(std::string mode) {
  Parallel parallel = with_graphs(vllm_parallel());
  parallel.cuda_graph_mode = std::move(mode);
  return parallel;
}

Scenario vllm_scenario(Parallel parallel, Step step) {
  Scenario scenario = lab_scenario(std::move(parallel), {std::move(step)});
  scenario.engine = "vllm";
  return scenario;
}

// The busiest rank prefills, the others decode what they have.
Step beside_a_prefill(const Lab& lab) {
  Step step = decode_step(lab.tokens);
  step.mode.assign(lab.tokens.size(), ForwardMode::decode);
  step.mode[lab.busiest()] = ForwardMode::extend;
  step.tokens[lab.busiest()] = kPrefill_tokens;
  return step;
}

void show_ranks(LessonStep& step, const Experiment& done) {
  if (!done.report.steps.empty()) step.show(rank_table(done.step(), kLabRanks));
  step.say("Verdict `{}`: {}.", name(done.report.verdict), sizes_in_words(done));
  step.facts["runtime_max_tokens_per_rank"] = as_json(done.sizes());
  step.facts["verdict"] = name(done.report.verdict);
}

// Who waits for whom.
void show_waiting(LessonStep& step, const Experiment& done) {
  if (done.report.steps.empty()) return;
  const auto& findings = done.step().findings;
  const auto found = std::ranges::find(findings, FindingKind::missing_rank, &Finding::kind);
  if (found != findings.end()) step.say("{}.", describe(*found));
}

LessonStep by_itself(const Lab& lab) {
  LessonStep step;
  step.title = "SGLang: each rank computes R from what its flags let it know";
  const Experiment done = run(lab, lab_scenario(collapsed(lab_parallel()), {decode_step(lab.tokens)}), kOwnCounts);
  step.say("The requests are {}. With the two flags of lesson 3, {} leaves each rank with its own count:",
           listed(lab.tokens), kOwnCounts);
  show_ranks(step, done);
  if (done.ran()) step.show(picture_of(done.buffers[0][0]));
  step.say("No rank can notice: the size never leaves it.");
  return step;
}

LessonStep one_exchange(const Lab& lab) {
  LessonStep step;
  step.title = "vLLM: every forward begins with one exchange";
  const Experiment done = run(lab, vllm_scenario(vllm_parallel(), decode_step(lab.tokens)), kExchange);
  step.say(
      "All replicas all-reduce a table of their counts before every forward, idle ones too, which bring one dummy "
      "token. R is the largest entry. The same requests under vLLM {}:",
      kExchange);
  show_ranks(step, done);
  if (done.ran()) step.show(picture_of(done.buffers[0][0]));
  step.say("There is no flag that keeps a rank from knowing, and so no collapse.");
  return step;
}

LessonStep graphs_too(const Lab& lab) {
  LessonStep step;
  step.title = "The graph follows the agreed number";
  const Experiment done = run(lab, vllm_scenario(with_graphs("FULL_DECODE_ONLY"), decode_step(lab.tokens)), kExchange);
  step.say(
      "With CUDA graphs of 1, 2, 4, 8 and 16 tokens everybody is padded to the largest count, and then looks for a "
      "graph of that size. So all of them replay one graph:");
  show_ranks(step, done);
  return step;
}

LessonStep too_few_columns(const Lab& lab) {
  LessonStep step;
  step.title = "What is not in the table is not agreed on";
  const Experiment done = run(lab, vllm_scenario(with_graphs("FULL_DECODE_ONLY"), beside_a_prefill(lab)), kCountsOnly);
  step.say(
      "vLLM {} (v0.12.0) exchanged counts, but not who runs eagerly. Let rank {} prefill {} tokens, which no graph "
      "has, while the others decode:",
      kCountsOnly, lab.busiest(), kPrefill_tokens);
  show_ranks(step, done);
  show_waiting(step, done);
  step.facts["tokens"] = kPrefill_tokens;
  return step;
}

LessonStep one_more_column(const Lab& lab) {
  LessonStep step;
  step.title = "One more column cures it";
  const Experiment done = run(lab, vllm_scenario(with_graphs("FULL_DECODE_ONLY"), beside_a_prefill(lab)), kModesToo);
  step.say("{} adds each rank's graph mode to the table, and the least of them counts for all. The same step:",
           kModesToo);
  show_ranks(step, done);
  step.say(
      "In SGLang the cure was of the same kind: #30450 keeps the counts of all ranks, so that each computes R from one "
      "list (lesson 5).");
  return step;
}

LessonStep what_is_left(const Lab& lab) {
  LessonStep step;
  step.title = "What no size shows";
  Scenario scenario = vllm_scenario(vllm_parallel(), decode_step(lab.tokens));
  const auto absent = static_cast<std::int64_t>((lab.busiest() + 1) % kLabRanks);
  Fault fault;
  fault.kind = FaultKind::skip_rank;
  fault.rank = absent;
  scenario.faults.push_back(fault);
  const Experiment done = run(lab, scenario, kExchange);
  step.say("An exchange needs everybody. Rank {} leaves this step out:", absent);
  if (!done.report.steps.empty()) step.show(rank_table(done.step(), kLabRanks));
  step.say("Verdict `{}`.", name(done.report.verdict));
  show_waiting(step, done);
  step.say(
      "That is how vLLM hangs: a step of no tokens, or a draft that one rank leaves out. `a2asim check` sees sizes, "
      "and says so.");
  step.facts = {{"verdict", name(done.report.verdict)}, {"absent", absent}};
  return step;
}

Question which_list_of_two(const Lab& lab) {
  const std::vector<std::int64_t> requests = lab.reordered();
  const Experiment done = run(lab, vllm_scenario(vllm_parallel(), decode_step(requests)), kExchange);
  const std::int64_t right = done.sizes().empty() ? 0 : done.sizes().front().value_or(0);
  return {fmt::format("vLLM {}, four replicas of one rank, without CUDA graphs, requests {}. Which R does every rank "
                      "take?",
                      kExchange, listed(requests)),
          NumbersAnswer{{right}}, fmt::format("R is the largest entry of the list that all ranks have: {}", right)};
}

}  // namespace

Lesson lesson_two_engines() {
  return {"Two engines, two ways to agree",
          "SGLang computes R on every rank, vLLM exchanges counts first: what each of them can miss",
          {by_itself, one_exchange, graphs_too, too_few_columns, one_more_column, what_is_left},
          which_list_of_two};
}

}  // namespace a2asim
