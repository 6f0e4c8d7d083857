#include "model/base/python_int.h"

#include <algorithm>
#include <limits>

namespace a2asim {
namespace {

constexpr std::string_view kBlanks = " \t\n\r\f\v\x1c\x1d\x1e\x1f";

// Digits with single underscores between them, as Python writes them.
bool is_digits(std::string_view text) {
  if (text.empty() || !is_digit(text.front()) || !is_digit(text.back())) return false;
  for (std::size_t i = 1; i < text.size(); ++i)
    if (!is_digit(text[i]) && !(text[i] == '_' && is_digit(text[i - 1]))) return false;
  return true;
}

}  // namespace

std::string_view python_strip(std::string_view text) {
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

PythonInt python_int(std::string_view text) {
  text = python_strip(text);
  const bool negative = !text.empty() && text.front() == '-';
  if (!text.empty() && (text.front() == '-' || text.front() == '+')) text.remove_prefix(1);
  constexpr std::size_t kMaxDigits = 4300;  // sys.get_int_max_str_digits(): int() itself refuses more
  const auto digits = text.size() - static_cast<std::size_t>(std::count(text.begin(), text.end(), '_'));
  if (!is_digits(text) || digits > kMaxDigits) return {};
  constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
  constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
  std::int64_t value = 0;  // kept negative: int64 reaches one further down than up
  for (const char c : text) {
    if (c == '_') continue;
    const int digit = c - '0';
    if (value < (kMin + digit) / 10) return {PythonInt::Status::too_large, negative ? kMin : kMax};
    value = value * 10 - digit;
  }
  if (negative) return {PythonInt::Status::ok, value};
  if (value == kMin) return {PythonInt::Status::too_large, kMax};
  return {PythonInt::Status::ok, -value};
}

}  // namespace a2asim
