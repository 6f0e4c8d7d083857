// What a lesson is: a list of step functions and a question. Sentences are templates that results of the model and the
// simulated cluster fill; nothing that a lesson says about numbers, sizes or verdicts is written down here.
#pragma once

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tools/learn/lab.h"
#include "tools/learn/question.h"

namespace a2asim {

nlohmann::ordered_json as_json(const std::vector<std::optional<std::int64_t>>& sizes);  // null for a rank without

// A paragraph, wrapped to the line when it is printed, or lines that stay as they are.
struct LessonBlock {
  std::vector<std::string> lines;
  bool is_picture = false;
};

struct LessonStep {
  std::string title;
  std::vector<LessonBlock> blocks;
  nlohmann::ordered_json facts;  // the results that the text is made of

  template <class... Values>
  void say(fmt::format_string<Values...> sentence, Values&&... values) {
    blocks.push_back({{fmt::format(sentence, std::forward<Values>(values)...)}, false});
  }
  void show(std::vector<std::string> lines) { blocks.push_back({std::move(lines), true}); }
};

struct Lesson {
  std::string_view title;
  std::string_view about;  // one line for the list
  std::vector<LessonStep (*)(const Lab&)> steps;
  Question (*question)(const Lab&);
};

Lesson lesson_geometry();     // 1
Lesson lesson_knowledge();    // 2
Lesson lesson_collapse();     // 3
Lesson lesson_graphs();       // 4
Lesson lesson_release();      // 5
Lesson lesson_check();        // 6
Lesson lesson_own_rule();     // 7
Lesson lesson_static_cap();   // 8
Lesson lesson_scatter();      // 9
Lesson lesson_two_engines();  // 10

std::span<const Lesson> lessons();  // in the order in which they are read

}  // namespace a2asim
