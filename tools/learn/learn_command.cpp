// a2asim learn: lessons in the terminal, computed while they are read.
#include <fmt/format.h>

#include <memory>
#include <optional>

#include "tools/learn/learn_formats.h"
#include "tools/program/commands.h"
#include "tools/program/input.h"
#include "tools/program/json_document.h"
#include "tools/program/template.h"
#include "tools/program/text.h"
#include "tools/report/page.h"

namespace a2asim {
namespace {

struct LearnArguments {
  std::optional<std::string> lesson, step, answer, tokens, report;
  std::string format = "text";
};

// "3,1,0,5"
Result<Lab> lab_of(const std::optional<std::string>& text) {
  Lab lab;
  if (!text) return lab;
  const auto refused = [&] {
    return unusable(fmt::format("--tokens takes {} numbers from 0 to {}, not all 0, such as {}, not '{}'", kLabRanks,
                                kLabMaxTokens, "3,1,0,5", one_line(*text, 60)));
  };
  lab.tokens.clear();
  for (std::size_t at = 0; at <= text->size();) {
    const std::size_t end = std::min(text->find(',', at), text->size());
    const auto count = parse_count("--tokens", text->substr(at, end - at), 0, kLabMaxTokens);
    if (!count) return refused();
    lab.tokens.push_back(*count);
    at = end + 1;
  }
  if (lab.tokens.size() != kLabRanks || lab.tokens[lab.busiest()] == 0) return refused();
  return lab;
}

enum class Reply : std::uint8_t { next, leave };

Reply wait_for_enter(Io& io) {
  io.err << "-- Enter: go on, q: leave -- " << std::flush;
  std::string line;
  if (!std::getline(io.in, line)) io.err << '\n';
  return !io.in || line.starts_with("q") ? Reply::leave : Reply::next;
}

// On a terminal: until there is an answer, or nothing more to read.
int ask(const Question& question, Io& io) {
  for (std::string line; true;) {
    io.err << "-- your answer, or Enter to leave -- " << std::flush;
    if (!std::getline(io.in, line) || line.empty() || line == "q") return kNothingWrong;
    const Result<bool> right = is_right(question, line);
    if (!right) {
      io.err << right.error().message << '\n';
      continue;
    }
    io.out << answer_as_text(question, *right, io.colour) << std::flush;
    return *right ? kNothingWrong : kErrorFound;
  }
}

int show_step(std::size_t number, std::size_t step, const Lab& lab, Io& io) {
  io.out << step_as_text(number, step, lessons()[number - 1].steps[step - 1](lab), io.colour);
  return kNothingWrong;
}

int show_lesson(std::size_t number, const Lab& lab, Io& io) {
  const Lesson& lesson = lessons()[number - 1];
  const bool waits = io.in_is_terminal && io.out_is_terminal;
  io.out << lesson_head_as_text(number, io.colour);
  for (std::size_t step = 1; step <= lesson.steps.size(); ++step) {
    show_step(number, step, lab, io);
    if (!waits) continue;
    io.out << std::flush;
    if (wait_for_enter(io) == Reply::leave) return kNothingWrong;
  }
  const Question question = lesson.question(lab);
  io.out << question_as_text(number, question, io.colour) << std::flush;
  return waits ? ask(question, io) : kNothingWrong;
}

Result<int> judge_answer(std::size_t number, const std::string& answer, bool as_json, const Lab& lab, Io& io) {
  const Question question = lessons()[number - 1].question(lab);
  const Result<bool> right = is_right(question, answer);
  if (!right) return tl::unexpected(right.error());
  io.out << (as_json ? print(lesson_as_json(number, 1, 0, lab, GivenAnswer{answer, *right}))
                     : answer_as_text(question, *right, io.colour));
  return *right ? kNothingWrong : kErrorFound;
}

Result<int> run_learn(const LearnArguments& options, const CommandLine& line, Io& io) {
  if (const auto none = refuse_launch(line); !none) return tl::unexpected(none.error());
  const Result<std::size_t> format = parse_choice("--format", options.format, {"text", "json"});
  if (!format) return tl::unexpected(format.error());
  const bool as_json = *format == 1;
  const Result<Lab> lab = lab_of(options.tokens);
  if (!lab) return tl::unexpected(lab.error());
  if (!options.lesson) {
    if (options.step || options.answer || options.tokens || options.report)
      return unusable("which lesson? Give its number first, as in `a2asim learn 3`");
    io.out << (as_json ? print(lessons_as_json()) : lessons_as_text());
    return kNothingWrong;
  }
  const auto number = parse_count("the lesson", *options.lesson, 1, std::ssize(lessons()));
  if (!number) return tl::unexpected(number.error());
  const auto lesson = static_cast<std::size_t>(*number);
  if (options.report) {
    if (auto written = write_page(*options.report, lesson_page(lesson, *lab)); !written)
      return tl::unexpected(written.error());
  }
  if (options.answer && options.step) return unusable("--answer answers the question of the lesson: leave out --step");
  if (options.answer) return judge_answer(lesson, *options.answer, as_json, *lab, io);
  const auto steps = lessons()[lesson - 1].steps.size();
  std::optional<std::size_t> only;
  if (options.step) {
    const auto step = parse_count("--step", *options.step, 1, static_cast<std::int64_t>(steps));
    if (!step) return tl::unexpected(step.error());
    only = static_cast<std::size_t>(*step);
  }
  if (!as_json) return only ? show_step(lesson, *only, *lab, io) : show_lesson(lesson, *lab, io);
  io.out << print(lesson_as_json(lesson, only.value_or(1), only.value_or(steps), *lab, std::nullopt));
  return kNothingWrong;
}

void add_options(CLI::App& command, LearnArguments& options) {
  add_value(command, "lesson", options.lesson, "N", "The number of a lesson; without it all are listed");
  add_value(command, "--step", options.step, "K", "Show only this step");
  add_value(command, "--answer", options.answer, "ANSWER",
            "Answer the lesson's question: says right or wrong, and why");
  add_value(command, "--tokens", options.tokens, "A,B,C,D",
            "Requests of the four ranks that the lesson is about; default 3,1,0,5");
  add_value(command, "--report", options.report, "OUT.html", "Write the lesson as one HTML page, too");
  add_value(command, "--format", options.format, "FORMAT", "text or json; default text");
  command.footer(help_text("learn.help"));
}

}  // namespace

void add_learn(CLI::App& program, CommandLine& line) {
  add_command<LearnArguments>(program, line, "learn", "Short lessons, computed live", add_options, run_learn);
}

}  // namespace a2asim
