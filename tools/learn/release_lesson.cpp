// Lesson 5: what to do on the release that you run.
#include <algorithm>

#include "model/check/check.h"
#include "model/engines/sglang/generation.h"
#include "tools/learn/lesson.h"
#include "tools/program/text.h"

namespace a2asim {
namespace {

constexpr std::string_view kGraphsVersion = "pr29461";  // only graphs disagree
constexpr std::string_view kEagerVersion = "pr25907";   // every step may

Parallel launch_of_lesson() { return with_graphs(collapsed(lab_parallel())); }

std::string_view verdict_of(const Lab& lab, const Parallel& parallel, std::string_view sglang) {
  return name(judge_deployment(*deployment_of(lab, lab_scenario(parallel, {}), sglang)).verdict);
}

std::string release_of(const Generation& version) {
  return version.releases.empty() ? std::string(version.name) : releases_in_words(version);
}

// The first release from which on the launch agrees.
std::string first_safe(const Lab& lab) {
  std::string safe;
  for (const Generation& version : generations()) {
    if (verdict_of(lab, launch_of_lesson(), version.name) != name(Verdict::agrees))
      safe.clear();
    else if (safe.empty() && !version.releases.empty())
      safe = version.releases.front().name;
  }
  return safe;
}

LessonStep by_release(const Lab& lab) {
  LessonStep step;
  step.title = "Which release has it";
  std::vector<std::vector<std::string>> rows = {{"release", "launch of lesson 3, with graphs"}};
  for (const Generation& version : generations()) {
    const std::string_view verdict = verdict_of(lab, launch_of_lesson(), version.name);
    rows.push_back({release_of(version), std::string(verdict)});
    step.facts["verdicts"][std::string(version.name)] = verdict;
  }
  step.say("You run a release, not a pull request. `a2asim check --sglang all` makes this table for your launch:");
  step.show(table(rows, {}));
  return step;
}

LessonStep upgrade(const Lab& lab) {
  LessonStep step;
  step.title = "First choice: upgrade";
  const std::string safe = first_safe(lab);
  step.say("{}", safe.empty() ? "No release agrees with this rule: change the rule."
                              : fmt::format("From {} on every release agrees, and nothing else has to change. `a2asim "
                                            "upgrade --to {} PATH` says what else moves: caps, defaults, options.",
                                            safe, safe));
  step.facts = {{"first_safe", safe}};
  return step;
}

LessonStep remove_a_flag(const Lab& lab) {
  LessonStep step;
  step.title = "Second choice: remove one flag";
  Parallel other_head = launch_of_lesson(), no_dense = other_head;
  other_head.enable_dp_lm_head = false;
  no_dense.moe_dense_tp_size.reset();
  std::vector<std::vector<std::string>> rows = {{"launch", std::string(kEagerVersion), std::string(kGraphsVersion)}};
  const std::pair<std::string, const Parallel*> launches[] = {{"without --enable-dp-lm-head", &other_head},
                                                              {"without --moe-dense-tp-size", &no_dense}};
  for (const auto& [words, parallel] : launches) {
    rows.push_back({words});
    for (const std::string_view sglang : {kEagerVersion, kGraphsVersion}) {
      const std::string_view verdict = verdict_of(lab, *parallel, sglang);
      rows.back().emplace_back(verdict);
      step.facts["verdicts"][words].push_back(verdict);
    }
  }
  step.say("Remove either flag, and every rank knows all counts again:");
  step.show(table(rows, {}));
  return step;
}

LessonStep without_graphs(const Lab& lab) {
  LessonStep step;
  step.title = "Last resort: no CUDA graphs";
  const Parallel eager = collapsed(lab_parallel());
  const std::string_view graphs = verdict_of(lab, eager, kGraphsVersion),
                         before = verdict_of(lab, eager, kEagerVersion);
  step.say("With --disable-cuda-graph, {} {}, and {} {}. So it helps only where eager steps agree.", kGraphsVersion,
           graphs, kEagerVersion, before);
  step.facts = {{"verdicts", {graphs, before}}};
  return step;
}

LessonStep afterwards(const Lab& lab) {
  LessonStep step;
  step.title = "Before and after, in memory";
  const Experiment broken = run(lab, lab_scenario(collapsed(lab_parallel()), {decode_step(lab.tokens)}), kEagerVersion);
  Parallel fixed_parallel = collapsed(lab_parallel());
  fixed_parallel.enable_dp_lm_head = false;
  const Experiment fixed = run(lab, lab_scenario(fixed_parallel, {decode_step(lab.tokens)}), kEagerVersion);
  for (const Experiment* done : {&broken, &fixed}) {
    step.say("{}: {}, verdict `{}`. Rank 0 finds:", done == &broken ? "As launched" : "Without --enable-dp-lm-head",
             sizes_in_words(*done), name(done->report.verdict));
    if (done->ran()) step.show(picture_of(done->buffers[0][0]));
    step.facts["verdicts"].push_back(name(done->report.verdict));
  }
  step.say("`a2asim check --diff serve.sh` prints the edit, `--fix` writes it.");
  return step;
}

Question does_it_help(const Lab& lab) {
  const Parallel eager = collapsed(lab_parallel());
  const std::string_view verdict = verdict_of(lab, eager, kEagerVersion);
  const bool helps = verdict == name(Verdict::agrees);
  return {
      fmt::format("You run {} with the launch of lesson 3. Is it safe or broken after you add --disable-cuda-graph?",
                  release_of(*find_generation(kEagerVersion)->generation)),
      ChoiceAnswer{{"safe", "broken"}, helps ? "safe" : "broken"},
      fmt::format("check says {}: {}", verdict,
                  helps ? "eager steps agree there" : "eager steps take each rank's own count, too")};
}

}  // namespace

Lesson lesson_release() {
  return {"What to do on your v0.5.x",
          "upgrade, remove a flag, or go without graphs: which of them cures your release",
          {by_release, upgrade, remove_a_flag, without_graphs, afterwards},
          does_it_help};
}

}  // namespace a2asim
