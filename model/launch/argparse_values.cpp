// Converters and choices of argparse options.
#include <charconv>
#include <cmath>
#include <optional>

#include "model/base/json_reader.h"
#include "model/base/words.h"
#include "model/launch/argparse.h"
#include "model/launch/environment.h"

namespace a2asim {
namespace {

using What = ArgparseProblem::What;

struct Refused {
  What what = What::invalid_value;
  std::string message;  // empty: argparse's own "invalid T value: .."
};
using Converted = tl::expected<Scalar, Refused>;

tl::unexpected<Refused> refuse(std::string message = "") {
  return tl::unexpected<Refused>(Refused{What::invalid_value, std::move(message)});
}

Converted to_int(std::string_view text) {
  const PythonInt number = python_int(text);
  switch (number.status) {
    case PythonInt::Status::ok:
      return Scalar(number.value);
    case PythonInt::Status::invalid:
      return refuse();
    case PythonInt::Status::too_large:
      break;
  }
  return tl::unexpected<Refused>(Refused{What::too_large, ""});
}

// float(): decimal or exponent form, inf, nan; single underscores between digits; no hexadecimal.
Converted to_float(std::string_view text) {
  std::string plain;
  const std::string_view stripped = python_strip(text);
  for (std::size_t i = 0; i < stripped.size(); ++i) {
    const bool between_digits =
        i > 0 && i + 1 < stripped.size() && is_digit(stripped[i - 1]) && is_digit(stripped[i + 1]);
    if (stripped[i] == '_' && !between_digits) return refuse();
    if (stripped[i] != '_') plain += stripped[i];
  }
  std::string_view digits = plain;
  const bool negative = digits.starts_with('-');
  if (negative || digits.starts_with('+')) digits.remove_prefix(1);
  if (digits.empty() || digits.front() == '-' || digits.find('(') != std::string_view::npos) return refuse();
  double value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (end != digits.data() + digits.size() || error == std::errc::invalid_argument) return refuse();
  if (error == std::errc::result_out_of_range) {  // Python: 1e999 is inf, 1e-999 is 0.0
    const std::size_t exponent = digits.find_first_of("eE");
    value = exponent != std::string_view::npos && digits.substr(exponent + 1).starts_with('-') ? 0.0 : HUGE_VAL;
  }
  return Scalar(negative ? -value : value);
}

struct Suffix {
  std::string_view text;
  std::int64_t factor;
};
constexpr Suffix kSuffixes[] = {
    {"Ki", std::int64_t{1} << 10},
    {"Mi", std::int64_t{1} << 20},
    {"Gi", std::int64_t{1} << 30},
    {"Ti", std::int64_t{1} << 40},
    {"k", 1'000},
    {"M", 1'000'000},
    {"G", 1'000'000'000},
    {"T", 1'000'000'000'000},
};

// human_readable_int: 25.6k, 1M, 4Ki; decimals only with the suffixes that are powers of ten.
Converted to_human_int(std::string_view text) {
  const std::string_view stripped = python_strip(text);
  for (const Suffix& suffix : kSuffixes) {
    if (!stripped.ends_with(suffix.text)) continue;
    const std::string_view number = stripped.substr(0, stripped.size() - suffix.text.size());
    const std::size_t point = number.find('.');
    const std::string_view whole = number.substr(0, point);
    const std::string_view fraction = point == std::string_view::npos ? "" : number.substr(point + 1);
    const auto all_digits = [](std::string_view part) {
      return !part.empty() && part.find_first_not_of("0123456789") == std::string_view::npos;
    };
    if (!all_digits(whole) || (point != std::string_view::npos && !all_digits(fraction))) return refuse();
    if (point != std::string_view::npos && suffix.text.ends_with('i'))
      return refuse("Decimals are not allowed with IEC suffixes like " + python_repr(suffix.text));
    const PythonInt integer = python_int(whole);
    std::int64_t value = 0;
    if (integer.status != PythonInt::Status::ok || __builtin_mul_overflow(integer.value, suffix.factor, &value))
      return tl::unexpected<Refused>(Refused{What::too_large, ""});
    std::int64_t unit = suffix.factor;  // the decimals, digit by digit: exact, and what is below one unit is dropped
    for (const char c : fraction) {
      unit /= 10;
      if (__builtin_add_overflow(value, unit * (c - '0'), &value))
        return tl::unexpected<Refused>(Refused{What::too_large, ""});
    }
    return Scalar(value);
  }
  return to_int(stripped);
}

Converted to_json(const std::string& text, FlagType type) {
  const Result<nlohmann::json> parsed = read_json(text);
  if (type == FlagType::json_list && !parsed)
    return refuse("Invalid JSON list: " + text + ". Please provide a valid JSON list.");
  if (type == FlagType::graph_config && !(parsed && parsed->is_object()))
    return refuse("--cuda-graph-config must be a JSON object");
  if (!parsed) return refuse();
  return Scalar(text);
}

Converted convert(FlagType type, const std::string& text) {
  switch (type) {
    case FlagType::none:
    case FlagType::str:
      return Scalar(text);
    case FlagType::nullable_str:
      return text.empty() || text == "None" ? Scalar() : Scalar(text);
    case FlagType::integer:
      return to_int(text);
    case FlagType::real:
      return to_float(text);
    case FlagType::human_int:
      return to_human_int(text);
    case FlagType::json:
    case FlagType::json_list:
    case FlagType::graph_config:
      return to_json(text, type);
  }
  return refuse();
}

bool is_choice(const Flag& flag, const Scalar& value) {
  for (const std::string_view choice : split_words(flag.choices)) {
    if (const auto* text = std::get_if<std::string>(&value); text && *text == choice) return true;
    if (const auto* number = std::get_if<std::int64_t>(&value); number && std::to_string(*number) == choice)
      return true;
  }
  return false;
}

std::string choice_list(const Flag& flag) {
  std::string list;
  for (const std::string_view choice : split_words(flag.choices)) {
    if (!list.empty()) list += ", ";
    list += flag.type == FlagType::integer ? std::string(choice) : python_repr(choice);
  }
  return list;
}

}  // namespace

tl::expected<Scalar, ArgparseProblem> convert_value(const Flag& flag, const std::string& text) {
  const auto problem = [&](What what, const std::string& message) {
    return tl::unexpected<ArgparseProblem>(
        ArgparseProblem{what, "argument " + display_name(flag) + ": " + message, text});
  };
  Converted value = convert(flag.type, text);
  if (!value) {
    const Refused& refused = value.error();
    if (refused.what == What::too_large) return problem(What::too_large, text + " is beyond what 64 bits hold");
    if (!refused.message.empty()) return problem(What::invalid_value, refused.message);
    return problem(What::invalid_value,
                   "invalid " + std::string(python_name(flag.type)) + " value: " + python_repr(text));
  }
  if (!flag.choices.empty() && !is_choice(flag, *value)) {
    const auto* number = std::get_if<std::int64_t>(&*value);
    const std::string shown = number ? std::to_string(*number) : python_repr(text);
    return problem(What::invalid_choice, "invalid choice: " + shown + " (choose from " + choice_list(flag) + ")");
  }
  return *value;
}

std::string display_name(const Flag& flag) {
  std::string name;
  for (const char c : flag.option_strings) name += c == ' ' ? '/' : c;
  return name;
}

std::string python_repr(std::string_view text) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const char quote = has_single && text.find('"') == std::string_view::npos ? '"' : '\'';
  std::string repr(1, quote);
  for (const char c : text) {
    constexpr char kHex[] = "0123456789abcdef";
    const auto byte = static_cast<unsigned char>(c);
    if (c == quote || c == '\\') {
      repr += '\\';
      repr += c;
    } else if (c == '\n') {
      repr += "\\n";
    } else if (c == '\r') {
      repr += "\\r";
    } else if (c == '\t') {
      repr += "\\t";
    } else if (byte < 0x20 || byte == 0x7f) {
      repr += {'\\', 'x', kHex[byte >> 4], kHex[byte & 15]};
    } else {
      repr += c;
    }
  }
  return repr + quote;
}

}  // namespace a2asim
