// Lesson 2: who knows what: the scheduler's all-gather.
#include <algorithm>

#include "model/engines/sglang/generation.h"
#include "model/engines/sglang/rules/dp_padding.h"
#include "model/engines/sglang/rules/mlp_sync.h"
#include "tools/learn/lesson.h"
#include "tools/program/text.h"
#include "tools/replay/replay_formats.h"

namespace a2asim {
namespace {

std::vector<std::optional<LocalBatch>> batches_of(const std::vector<std::int64_t>& tokens) {
  std::vector<std::optional<LocalBatch>> batches;
  for (const std::int64_t count : tokens) {
    batches.emplace_back();
    if (count > 0)
      batches.back() =
          LocalBatch{.forward_mode = ForwardMode::decode, .batch_size = count, .extend_num_tokens_for_logprob = count};
  }
  return batches;
}

// One sync of the newest version, as data.
struct Sync {
  std::vector<MLPSyncBatchInfo> infos;
  std::vector<std::int64_t> counts, logprob_counts;
  std::vector<MlpSyncResult> results;
  MlpSyncTotals totals;

  explicit Sync(const std::vector<std::optional<LocalBatch>>& batches)
      : infos(batches.size()), counts(batches.size()), logprob_counts(batches.size()), results(batches.size()) {
    const MlpSyncRules& rules = newest_generation().sync;
    const MlpSyncInputs inputs;
    mlp_sync(rules, inputs, batches, {infos, counts, logprob_counts, results});
    totals = gather_sync_info(infos, counts, logprob_counts);
  }
};

Experiment run_it(const Lab& lab, const std::vector<std::int64_t>& tokens) {
  return run(lab, lab_scenario(lab_parallel(), {decode_step(tokens)}), newest_generation().name);
}

// The lab's counts with at least one idle rank.
std::vector<std::int64_t> with_idle(const Lab& lab) {
  std::vector<std::int64_t> tokens = lab.tokens;
  if (std::ranges::find(tokens, 0) == tokens.end()) *std::ranges::min_element(tokens) = 0;
  return tokens;
}

LessonStep alone(const Lab& lab) {
  LessonStep step;
  step.title = "A rank knows its own batch";
  const std::vector<std::int64_t> tokens = lab.tokens;
  step.say(
      "With data-parallel attention every rank has a scheduler and requests of its own. Alone, a rank knows only "
      "its own count:");
  std::vector<std::vector<std::string>> rows = {{"rank", "knows"}};
  for (std::size_t rank = 0; rank < tokens.size(); ++rank) {
    std::vector<std::optional<std::int64_t>> known(tokens.size());
    known[rank] = tokens[rank];
    rows.push_back({std::to_string(rank), listed(known)});
  }
  step.show(table(rows, {}));
  const bool equal = std::ranges::adjacent_find(tokens, std::ranges::not_equal_to{}) == tokens.end();
  step.say("{}", equal ? "Here all counts happen to be equal, so that even ranks that know nothing of each other would "
                         "choose one size. Requests come and go; it will not last."
                       : "If each took its own count for R, the sizes would differ.");
  step.facts = {{"tokens", tokens}, {"equal", equal}};
  return step;
}

LessonStep the_gather(const Lab& lab) {
  LessonStep step;
  step.title = "The all-gather of counts";
  const Sync sync(batches_of(lab.tokens));
  step.say(
      "Before every step the schedulers exchange one small row each (MLPSyncBatchInfo.all_gather, {} numbers). "
      "Three of them matter here:",
      kMlpSyncRowWidth);
  std::vector<std::vector<std::string>> rows = {{"rank", "num_tokens", "can_cuda_graph", "is_extend_in_batch"}};
  for (std::size_t rank = 0; rank < sync.infos.size(); ++rank)
    rows.push_back({std::to_string(rank), std::to_string(sync.infos[rank].num_tokens),
                    sync.infos[rank].can_cuda_graph ? "yes" : "no",
                    sync.infos[rank].is_extend_in_batch ? "yes" : "no"});
  step.show(table(rows, {1}));
  step.say("Afterwards every rank holds the same list, global_num_tokens = {}, whose largest entry is {}.",
           listed(sync.counts), sync.totals.max_num_tokens);
  step.facts = {
      {"global_num_tokens", sync.counts}, {"max", sync.totals.max_num_tokens}, {"row_width", kMlpSyncRowWidth}};
  return step;
}

LessonStep the_votes(const Lab& lab) {
  LessonStep step;
  step.title = "Votes: one rank decides for all";
  auto batches = batches_of(lab.tokens);
  const MlpSyncTotals before = Sync(batches).totals;
  const std::size_t prefilling = lab.busiest();
  batches[prefilling] = LocalBatch{.forward_mode = ForwardMode::extend,
                                   .batch_size = 1,
                                   .extend_num_tokens = 128,
                                   .extend_num_tokens_for_logprob = 1};
  const MlpSyncTotals after = Sync(batches).totals;
  const auto words = [](bool value) { return value ? "yes" : "no"; };
  step.say(
      "CUDA graphs need everybody's consent (the minimum of the votes), and one rank that prefills makes the step an "
      "extend step for all (the maximum).");
  step.show(table(
      {{"", "graphs may run", "is_extend_in_batch"},
       {"all ranks decode", words(before.can_cuda_graph), words(before.is_extend_in_batch)},
       {fmt::format("rank {} prefills", prefilling), words(after.can_cuda_graph), words(after.is_extend_in_batch)}},
      {}));
  step.say("Votes keep ranks from taking different paths. They say nothing about sizes: that is what the list is for.");
  step.facts = {
      {"prefilling_rank", prefilling},
      {"before", {{"can_cuda_graph", before.can_cuda_graph}, {"is_extend_in_batch", before.is_extend_in_batch}}},
      {"after", {{"can_cuda_graph", after.can_cuda_graph}, {"is_extend_in_batch", after.is_extend_in_batch}}}};
  return step;
}

LessonStep the_padding(const Lab& lab) {
  LessonStep step;
  step.title = "Padding, alike on every rank";
  const auto deployment = deployment_of(lab, lab_scenario(lab_parallel(), {}), newest_generation().name);
  DpPaddingInputs inputs;
  inputs.attn_dp_size = deployment->topology.attn_dp_size;
  inputs.attn_tp_size = deployment->topology.attn_tp_size;
  std::vector<std::int64_t> list = lab.tokens;
  const DpPadding padding = pad_global_num_tokens(newest_generation().padding, inputs, list);
  step.say(
      "Then the list is padded: MAX_LEN brings every rank to the largest count, SUM_LEN leaves the counts alone. "
      "Which one is cheaper follows from the list, so that ranks with equal lists choose alike.");
  step.show({fmt::format("{} -> {} -> {}", listed(lab.tokens), name(padding.mode), listed(list))});
  step.facts = {{"mode", name(padding.mode)}, {"padded", list}};
  return step;
}

LessonStep the_rule(const Lab& lab) {
  LessonStep step;
  step.title = "The rule: R from the list";
  const Experiment done = run_it(lab, lab.tokens);
  step.say("Now each rank computes R from what it sees, its view. SGLang {} does it like this:",
           done.report.generation->name);
  step.show(rank_table(done.step(), kLabRanks));
  if (done.ran()) step.show(picture_of(done.buffers[0][0]));
  step.say("{}: {}. Equal views, equal rule, equal R: nothing else holds the all-to-all together.",
           done.agrees() ? "They agree" : "They disagree", sizes_in_words(done));
  step.facts = {{"runtime_max_tokens_per_rank", as_json(done.sizes())}, {"agrees", done.agrees()}};
  return step;
}

LessonStep the_idle_rank(const Lab& lab) {
  LessonStep step;
  step.title = "A rank without requests must come along";
  const std::vector<std::int64_t> tokens = with_idle(lab);
  const Sync sync(batches_of(tokens));
  std::vector<std::int64_t> idle;
  for (std::size_t rank = 0; rank < sync.results.size(); ++rank)
    if (sync.results[rank].idle_batch_created) idle.push_back(static_cast<std::int64_t>(rank));
  const Experiment done = run_it(lab, tokens);
  const auto part = std::ranges::count_if(done.step().ranks, &ReplayedRank::takes_part);
  if (tokens != lab.tokens) step.say("Every rank has requests, so let one of the least busy have none.");
  step.say(
      "Requests {}: after the sync the schedulers of ranks {} have an idle batch, so that these ranks enter the "
      "all-to-all too. {} of {} ranks take part, and {}.",
      listed(tokens), listed(idle), part, done.step().ranks.size(), sizes_in_words(done));
  step.say("A rank that stayed away would leave the others waiting for its flags; and its experts are needed anyway.");
  step.facts = {{"tokens", tokens}, {"idle_ranks", idle}, {"taking_part", part}};
  return step;
}

Question which_list(const Lab& lab) {
  const std::vector<std::int64_t> tokens = lab.reordered();
  const Experiment done = run_it(lab, tokens);
  NumbersAnswer answer;
  for (const auto& size : done.sizes()) answer.right.push_back(size.value_or(0));
  return {fmt::format("The four ranks have {} requests and have exchanged their counts. Which R does each compute?",
                      listed(tokens)),
          answer,
          fmt::format("{}, for every rank sees the same list: {}", sizes_in_words(done),
                      text(done.step().ranks[0].decision.sizing.branch))};
}

}  // namespace

Lesson lesson_knowledge() {
  return {"Who knows what: the scheduler's all-gather",
          "how every rank learns every count, and what follows from the list",
          {alone, the_gather, the_votes, the_padding, the_rule, the_idle_rank},
          which_list};
}

}  // namespace a2asim
