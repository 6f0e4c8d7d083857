// Lesson 6: reading what check prints.
#include <algorithm>
#include <sstream>

#include "model/check/check.h"
#include "model/engines/sglang/generation.h"
#include "tools/check/check_formats.h"
#include "tools/learn/lesson.h"
#include "tools/program/text.h"

namespace a2asim {
namespace {

CheckReport report_of(const Lab& lab, std::string_view sglang) {
  return check_deployment(*deployment_of(lab, lab_scenario(with_graphs(collapsed(lab_parallel())), {}), sglang));
}

// The first error, or the first finding at all.
const CheckFinding& first_of(const CheckReport& report) { return report.findings.front(); }

std::vector<std::string> printed(const CheckReport& report) {
  std::vector<std::string> lines;
  std::istringstream text(check_as_text(report, {.verbose = true}));
  for (std::string line; std::getline(text, line);) lines.push_back(std::move(line));
  return lines;
}

// The lines between the one that begins with `from` and the next label.
std::vector<std::string> part(const std::vector<std::string>& lines, std::string_view label) {
  std::vector<std::string> out;
  const auto begins = [&](const std::string& line) { return line.starts_with("  " + std::string(label)); };
  for (auto at = std::ranges::find_if(lines, begins); at != lines.end(); ++at) {
    if (!out.empty() && !at->starts_with("            ")) break;
    out.push_back(*at);
  }
  return out;
}

LessonStep the_verdict(const Lab& lab) {
  LessonStep step;
  step.title = "The verdict comes first";
  const CheckReport report = report_of(lab, kBucketOfEach);
  const std::vector<std::string> lines = printed(report);
  step.show({lines.begin(), lines.begin() + std::min<std::ptrdiff_t>(std::ssize(lines), 4)});
  step.say("The verdict is `{}`. It is about sizes; below it stand the layout, the cap and where the cap comes from.",
           name(report.verdict));
  step.say("Above it, the program says which version it judged by, and why: an option, a comment, the image, or none.");
  step.facts = {{"verdict", name(report.verdict)}};
  return step;
}

LessonStep the_batch(const Lab& lab) {
  LessonStep step;
  step.title = "The smallest batch that shows it";
  const CheckReport report = report_of(lab, kBucketOfEach);
  const CheckFinding& first = first_of(report);
  step.show(part(printed(report), "batch"));
  if (first.witness) {
    step.say("{} requests are enough: with {}, the ranks take R = {}.", first.witness->tokens_per_dp_rank.front(),
             listed(first.witness->tokens_per_dp_rank), listed(first.witness->runtime_max_tokens_per_rank));
    step.facts = {{"runtime_max_tokens_per_rank", as_json(first.witness->runtime_max_tokens_per_rank)}};
  } else {
    step.say("No batch is shown: {}.", first.message);
    step.facts = {{"finding", name(first.kind)}};
  }
  step.say("Read it as an experiment: send these requests, and look at what each rank does.");
  return step;
}

LessonStep the_fix(const Lab& lab) {
  LessonStep step;
  step.title = "The fix";
  const CheckReport report = report_of(lab, kBucketOfEach);
  const CheckFinding& first = first_of(report);
  step.show(part(printed(report), "fix"));
  step.say(
      "These are {} ways out; any one of them is enough. `--diff` prints the first that is an edit of the command.",
      first.fixes.size());
  step.facts = {{"fixes", first.fixes.size()}};
  return step;
}

LessonStep in_memory(const Lab& lab) {
  LessonStep step;
  step.title = "What it means in memory";
  const CheckReport report = report_of(lab, kBucketOfEach);
  const CheckFinding& first = first_of(report);
  if (!first.witness) {
    step.say("There is no batch to draw: {}.", first.message);
    step.facts = {{"finding", name(first.kind)}};
    return step;
  }
  const Parallel parallel = with_graphs(collapsed(lab_parallel()));
  const Experiment done =
      run(lab, lab_scenario(parallel, {decode_step(first.witness->tokens_per_dp_rank)}), kBucketOfEach);
  step.say("`--report page.html` draws it; here is the buffer in which most is wrong:");
  if (done.ran()) step.show(picture_of(*std::ranges::max_element(done.buffers[0], {}, &ReceiveBuffer::wrong)));
  step.say("Replayed with real bytes: verdict `{}`, {} tokens wrong.", name(done.report.verdict),
           done.report.bad_tokens);
  step.facts = {{"verdict", name(done.report.verdict)}, {"bad_tokens", done.report.bad_tokens}};
  return step;
}

LessonStep good_news(const Lab& lab) {
  LessonStep step;
  step.title = "When it agrees";
  const CheckReport report = report_of(lab, kOneBucket);
  const auto notes = std::ranges::count(report.findings, Severity::note, &CheckFinding::severity);
  const std::vector<std::string> lines = printed(report);
  step.show({lines.begin(), lines.begin() + std::min<std::ptrdiff_t>(std::ssize(lines), 3)});
  step.say(
      "With {} the verdict is `{}`, and the exit code is {}. {} notes say what the command leaves open, such as "
      "limits that follow from the memory of the GPU.",
      kOneBucket, name(report.verdict), report.has_error() ? 1 : 0, notes);
  step.facts = {{"verdict", name(report.verdict)}, {"notes", notes}};
  return step;
}

Question which_verdict(const Lab& lab) {
  const CheckReport report = report_of(lab, kBucketOfEach);
  const CheckFinding& first = first_of(report);
  std::int64_t size = 0;
  if (first.witness) size = first.witness->runtime_max_tokens_per_rank.front().value_or(0);
  return {fmt::format("check {} prints this. Which R does rank 0 take in the batch that it shows? {}", kBucketOfEach,
                      first.message),
          NumbersAnswer{{size}}, "the first entry of the sizes is rank 0's"};
}

}  // namespace

Lesson lesson_check() {
  return {"Reading what check prints",
          "verdict, batch, fix, memory: what each line of the output is for",
          {the_verdict, the_batch, the_fix, in_memory, good_news},
          which_verdict};
}

}  // namespace a2asim
