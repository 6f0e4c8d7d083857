#include "tools/learn/question.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <numeric>
#include <optional>

#include "tools/program/text.h"

namespace a2asim {
namespace {

std::string lower(std::string_view text) {
  std::string out(text);
  std::ranges::transform(out, out.begin(), [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  return out;
}

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> words(1);
  for (const char c : text) {
    const bool between = std::string_view(" \t\n,;[]").find(c) != std::string_view::npos;
    if (!between)
      words.back() += c;
    else if (!words.back().empty())
      words.emplace_back();
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

std::optional<std::vector<std::int64_t>> numbers_of(std::string_view text) {
  std::vector<std::int64_t> numbers;
  for (const std::string& word : words_of(text)) {
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), numbers.emplace_back());
    if (error != std::errc{} || end != word.data() + word.size()) return std::nullopt;
  }
  return numbers;
}

tl::unexpected<Error> unusable_answer(const Question& question, std::string_view text) {
  return fail(ErrorKind::bad_input, fmt::format("--answer: '{}' is no answer to this question: give {}",
                                                one_line(text, 60), question.format()));
}

}  // namespace

std::string Question::format() const {
  if (const auto* choice = std::get_if<ChoiceAnswer>(&answer))
    return fmt::format("{}", fmt::join(choice->choices, " or "));
  const std::size_t count = std::get<NumbersAnswer>(answer).right.size();
  if (count == 1) return "a whole number";
  std::vector<int> example(count);
  std::iota(example.begin(), example.end(), 10);
  return fmt::format("{} whole numbers, written as {}", count, fmt::join(example, ","));
}

std::string Question::right_answer() const {
  if (const auto* choice = std::get_if<ChoiceAnswer>(&answer)) return choice->right;
  return fmt::format("{}", fmt::join(std::get<NumbersAnswer>(answer).right, ", "));
}

Result<bool> is_right(const Question& question, std::string_view text) {
  if (const auto* choice = std::get_if<ChoiceAnswer>(&question.answer)) {
    const std::vector<std::string> words = words_of(lower(text));
    if (words.size() != 1 || std::ranges::find(choice->choices, words[0]) == choice->choices.end())
      return unusable_answer(question, text);
    return words[0] == choice->right;
  }
  const std::vector<std::int64_t>& right = std::get<NumbersAnswer>(question.answer).right;
  const auto numbers = numbers_of(text);
  if (!numbers || numbers->size() != right.size()) return unusable_answer(question, text);
  return *numbers == right;
}

}  // namespace a2asim
