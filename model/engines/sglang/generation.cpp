#include "model/engines/sglang/generation.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cctype>

#include "model/base/check_invariant.h"
#include "model/engines/sglang/versions/version.h"

namespace a2asim {
namespace {

std::vector<Generation> make_generations() {
  std::vector<Generation> rows;
#define VERSION(name) rows.push_back(versions::name(rows.empty() ? Generation{} : rows.back()));
#include "model/engines/sglang/versions/versions.inc"
#undef VERSION
  const bool in_order = std::ranges::is_sorted(rows, std::ranges::less(), &Generation::date);
  A2ASIM_INVARIANT(in_order, "versions stand in the order of their dates");
  return rows;
}

std::string before_dispatcher() {
  const Generation& first = generations().front();
  return fmt::format("before #{} ({}) SGLang had no FlashInfer dispatcher; everything else is taken from {}", first.pr,
                     first.date, first.name);
}

const Generation* by_name(std::string_view name) {
  for (const Generation& generation : generations())
    if (generation.name == name) return &generation;
  return nullptr;
}

bool all_digits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

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

Result<GenerationMatch> by_date(std::string_view date) {
  const Generation* match = nullptr;
  for (const Generation& generation : generations())
    if (generation.date <= date) match = &generation;  // ISO dates compare as text; rows are in order of date
  if (match == nullptr) return GenerationMatch{&generations().front(), false, before_dispatcher()};
  const NotModelled& later = match->not_modelled;
  if (later.date.empty() || date < later.date) return GenerationMatch{match, true, ""};
  return GenerationMatch{match, true, fmt::format("{}; its rule is not modelled, {} is used", later.what, match->name)};
}

// Sorts "v0.5.8" before "v0.5.9" and "v0.5.20" after it; only major, minor, patch.
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

Result<GenerationMatch> by_release(std::string_view text) {
  const std::string name = "v" + std::string(text);
  for (const Generation& generation : generations())
    for (const Release& release : generation.releases)
      if (release.name == name) return GenerationMatch{&generation, true, std::string(release.note)};
  const std::string_view first_release = generations().front().releases.front().name;
  if (version_numbers(text) < version_numbers(first_release.substr(1)))
    return GenerationMatch{&generations().front(), false, before_dispatcher()};
  return fail(ErrorKind::bad_input,
              fmt::format("{}: the generation of this release is not known here; name a PR or a date instead "
                          "('a2asim generations' lists them)",
                          name));
}

}  // namespace

std::span<const Generation> generations() {
  static const std::vector<Generation> rows = make_generations();
  return rows;
}

std::span<const Generation> newer_than(const Generation& generation) {
  const std::span<const Generation> all = generations();
  const auto first = std::ranges::find_if(all, [&](const Generation& row) { return row.date > generation.date; });
  return all.subspan(static_cast<std::size_t>(first - all.begin()));
}

const Generation& first_with(bool Generation::*fact) {
  const auto first = std::ranges::find(generations(), true, fact);
  A2ASIM_INVARIANT(first != generations().end(), "some version has the fact");
  return *first;
}

Result<GenerationMatch> find_generation(std::string_view text) {
  std::string word;
  for (const char c : text) word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (word == "newest") return GenerationMatch{&newest_generation(), true, ""};
  if (const Generation* generation = by_name(word)) return GenerationMatch{generation, true, ""};
  const std::string_view number = word.starts_with('#') ? std::string_view(word).substr(1) : std::string_view(word);
  if (all_digits(number))
    if (const Generation* generation = by_name("pr" + std::string(number)))
      return GenerationMatch{generation, true, ""};
  if (is_date(word)) return by_date(word);
  const std::string_view release = word.starts_with('v') ? std::string_view(word).substr(1) : std::string_view(word);
  const auto is_version_char = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '.'; };
  if (!release.empty() && std::isdigit(static_cast<unsigned char>(release.front())) != 0 &&
      release.find('.') != std::string_view::npos && std::all_of(release.begin(), release.end(), is_version_char))
    return by_release(release);
  return fail(ErrorKind::bad_input,
              fmt::format("'{}' is no generation known here; use a PR (pr30450), a date (2026-06-20) or a release "
                          "(v0.5.13): 'a2asim generations' lists them",
                          text.substr(0, 60)));
}

}  // namespace a2asim
