// Lessons for people (text) and for programs (JSON).
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "tools/learn/lesson.h"

namespace a2asim {

std::string lessons_as_text();
nlohmann::ordered_json lessons_as_json();

// Numbers are counted from 1. With its head before the first step, and a blank line behind.
std::string lesson_head_as_text(std::size_t number, bool colour);
std::string step_as_text(std::size_t number, std::size_t step, const LessonStep& content, bool colour);
std::string question_as_text(std::size_t number, const Question& question, bool colour);
std::string answer_as_text(const Question& question, bool right, bool colour);

struct GivenAnswer {
  std::string text;
  bool right = false;
};
// steps: [first, last], counted from 1. Keys are in tools/docs/json.md; the right answer is told only with an answer.
nlohmann::ordered_json lesson_as_json(std::size_t number, std::size_t first, std::size_t last, const Lab& lab,
                                      const std::optional<GivenAnswer>& answer);

// The lesson as a page of its own.
std::string lesson_page(std::size_t number, const Lab& lab);

}  // namespace a2asim
