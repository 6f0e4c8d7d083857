// Lesson 4: capture and replay: what is baked.
#include <algorithm>

#include "model/engines/sglang/generation.h"
#include "tools/learn/lesson.h"
#include "tools/program/text.h"
#include "tools/replay/replay_formats.h"

namespace a2asim {
namespace {

Scenario graph_scenario(const std::vector<std::int64_t>& tokens) {
  return lab_scenario(with_graphs(collapsed(lab_parallel())), {decode_step(tokens)});
}

std::vector<std::int64_t> buckets_of(const Experiment& done) {
  std::vector<std::int64_t> buckets;
  for (const ReplayedRank& rank : done.step().ranks) buckets.push_back(rank.decision.bucket);
  return buckets;
}

LessonStep the_buckets(const Lab& lab) {
  LessonStep step;
  step.title = "A graph is a recording";
  const auto deployment = deployment_of(lab, graph_scenario(lab.tokens), kBucketOfEach);
  step.say(
      "Decoding is launched from CUDA graphs: the server records the step once for some batch sizes, the buckets {}, "
      "and later plays the recording. A batch is padded up to its bucket.",
      listed(deployment->capture_bs));
  step.say(
      "No Python runs at replay: no sizing rule, no check. Whatever R was at capture is baked into the recording.");
  step.facts = {{"capture_bs", deployment->capture_bs}};
  return step;
}

LessonStep what_is_baked(const Lab& lab) {
  LessonStep step;
  step.title = "What each version bakes";
  std::vector<std::vector<std::string>> rows = {{"bucket"}};
  bool equal = true;
  for (const std::string_view sglang : {kStaticCap, kBucketOfEach, kOneBucket}) {
    const auto deployment = deployment_of(lab, graph_scenario(lab.tokens), sglang);
    rows[0].push_back(fmt::format("R, {}", sglang));
    rows.resize(std::max(rows.size(), deployment->capture_bs.size() + 1));
    for (std::size_t i = 0; i < deployment->capture_bs.size(); ++i) {
      const SizingDecision& baked = deployment->baked_at(i, 0);
      for (std::size_t rank = 1; rank < kLabRanks; ++rank)
        equal = equal && deployment->baked_at(i, rank).runtime_max_tokens_per_rank == baked.runtime_max_tokens_per_rank;
      if (rows[i + 1].empty()) rows[i + 1].push_back(std::to_string(deployment->capture_bs[i]));
      rows[i + 1].push_back(std::to_string(baked.runtime_max_tokens_per_rank));
      step.facts["baked"][std::string(sglang)].push_back(baked.runtime_max_tokens_per_rank);
    }
    const SizingDecision& last = deployment->baked.back().front();
    step.say("{}: {}.", sglang, text(last.branch));
  }
  step.show(table(rows, {0, 1, 2, 3}));
  step.say(
      "{}",
      equal ? "While capturing, all ranks record the same bucket at the same time: every number here is equal on all "
              "ranks. The question is which bucket a rank plays later."
            : "While capturing, ranks come to different numbers already; this table shows rank 0.");
  return step;
}

LessonStep own_bucket(const Lab& lab) {
  LessonStep step;
  step.title = "Under the collapse each rank picks its own bucket";
  const Experiment done = run(lab, graph_scenario(lab.tokens), kBucketOfEach);
  step.say("With {} and the launch of lesson 3, a rank knows only its own requests, {}:", kBucketOfEach,
           listed(lab.tokens));
  step.show(rank_table(done.step(), kLabRanks));
  step.say("The buckets are {}, so that {}.", listed(buckets_of(done)), sizes_in_words(done));
  step.facts = {{"buckets", buckets_of(done)}, {"runtime_max_tokens_per_rank", as_json(done.sizes())}};
  return step;
}

LessonStep the_damage(const Lab& lab) {
  LessonStep step;
  step.title = "What comes of it";
  const Experiment done = run(lab, graph_scenario(lab.tokens), kBucketOfEach);
  std::int64_t tokens = 0;
  for (const std::int64_t one : lab.tokens) tokens += one;
  step.say("Verdict `{}`; tokens that come out wrong: {} of {}.", name(done.report.verdict), done.report.bad_tokens,
           tokens);
  step.show({fmt::format("wrong outputs  {}", bar(done.report.bad_tokens, tokens))});
  if (done.ran()) {
    const ReceiveBuffer& buffer = *std::ranges::max_element(done.buffers[0], {}, &ReceiveBuffer::wrong);
    step.show(picture_of(buffer));
  }
  const auto garbage = done.report.counts[static_cast<std::size_t>(FindingKind::expert_id_out_of_range)];
  step.say("{}",
           garbage > 0
               ? fmt::format("Rows that give the experts an id that no expert has: {}; on a GPU an illegal memory "
                             "access.",
                             garbage)
               : "No row gives the experts an id that no expert has, this time; what an unwritten row holds is left "
                 "to chance, and on a GPU such an id is an illegal memory access.");
  step.say("{}", done.report.bad_tokens > 0
                     ? "That is how sglang #30242 looked, far from its cause."
                     : "With these counts nothing shows of sglang #30242; `--tokens 3,1,0,5` shows how it looked.");
  step.facts = {
      {"verdict", name(done.report.verdict)}, {"bad_tokens", done.report.bad_tokens}, {"garbage_ids", garbage}};
  return step;
}

LessonStep equal_batches(const Lab& lab) {
  LessonStep step;
  step.title = "Why a benchmark does not see it";
  const std::vector<std::int64_t> equal(kLabRanks, lab.tokens[lab.busiest()]);
  const Experiment done = run(lab, graph_scenario(equal), kBucketOfEach);
  step.say("Let every rank have {}: the buckets are {}, {}; wrong tokens: {} (verdict `{}`).",
           counted(static_cast<std::size_t>(equal[0]), "request"), listed(buckets_of(done)), sizes_in_words(done),
           done.report.bad_tokens, name(done.report.verdict));
  step.say(
      "Balanced load, or a test with one prompt on every rank, passes; production, where batches differ, does not.");
  step.facts = {{"tokens", equal}, {"verdict", name(done.report.verdict)}, {"buckets", buckets_of(done)}};
  return step;
}

LessonStep common_bucket(const Lab& lab) {
  LessonStep step;
  step.title = "The fix: one bucket for all";
  const Experiment done = run(lab, graph_scenario(lab.tokens), kOneBucket);
  step.say(
      "{} keeps the list of counts, so that every rank looks for the first bucket that holds the largest count, {}:",
      kOneBucket, lab.tokens[lab.busiest()]);
  step.show(rank_table(done.step(), kLabRanks));
  step.say("Buckets {}, and {} (verdict `{}`).", listed(buckets_of(done)), sizes_in_words(done),
           name(done.report.verdict));
  step.facts = {{"buckets", buckets_of(done)},
                {"runtime_max_tokens_per_rank", as_json(done.sizes())},
                {"verdict", name(done.report.verdict)}};
  return step;
}

Question which_buckets(const Lab& lab) {
  std::vector<std::int64_t> tokens = lab.tokens;
  std::ranges::reverse(tokens);
  const Experiment own = run(lab, graph_scenario(tokens), kBucketOfEach);
  const Experiment common = run(lab, graph_scenario(tokens), kOneBucket);
  const auto rank = static_cast<std::size_t>(std::ranges::min_element(tokens) - tokens.begin());  // where they differ
  NumbersAnswer answer{{own.step().ranks[rank].decision.bucket, common.step().ranks[rank].decision.bucket}};
  const auto capture = deployment_of(lab, graph_scenario(tokens), kOneBucket)->capture_bs;
  return {fmt::format("Buckets {}, requests {}. Which bucket does rank {} replay under {}, and which under {}?",
                      listed(capture), listed(tokens), rank, kBucketOfEach, kOneBucket),
          answer,
          fmt::format("{} looks at rank {}'s own count {}: {}; {} looks at all counts: {}", kBucketOfEach, rank,
                      tokens[rank], answer.right[0], kOneBucket, answer.right[1])};
}

}  // namespace

Lesson lesson_graphs() {
  return {"Capture and replay: what is baked",
          "CUDA graphs keep the R of capture, and ranks may replay unequal buckets (sglang #30242)",
          {the_buckets, what_is_baked, own_bucket, the_damage, equal_batches, common_bucket},
          which_buckets};
}

}  // namespace a2asim
