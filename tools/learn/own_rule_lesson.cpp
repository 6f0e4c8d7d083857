// Lesson 7: write your own rule and let explore break it.
#include <algorithm>

#include "model/base/check_invariant.h"
#include "model/engines/sglang/generation.h"
#include "sim/explore/explore.h"
#include "tools/learn/lesson.h"
#include "tools/program/engine_process.h"
#include "tools/program/text.h"

namespace a2asim {
namespace {

constexpr std::string_view kAround = "pr29461";  // whose predicate, padding, buckets and cap surround the rule
constexpr std::int64_t kBudget_cases = 30'000;   // of the smallest configurations: every class of two ranks occurs

bool knows_all(const RankView& view) { return view.dp_global && view.dp_global->size() > 1; }

struct OwnRule {
  std::string_view code;  // as one would write it
  std::int64_t (*size)(const RankView&);
};

constexpr OwnRule kRows = {"rows", [](const RankView& view) { return view.rows; }};
constexpr OwnRule kListOrRows = {"max(list) if list else rows", [](const RankView& view) {
                                   return knows_all(view) ? std::ranges::max(*view.dp_global) : view.rows;
                                 }};
constexpr OwnRule kCapRule = {"max_num_tokens", [](const RankView& view) { return view.max_num_tokens; }};
constexpr OwnRule kListOrCap = {"max(list) if list else max_num_tokens", [](const RankView& view) {
                                  return knows_all(view) ? std::ranges::max(*view.dp_global) : view.max_num_tokens;
                                }};
constexpr OwnRule kRounded = {"max(list) if list else rows, rounded up to a multiple of 8", [](const RankView& view) {
                                return knows_all(view) ? std::ranges::max(*view.dp_global)
                                                       : align_up(std::max<std::int64_t>(view.rows, 1), 8);
                              }};

Result<SizingDecision> decide(const OwnRule& rule, const RankView& view) {
  SizingDecision decision;
  decision.runtime_max_tokens_per_rank = rule.size(view);
  return decision;
}

GenerationExploration explored(const OwnRule& rule) {
  ExploreOptions options;
  options.rule = [rule](const RankView& view) { return decide(rule, view); };
  options.budget_cases = kBudget_cases;
  return explore(*find_generation(kAround)->generation, options);
}

// Layouts without an aggravation: the cap is the default, and the schedulers exchange what they are asked to.
bool is_plain(std::size_t exploring_class) {
  const std::size_t extra = exploring_class % kExploreExtras;
  return extra == static_cast<std::size_t>(ExploreExtra::none) ||
         extra == static_cast<std::size_t>(ExploreExtra::speculative);
}

// The smallest error among plain classes, or among the others.
const ExploreWitness* first_error(const GenerationExploration& found, bool plain) {
  const ExploreWitness* first = nullptr;
  for (std::size_t i = 0; i < kExploreClasses; ++i) {
    if (is_plain(i) != plain) continue;
    for (const ExploreCell& cell : found.classes[i].cells) {
      for (const ExploreOutcome outcome : {ExploreOutcome::overflow, ExploreOutcome::disagrees}) {
        const auto& witness = cell.witness[static_cast<std::size_t>(outcome)];
        if (witness && (first == nullptr || witness->comes_before(*first))) first = &*witness;
      }
    }
  }
  return first;
}

std::string in_words(const ExploreWitness& witness) {
  const CheckWitness& batch = *witness.finding.witness;
  return fmt::format("{} ranks, {}, {} {}: R = {}", witness.ranks, name(witness.finding.phase),
                     witness.finding.phase == Phase::prefill ? "tokens" : "requests", listed(batch.tokens_per_dp_rank),
                     listed(batch.runtime_max_tokens_per_rank));
}

// The first two sizes of the batch that differ.
void show_strip(const ExploreWitness& witness, LessonStep& step) {
  const auto& sizes = witness.finding.witness->runtime_max_tokens_per_rank;
  for (const auto& size : sizes)
    if (size && sizes[0] && *size > 0 && *sizes[0] > 0 && *size != *sizes[0])
      return step.show(two_sizes(*sizes[0], *size));
}

// Says what explore makes of a rule, and shows the smallest batch that breaks it.
void try_out(LessonStep& step, const OwnRule& rule) {
  const GenerationExploration found = explored(rule);
  const ExploreWitness* broken = first_error(found, true);
  const std::int64_t errors = found.count(ExploreOutcome::disagrees) + found.count(ExploreOutcome::overflow);
  step.show({fmt::format("R = {}", rule.code)});
  step.say("explore tries {} cases on the {} smallest configurations around {}: {} disagree or overflow.", found.cases,
           found.configurations, kAround, errors);
  if (broken != nullptr) {
    step.say("The smallest that breaks it:");
    step.show({in_words(*broken)});
    show_strip(*broken, step);
    for (const std::string& line : broken->finding.chain) step.say("- {}", line);
  } else {
    step.say(
        "None of these is a plain launch: with the default cap, and schedulers that exchange what they are asked to, "
        "nothing breaks it.");
    if (const ExploreWitness* hard = first_error(found, false)) {
      step.say("The smallest of the others:");
      step.show({in_words(*hard)});
    }
  }
  step.facts = {{"rule", rule.code},
                {"cases", found.cases},
                {"errors", errors},
                {"broken", broken != nullptr},
                {"wasteful", found.count(ExploreOutcome::wasteful)}};
  if (broken != nullptr) step.facts["witness"] = in_words(*broken);
}

LessonStep what_a_rule_sees(const Lab& lab) {
  LessonStep step;
  step.title = "What a rule sees";
  std::vector<nlohmann::ordered_json> views;
  Lab watched = lab;
  watched.rule = [&](const RankView& view) {
    const bool is_step = !view.capture;
    if (is_step && std::ssize(views) < std::ssize(lab.tokens)) views.push_back(view_as_json(view));
    return decide(kListOrRows, view);
  };
  run(watched, lab_scenario(lab_parallel(), {decode_step(lab.tokens)}), kAround);
  A2ASIM_INVARIANT(!views.empty(), "the rule was asked");
  step.say(
      "A sizing rule is a function from the view of one rank to R. This is all that rank {} knows in a step with "
      "requests {}, as a program of your own gets it, in one line:",
      views[0]["ep_rank"].get<int>(), listed(lab.tokens));
  std::vector<std::string> lines;
  for (const auto& [key, value] : views[0].items()) lines.push_back(fmt::format("{:<22} {}", key, value.dump()));
  step.show(lines);
  step.say("dp_global is the list of lesson 2; under the collapse it has one entry.");
  step.facts = {{"view", views[0]}};
  return step;
}

LessonStep first_try(const Lab&) {
  LessonStep step;
  step.title = "First try: what I have";
  try_out(step, kRows);
  return step;
}

LessonStep second_try(const Lab&) {
  LessonStep step;
  step.title = "Second try: the list, if there is one";
  try_out(step, kListOrRows);
  return step;
}

LessonStep third_try(const Lab&) {
  LessonStep step;
  step.title = "Third try: a constant";
  try_out(step, kCapRule);
  step.say("{} of the cases are wasteful: R is at least four times the rows of the fullest rank.",
           step.facts["wasteful"].get<std::int64_t>());
  return step;
}

LessonStep fourth_try(const Lab&) {
  LessonStep step;
  step.title = "Fourth try: the list, or else the constant";
  try_out(step, kListOrCap);
  step.say("{} of the cases are wasteful; with the constant alone it was {}.",
           step.facts["wasteful"].get<std::int64_t>(), explored(kCapRule).count(ExploreOutcome::wasteful));
  return step;
}

LessonStep your_turn(const Lab&) {
  LessonStep step;
  step.title = "Your turn";
  RankView view;
  const std::vector<std::int64_t> list = {3, 1};
  view.dp_global = list;
  view.ep_size = 2;
  view.rows = list[0];
  step.say("Write a program that reads one JSON object a line and answers each with one line, unbuffered. In Python:");
  step.show({"import json, sys", "for line in sys.stdin:", "    view = json.loads(line)",
             "    size = ...  # from the fields of the first step",
             R"(    print(json.dumps({"id": view["id"], "runtime_max_tokens_per_rank": size}), flush=True))"});
  step.say("For dp_global {} and rows {} the fourth rule would answer {}. Then let explore try to break it:",
           listed(list), view.rows, kListOrCap.size(view));
  step.show({fmt::format("a2asim explore --sglang {} --rule-cmd \"python3 my_rule.py\"", kAround)});
  step.say(
      "Exit code 0 means that nothing was found; the smallest example batch comes as a scenario for `a2asim replay`.");
  step.facts = {{"answer", kListOrCap.size(view)}};
  return step;
}

Question safe_or_broken(const Lab&) {
  const GenerationExploration found = explored(kRounded);
  const ExploreWitness* broken = first_error(found, true);
  return {fmt::format("R = {}. Around {}, on plain launches: safe or broken?", kRounded.code, kAround),
          ChoiceAnswer{{"safe", "broken"}, broken == nullptr ? "safe" : "broken"},
          broken == nullptr ? fmt::format("explore finds no plain launch that breaks it in {} cases", found.cases)
                            : "rounding only makes it rarer: " + in_words(*broken)};
}

}  // namespace

Lesson lesson_own_rule() {
  return {"Write your own rule and let explore break it",
          "four rules, the smallest batch that breaks each, and how to plug in a fifth",
          {what_a_rule_sees, first_try, second_try, third_try, fourth_try, your_turn},
          safe_or_broken};
}

}  // namespace a2asim
