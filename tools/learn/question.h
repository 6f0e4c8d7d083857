// The question at the end of a lesson, and whether an answer to it is right.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "model/base/result.h"

namespace a2asim {

// One of several words.
struct ChoiceAnswer {
  std::vector<std::string> choices;
  std::string right;
};
// `right.size()` whole numbers; written with blanks or commas between them, in brackets or not.
struct NumbersAnswer {
  std::vector<std::int64_t> right;
};

struct Question {
  std::string text;
  std::variant<NumbersAnswer, ChoiceAnswer> answer;  // computed by the model, as is everything in `reason`
  std::string reason;                                // why the right answer is right

  std::string format() const;        // "a whole number", "4 whole numbers, such as 1 2 3 4", "safe or broken"
  std::string right_answer() const;  // as a person would write it
};

// Errors: bad_input when `text` is no answer to this question at all.
Result<bool> is_right(const Question& question, std::string_view text);

}  // namespace a2asim
