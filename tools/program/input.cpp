#include "tools/program/input.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <system_error>
#include <thread>

#include "model/base/utf8.h"
#include "tools/program/text.h"

namespace a2asim {
namespace {

// The first byte that is no text: NUL, or outside UTF-8.
std::optional<std::size_t> first_non_text(std::string_view text) {
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = text[at] == '\0' ? 0 : utf8_length(text.substr(at));
    if (length == 0) return at;
    at += length;
  }
  return std::nullopt;
}

Result<std::string> read_text(std::istream& in, const std::string& what) {
  std::string text(kMaxInputBytes + 1, '\0');
  errno = 0;
  in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (in.bad()) return unusable(fmt::format("{} cannot be read: {}", what, std::strerror(errno)));
  text.resize(static_cast<std::size_t>(in.gcount()));
  if (text.size() > kMaxInputBytes) {
    return unusable(fmt::format("{} is larger than {} MiB, the most that is read of one input: give a smaller one",
                                what, kMaxInputBytes >> 20));
  }
  if (const auto at = first_non_text(text)) {
    return unusable(fmt::format("{} is no text: byte {} is not UTF-8; save it as plain text", what, *at + 1));
  }
  if (text.starts_with("\xEF\xBB\xBF")) text.erase(0, 3);
  return text;
}

}  // namespace

Result<std::string> read_text_file(const std::string& path) {
  const std::string what = "file '" + one_line(path) + "'";
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (status.type() == std::filesystem::file_type::not_found) {
    return unusable(what + " does not exist: check the path");
  }
  if (std::filesystem::is_directory(status)) return unusable(what + " is a directory: name a file in it");
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  if (!in) return unusable(fmt::format("{} cannot be opened: {}", what, std::strerror(errno)));
  return read_text(in, what);
}

Result<std::string> read_standard_input(Io& io) { return read_text(io.in, "standard input"); }

namespace {

template <class T>
Result<T> parse_whole(std::string_view option, std::string_view text, T minimum, T maximum) {
  T value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = end == text.data() + text.size() && !text.empty();
  if (error != std::errc{} || !whole || value < minimum || value > maximum) {
    return unusable(
        fmt::format("{} takes a whole number from {} to {}, not '{}'", option, minimum, maximum, one_line(text, 60)));
  }
  return value;
}

}  // namespace

Result<std::int64_t> parse_count(std::string_view option, std::string_view text, std::int64_t minimum,
                                 std::int64_t maximum) {
  return parse_whole(option, text, minimum, maximum);
}

Result<std::uint64_t> parse_seed(std::string_view text) {
  return parse_whole<std::uint64_t>("--seed", text, 0, ~std::uint64_t{0});
}

Result<int> parse_threads(const std::optional<std::string>& text) {
  constexpr std::int64_t kMostThreads = 1024;
  if (!text) return static_cast<int>(std::max(std::thread::hardware_concurrency(), 1U));
  const Result<std::int64_t> number = parse_count("--threads", *text, 1, kMostThreads);
  if (!number) return tl::unexpected(number.error());
  return static_cast<int>(*number);
}

Result<double> parse_positive(std::string_view option, std::string_view text, std::string_view unit, double maximum) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = end == text.data() + text.size() && !text.empty();
  if (error != std::errc{} || !whole || !std::isfinite(value) || value <= 0 || value > maximum) {
    return unusable(
        fmt::format("{} takes {} above 0 and up to {}, not '{}'", option, unit, maximum, one_line(text, 60)));
  }
  return value;
}

Result<std::size_t> parse_choice(std::string_view option, std::string_view text,
                                 const std::vector<std::string_view>& choices) {
  const auto found = std::ranges::find(choices, text);
  if (found != choices.end()) return static_cast<std::size_t>(found - choices.begin());
  return unusable(fmt::format("{} takes one of {}, not '{}'", option, fmt::join(choices, ", "), one_line(text, 60)));
}

Result<void> add_environment(const std::vector<std::string>& settings, Environment& env) {
  for (const std::string& setting : settings) {
    const std::size_t equals = setting.find('=');
    const std::string key = setting.substr(0, equals);
    const bool is_name = !key.empty() && std::ranges::all_of(key, [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
    });
    if (equals == std::string::npos || !is_name) {
      return unusable(fmt::format("--env takes NAME=VALUE, not '{}'", one_line(setting, 60)));
    }
    env.set(key, setting.substr(equals + 1));
  }
  return {};
}

}  // namespace a2asim
