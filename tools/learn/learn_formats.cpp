#include "tools/learn/learn_formats.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tools/program/json_document.h"
#include "tools/program/template.h"
#include "tools/program/text.h"
#include "tools/report/page.h"

namespace a2asim {
namespace {

std::string strong(std::string_view text, bool colour, std::string_view code = "1") {
  return painted(text, code, colour);
}

std::string as_indented(std::string_view paragraph, std::size_t indent) {
  std::string out;
  for (const std::string& line : wrap(paragraph, kTextWidth - indent, paragraph.starts_with("- ") ? 2 : 0))
    out += std::string(indent, ' ') + line + '\n';
  return out;
}

nlohmann::ordered_json step_as_json(std::size_t at, const LessonStep& step) {
  nlohmann::ordered_json text = nlohmann::ordered_json::array(), pictures = nlohmann::ordered_json::array();
  for (const LessonBlock& block : step.blocks) {
    if (block.is_picture)
      pictures.push_back(block.lines);
    else
      text.push_back(block.lines.front());
  }
  return {{"step", at}, {"title", step.title}, {"text", text}, {"pictures", pictures}, {"facts", step.facts}};
}

}  // namespace

std::string lessons_as_text() {
  std::string out = "Lessons about the size of the all-to-all; each computes what it says when it is run:\n";
  for (std::size_t i = 0; i < lessons().size(); ++i) {
    const Lesson& lesson = lessons()[i];
    out += fmt::format("  {}  {} ({})\n     {}\n", i + 1, lesson.title, counted(lesson.steps.size(), "step"),
                       lesson.about);
  }
  return out + "`a2asim learn 1` begins.\n";
}

nlohmann::ordered_json lessons_as_json() {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (std::size_t i = 0; i < lessons().size(); ++i)
    all.push_back({{"lesson", i + 1},
                   {"title", lessons()[i].title},
                   {"about", lessons()[i].about},
                   {"steps", lessons()[i].steps.size()}});
  return {{"tool", tool_as_json()}, {"lessons", all}};
}

std::string lesson_head_as_text(std::size_t number, bool colour) {
  const Lesson& lesson = lessons()[number - 1];
  return strong(fmt::format("Lesson {}: {}", number, lesson.title), colour) + '\n' + std::string(lesson.about) + "\n\n";
}

std::string step_as_text(std::size_t number, std::size_t step, const LessonStep& content, bool colour) {
  const std::string place = fmt::format("{}/{}", step, lessons()[number - 1].steps.size());
  std::string out = strong(fmt::format("{}  {}", place, content.title), colour) + '\n';
  for (const LessonBlock& block : content.blocks) {
    if (!block.is_picture)
      out += as_indented(block.lines.front(), 2);
    else
      for (const std::string& line : block.lines) out += "      " + line + '\n';
  }
  return out + '\n';
}

std::string question_as_text(std::size_t number, const Question& question, bool colour) {
  return strong("Question", colour) + '\n' + as_indented(question.text, 2) +
         as_indented(fmt::format("Answer with {}: `a2asim learn {} --answer ..`", question.format(), number), 2);
}

std::string answer_as_text(const Question& question, bool right, bool colour) {
  return right ? as_indented(fmt::format("{}: {}", strong("right", colour, "1;32"), question.reason), 0)
               : as_indented(fmt::format("{}: it is {}; {}", strong("wrong", colour, "1;31"), question.right_answer(),
                                         question.reason),
                             0);
}

nlohmann::ordered_json lesson_as_json(std::size_t number, std::size_t first, std::size_t last, const Lab& lab,
                                      const std::optional<GivenAnswer>& answer) {
  const Lesson& lesson = lessons()[number - 1];
  nlohmann::ordered_json steps = nlohmann::ordered_json::array();
  for (std::size_t at = first; at <= last; ++at) steps.push_back(step_as_json(at, lesson.steps[at - 1](lab)));
  const Question question = lesson.question(lab);
  nlohmann::ordered_json out = {
      {"tool", tool_as_json()}, {"lesson", number},
      {"title", lesson.title},  {"tokens", lab.tokens},
      {"steps", steps},         {"question", {{"text", question.text}, {"format", question.format()}}}};
  if (answer)
    out["answer"] = {{"given", answer->text},
                     {"right", answer->right},
                     {"right_answer", question.right_answer()},
                     {"reason", question.reason}};
  return out;
}

std::string lesson_page(std::size_t number, const Lab& lab) {
  const Lesson& lesson = lessons()[number - 1];
  Page page;
  page.title = fmt::format("a2asim learn {}: {}", number, lesson.title);
  page.header = verdict_header(fmt::format("a2asim learn {}", number), Tone::neutral, lesson.title,
                               fmt::format("{}.", capitalised(lesson.about)));
  page.body = "lesson.mustache";
  nlohmann::ordered_json steps = nlohmann::ordered_json::array();
  for (const auto make : lesson.steps) {
    const LessonStep step = make(lab);
    nlohmann::ordered_json blocks = nlohmann::ordered_json::array();
    for (const LessonBlock& block : step.blocks) {
      if (block.is_picture)
        blocks.push_back({{"picture", fmt::format("{}", fmt::join(block.lines, "\n"))}});
      else
        blocks.push_back({{"words", html_flags(block.lines.front())}});
    }
    steps.push_back({{"title", step.title}, {"blocks", std::move(blocks)}});
  }
  const Question question = lesson.question(lab);
  page.values["steps"] = std::move(steps);
  page.values["question"] = {{"text", html_flags(question.text)},
                             {"answer", question.right_answer()},
                             {"reason", html_flags(capitalised(question.reason))}};
  return page_html(page);
}

}  // namespace a2asim
