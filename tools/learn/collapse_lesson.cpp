// Lesson 3: the collapse.
#include <algorithm>

#include "model/engines/sglang/deployment.h"
#include "tools/learn/lesson.h"
#include "tools/program/text.h"
#include "tools/replay/replay_formats.h"

namespace a2asim {
namespace {

constexpr std::string_view kCollapse = "pr25907";  // the newest version with the collapse that rounds no counts
constexpr std::string_view kRounds = "pr26643";    // the first that pads counts to an even number

Scenario collapsed_scenario(const std::vector<std::int64_t>& tokens) {
  return lab_scenario(collapsed(lab_parallel()), {decode_step(tokens)});
}

Experiment run_collapsed(const Lab& lab) { return run(lab, collapsed_scenario(lab.tokens), kCollapse); }

LessonStep the_flags(const Lab& lab) {
  LessonStep step;
  step.title = "Two flags, and the list is gone";
  const auto plain = deployment_of(lab, lab_scenario(lab_parallel(), {}), kCollapse);
  const auto deployment = deployment_of(lab, collapsed_scenario(lab.tokens), kCollapse);
  step.say(
      "Whether the all-gather's list is kept is decided by a predicate, require_mlp_tp_gather. In SGLang {} it is "
      "{} for the launch of lesson 2: {}.",
      kCollapse, sglang_part(*plain).require_mlp_tp_gather,
      explain(sglang_part(*plain).generation().gather, gather_inputs(sglang_part(*plain))));
  step.say("Add --moe-dense-tp-size {} and --enable-dp-lm-head, and it is {}: {}.",
           sglang_part(*deployment).args.moe_dense_tp_size.value_or(0), sglang_part(*deployment).require_mlp_tp_gather,
           explain(sglang_part(*deployment).generation().gather, gather_inputs(sglang_part(*deployment))));
  std::vector<std::vector<std::string>> conditions = {{"any one of", "needed", "yours"}};
  for (const Condition& one : sglang_part(*deployment).unmet_conditions())
    conditions.push_back({one.what, one.needed, one.yours});
  if (conditions.size() > 1) step.show(table(conditions, {}));
  step.say("{}",
           sglang_part(*deployment).require_mlp_tp_gather
               ? "The list stays."
               : "Dense layers no longer need the others' counts, so the scheduler keeps a list of one entry, its own "
                 "count. That is the collapse. But the all-to-all still needs them.");
  step.facts = {{"require_mlp_tp_gather",
                 {{"plain", sglang_part(*plain).require_mlp_tp_gather},
                  {"with_flags", sglang_part(*deployment).require_mlp_tp_gather}}}};
  return step;
}

LessonStep the_sizes(const Lab& lab) {
  LessonStep step;
  step.title = "Every rank for itself";
  const Experiment done = run_collapsed(lab);
  step.show(rank_table(done.step(), kLabRanks));
  step.say("The verdict is `{}`: {}. {}", name(done.report.verdict), sizes_in_words(done),
           done.agrees() ? "With these counts it goes well by accident; `--tokens 3,1,0,5` shows when it does not."
                         : "Nothing checks it, for nobody ever sends R.");
  step.facts = {{"runtime_max_tokens_per_rank", as_json(done.sizes())}, {"verdict", name(done.report.verdict)}};
  return step;
}

// The buffer in which most is wrong.
const ReceiveBuffer& worst(const Experiment& done) {
  return *std::ranges::max_element(done.buffers[0], {}, &ReceiveBuffer::wrong);
}

LessonStep the_split_buffer(const Lab& lab) {
  LessonStep step;
  step.title = "Written by one R, read by another";
  const Experiment done = run_collapsed(lab);
  if (!done.ran()) return step;
  const ReceiveBuffer& buffer = worst(done);
  std::size_t all = 0;
  for (const ReceiveBuffer& one : done.buffers[0]) all += one.wrong();
  step.say(
      "Sender s puts slot k at row s * R + k with its own R; the receiver looks there with its own. What rank {} "
      "finds:",
      buffer.rank);
  step.show(picture_of(buffer));
  step.say("A mark (!) stands where another token should be: {} slots here, {} over all ranks.", buffer.wrong(), all);
  step.facts = {{"rank", buffer.rank}, {"wrong_slots", buffer.wrong()}, {"wrong_slots_of_all", all}};
  return step;
}

LessonStep the_chain(const Lab& lab) {
  LessonStep step;
  step.title = "One token's way into the wrong row";
  const Experiment done = run_collapsed(lab);
  const auto found = std::ranges::find_if(done.step().findings, [](const Finding& one) { return one.row.has_value(); });
  if (found == done.step().findings.end()) {
    step.say("In this run every row that is read holds what it should.");
  } else {
    const RowEvidence& row = *found->row;
    step.say("The first of the simulator's findings about rows: {}.", describe(*found));
    step.say(
        "The reader's R puts the row at byte {}, the writer's R put it at byte {}: {} bytes apart, in a buffer that "
        "both believe to be their own.",
        row.expected_offset, row.written_offset, std::abs(row.expected_offset - row.written_offset));
    step.facts = {
        {"kind", name(found->kind)}, {"expected_offset", row.expected_offset}, {"written_offset", row.written_offset}};
  }
  std::int64_t all = 0;
  for (const FindingKind kind : {FindingKind::misplaced, FindingKind::stale, FindingKind::unwritten, FindingKind::torn})
    all += done.report.counts[static_cast<std::size_t>(kind)];
  step.say("Rows that were read and hold something else than they should, in all regions and payloads: {}.", all);
  step.facts["rows_in_all"] = all;
  return step;
}

LessonStep the_output(const Lab& lab) {
  LessonStep step;
  step.title = "What the model answers";
  const Experiment done = run_collapsed(lab);
  const auto count = [&](FindingKind kind) { return done.report.counts[static_cast<std::size_t>(kind)]; };
  const std::int64_t nan = count(FindingKind::nan_output), wrong = count(FindingKind::wrong_output);
  const auto raised =
      std::ranges::count_if(done.step().ranks, [](const auto& rank) { return rank.decision.raised.has_value(); });
  std::int64_t tokens = 0;
  for (const std::int64_t one : lab.tokens) tokens += one;
  step.say(
      "Ranks that raised an error: {}. Of {} tokens, NaN: {}; finite and wrong, which is worse (fluent text that "
      "means nothing): {}.",
      raised, tokens, nan, wrong);
  step.show({fmt::format("wrong outputs  {}", bar(nan + wrong, tokens))});
  step.say("{}", nan + wrong == 0 ? "With these counts nothing shows; a test with equal batches finds nothing either."
                                  : "On a GPU, what was left in the buffer by earlier steps decides what it will be.");
  step.facts = {{"raised", raised}, {"tokens", tokens}, {"nan_output", nan}, {"wrong_output", wrong}};
  return step;
}

// The first finding about who does not come through the step.
std::string why_it_stops(const Experiment& done) {
  if (done.report.steps.empty()) return done.report.why;
  for (std::size_t rank = 0; rank < done.step().ranks.size(); ++rank)
    if (const auto& raised = done.step().ranks[rank].decision.raised)
      return fmt::format("rank {} raises {}", rank, raised->message);
  for (const Finding& found : done.step().findings)
    if (found.kind == FindingKind::missing_rank) return describe(found);
  return done.step().findings.empty() ? "" : describe(done.step().findings.front());
}

LessonStep the_versions(const Lab& lab) {
  LessonStep step;
  step.title = "Which versions have it";
  std::vector<std::vector<std::string>> rows = {{"release", "rules", "R of each rank", "verdict", "wrong tokens"}};
  std::string stop, branches, rounded;
  for (const Generation& generation : generations()) {
    const Experiment done = run(lab, collapsed_scenario(lab.tokens), generation.name);
    rows.push_back({generation.releases.empty() ? "-" : releases_in_words(generation), std::string(generation.name),
                    listed(done.sizes()), std::string(name(done.report.verdict)),
                    done.ran() ? std::to_string(done.report.bad_tokens) : "stops"});
    step.facts["verdicts"][std::string(generation.name)] = name(done.report.verdict);
    if (!done.ran() && stop.empty()) stop = why_it_stops(done);
    if (generation.name == kRounds && !done.agrees()) rounded = generation.name;
    if (generation.name == kStaticCap || generation.name == kOneBucket)
      branches += fmt::format("{}{} takes {}", branches.empty() ? "" : "; ", generation.name,
                              text(done.step().ranks[0].decision.sizing.branch));
  }
  step.say("The same launch and the same requests, with the rules of every version:");
  step.show(table(rows, {4}));
  if (!rounded.empty())
    step.say(
        "{} rounds every count up to a multiple of 2 before a rank computes R, and an idle rank sends a dummy row: "
        "that is why its sizes are not the requests {}.",
        rounded, listed(lab.tokens));
  if (!stop.empty()) step.say("\"stops\": {}.", stop);
  step.say("Two ways out, which lessons 8 and 4 look at: {}.", branches);
  return step;
}

LessonStep ways_out(const Lab& lab) {
  LessonStep step;
  step.title = "Ways out";
  Parallel other_head = collapsed(lab_parallel()), no_dense = other_head;
  other_head.enable_dp_lm_head = false;
  no_dense.moe_dense_tp_size.reset();
  const Experiment head = run(lab, lab_scenario(other_head, {decode_step(lab.tokens)}), kCollapse);
  const Experiment dense = run(lab, lab_scenario(no_dense, {decode_step(lab.tokens)}), kCollapse);
  const Experiment fixed = run(lab, collapsed_scenario(lab.tokens), kOneBucket);
  step.say(
      "Leave out one of the two flags, still with {}. Without --enable-dp-lm-head: {} (verdict `{}`). Without "
      "--moe-dense-tp-size: {} (verdict `{}`).",
      kCollapse, sizes_in_words(head), name(head.report.verdict), sizes_in_words(dense), name(dense.report.verdict));
  step.say("Or keep the flags and take {}: {} (verdict `{}`).", kOneBucket, sizes_in_words(fixed),
           name(fixed.report.verdict));
  step.say("`a2asim check` finds the collapse in a launch command before anything is started.");
  step.facts = {{"without_dp_lm_head", name(head.report.verdict)},
                {"without_moe_dense_tp_size", name(dense.report.verdict)},
                {"with_fix", name(fixed.report.verdict)}};
  return step;
}

Question which_sizes(const Lab& lab) {
  const std::vector<std::int64_t> tokens = lab.reordered();
  const Experiment done = run(lab, collapsed_scenario(tokens), kCollapse);
  NumbersAnswer answer;
  for (const auto& size : done.sizes()) answer.right.push_back(size.value_or(0));
  return {fmt::format("The same collapsed launch under {}, and the ranks have {} requests. Which R does each compute?",
                      kCollapse, listed(tokens)),
          answer,
          fmt::format("each takes {}: {}", text(done.step().ranks[0].decision.sizing.branch), listed(done.sizes()))};
}

}  // namespace

Lesson lesson_collapse() {
  return {"The collapse",
          "two flags take the list away, sizes differ, and rows land in wrong slots (sglang #27945)",
          {the_flags, the_sizes, the_split_buffer, the_chain, the_output, the_versions, ways_out},
          which_sizes};
}

}  // namespace a2asim
