#include "model/engines/trtllm/generation.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "model/base/check_invariant.h"
#include "model/base/one_line.h"
#include "model/engines/trtllm/versions.h"
#include "model/step/find_version.h"

namespace a2asim::trtllm {
namespace {

bool all_digits(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](unsigned char c) { return std::isdigit(c) != 0; });
}

VersionMatch older() {
  const Generation& first = generations().front();
  return {&first, true,
          fmt::format("before {} ({}) there was no all-to-all: all else is taken from {}", first.pr, first.date,
                      first.name)};
}

VersionMatch by_date(std::string_view date) {
  const Generation* match = nullptr;
  for (const Generation& generation : generations())
    if (generation.date <= date) match = &generation;
  return match == nullptr ? older() : VersionMatch{match, false, ""};
}

std::optional<VersionMatch> by_change(std::string_view number, bool before) {
  const int wanted = number.size() > 6 ? 0 : std::stoi(std::string(number));
  const std::span<const Generation> all = generations();
  for (const Generation& generation : all) {
    if (std::ranges::count(generation.changes, wanted) == 0) continue;
    if (!before) return VersionMatch{&generation, false, ""};
    return &generation == &all.front() ? older() : VersionMatch{&generation - 1, false, ""};
  }
  return std::nullopt;
}

// "1.3.0rc21" -> 1, 3, 0, 21; a final release comes behind its candidates.
std::vector<int> numbers_of(std::string_view release) {
  std::vector<int> out;
  bool is_candidate = false;
  for (std::size_t at = 0; at < release.size() && out.size() < 4;) {
    if (std::isdigit(static_cast<unsigned char>(release[at])) == 0) {
      is_candidate |= release.substr(at).starts_with("rc");
      ++at;
      continue;
    }
    int number = 0;
    for (; at < release.size() && std::isdigit(static_cast<unsigned char>(release[at])) != 0; ++at)
      number = std::min(number * 10 + (release[at] - '0'), 99999);
    out.push_back(number);
  }
  out.resize(4);
  if (!is_candidate) out[3] = 99999;
  return out;
}

// The version of the nearest release that is not newer.
std::optional<VersionMatch> by_release(std::string_view release) {
  const std::vector<int> wanted = numbers_of(release);
  const Generation* match = nullptr;
  std::string_view name;
  std::vector<int> nearest(4, -1);
  bool is_newest = true;
  for (const Generation& generation : generations())
    for (const Release& known : generation.releases) {
      const std::vector<int> own = numbers_of(known.name);
      if (own > wanted) is_newest = false;
      if (own > wanted || own < nearest) continue;
      match = &generation;
      name = known.name;
      nearest = own;
    }
  if (match == nullptr) return older();
  if (nearest != wanted && is_newest) return std::nullopt;
  const std::string_view exact = name == release ? "" : "the nearest release known here; ";
  return VersionMatch{match, false,
                      fmt::format("{}: {} ({}), {}{}", one_line(release, 40), match->name, match->date, exact,
                                  match->releases.front().note)};
}

// Which TensorRT-LLM an image of Dynamo holds.
struct Runtime {
  std::string_view tag, release;
};
constexpr Runtime kRuntimes[] = {{"0.8.", "1.2.0"}, {"0.7.", "1.2.0rc4"}, {"0.6.", "1.1.0"}};

std::string_view release_in(std::string_view image) {
  const std::string_view tag = image.substr(image.rfind(':') + 1);
  if (image.find("tensorrtllm-runtime") == std::string_view::npos) return tag;
  for (const Runtime& runtime : kRuntimes)
    if (tag.starts_with(runtime.tag)) return runtime.release;
  return tag;
}

}  // namespace

std::span<const Generation> generations() {
  static const std::vector<Generation> rows = [] {
    std::vector<Generation> made = make_generations();
    A2ASIM_INVARIANT(std::ranges::is_sorted(made, {}, &Generation::date), "versions stand in the order of their dates");
    return made;
  }();
  return rows;
}

std::vector<Hazard> hazards_of(const Generation& generation) {
  std::vector<Hazard> out;
  for (const Hazard& hazard : hazards()) {
    const auto fixed = std::ranges::find(generations(), hazard.until, &Generation::name);
    if (fixed == generations().end() || generation.date < fixed->date) out.push_back(hazard);
  }
  return out;
}

Result<VersionMatch> find_generation(std::string_view text) {
  std::string word;
  for (const char c : text) word += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (word == "newest" || word == "main") return VersionMatch{&newest_generation(), false, ""};
  for (const std::string_view around : {"main ", " or later"})
    if (const std::size_t at = word.find(around); at != std::string::npos) word.erase(at, around.size());
  for (const Generation& generation : generations())
    if (generation.name == word) return VersionMatch{&generation, false, ""};
  std::string_view number = word;
  const bool before = number.starts_with("before");
  if (before) number.remove_prefix(6);
  while (number.starts_with(' ') || number.starts_with('#')) number.remove_prefix(1);
  if (number.starts_with("pr")) number.remove_prefix(2);
  if (all_digits(number))
    if (const auto match = by_change(number, before)) return *match;
  if (is_date(word)) return by_date(word);
  std::string_view release = word.find(':') != std::string::npos ? release_in(word) : std::string_view(word);
  if (release.starts_with('v')) release.remove_prefix(1);
  const bool is_release =
      release.find('.') != std::string_view::npos && std::isdigit(release.front()) != 0 &&
      std::ranges::all_of(release, [](unsigned char c) { return std::isalnum(c) != 0 || c == '.'; });
  if (is_release)
    if (const auto match = by_release(release)) return *match;
  return fail(ErrorKind::bad_input,
              fmt::format("'{}' is no version known here; use a change (16745, before16745), a date (2026-07-22), a "
                          "release up to {} or a name (t9): 'a2asim versions' lists them",
                          one_line(text, 60), "1.3.0rc24"));
}

}  // namespace a2asim::trtllm
