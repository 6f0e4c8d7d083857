#include "model/step/find_version.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <string>

namespace a2asim {
namespace {

using Versions = std::span<const Version* const>;

bool all_digits(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

const Version* by_name(Versions versions, std::string_view name) {
  const auto found = std::ranges::find(versions, name, &Version::name);
  return found == versions.end() ? nullptr : *found;
}

VersionMatch by_date(Versions versions, std::string_view date, std::string_view older) {
  const Version* match = nullptr;
  for (const Version* version : versions)
    if (version->date <= date) match = version;  // ISO dates compare as text; rows are in order of date
  if (match == nullptr) return {versions.front(), true, std::string(older)};
  return {match, false, ""};
}

Result<VersionMatch> by_release(Versions versions, std::string_view text, std::string_view older) {
  const std::string name = "v" + std::string(text);
  std::string_view first_release;
  for (const Version* version : versions)
    for (const Release& release : version->releases) {
      if (first_release.empty()) first_release = release.name;
      if (release.name == name) return VersionMatch{version, false, std::string(release.note)};
    }
  if (!first_release.empty() && version_numbers(text) < version_numbers(first_release.substr(1)))
    return VersionMatch{versions.front(), true, std::string(older)};
  return fail(ErrorKind::bad_input,
              fmt::format("{}: the generation of this release is not known here; name a PR or a date instead "
                          "('a2asim versions' lists them)",
                          name));
}

}  // namespace

bool is_date(std::string_view text) {
  if (text.size() != 10 || text[4] != '-' || text[7] != '-') return false;
  if (!all_digits(text.substr(0, 4)) || !all_digits(text.substr(5, 2)) || !all_digits(text.substr(8))) return false;
  const int month = (text[5] - '0') * 10 + text[6] - '0';
  const int day = (text[8] - '0') * 10 + text[9] - '0';
  const int year = (text[0] - '0') * 1000 + (text[1] - '0') * 100 + (text[2] - '0') * 10 + text[3] - '0';
  const bool leap = (year % 4 == 0 && year % 100 != 0) || year % 400 == 0;
  constexpr std::array<int, 12> days = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  return month >= 1 && month <= 12 && day >= 1 &&
         day <= days[static_cast<std::size_t>(month - 1)] + (month == 2 && leap ? 1 : 0);
}

std::array<int, 3> version_numbers(std::string_view text) {
  std::array<int, 3> numbers{};
  std::size_t at = 0;
  for (int& number : numbers) {
    const auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), number);
    if (error != std::errc{}) break;
    at = static_cast<std::size_t>(end - text.data());
    if (at >= text.size() || text[at] != '.') break;
    ++at;
  }
  return numbers;
}

Result<VersionMatch> find_version(Versions versions, std::string_view text, std::string_view older) {
  std::string word;
  for (const char c : text) word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (word == "newest") return VersionMatch{versions.back(), false, ""};
  if (const Version* version = by_name(versions, word)) return VersionMatch{version, false, ""};
  const std::string_view number = word.starts_with('#') ? std::string_view(word).substr(1) : std::string_view(word);
  if (all_digits(number))
    if (const Version* version = by_name(versions, "pr" + std::string(number))) return VersionMatch{version, false, ""};
  if (is_date(word)) return by_date(versions, word, older);
  const std::string_view release = word.starts_with('v') ? std::string_view(word).substr(1) : std::string_view(word);
  const auto is_version_char = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.'; };
  if (!release.empty() && std::isdigit(static_cast<unsigned char>(release.front())) != 0 &&
      release.find('.') != std::string_view::npos && std::ranges::all_of(release, is_version_char))
    return by_release(versions, release, older);
  const Version& newest = *versions.back();
  return fail(ErrorKind::bad_input,
              fmt::format("'{}' is no generation known here; use a PR ({}), a date ({}) or a release: 'a2asim "
                          "generations' lists them",
                          text.substr(0, 60), newest.pr != 0 ? newest.name : versions.front()->name, newest.date));
}

}  // namespace a2asim
