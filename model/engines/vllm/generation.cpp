#include "model/engines/vllm/generation.h"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "model/base/check_invariant.h"
#include "model/step/find_version.h"

namespace a2asim::vllm {
namespace {

std::vector<const Version*> all_versions() {
  std::vector<const Version*> all;
  for (const Generation& generation : generations()) all.push_back(&generation);
  return all;
}

bool starts_with_digits(std::string_view text) {
  return text.size() >= 4 && std::ranges::all_of(text, [](char c) { return c >= '0' && c <= '9'; });
}

// The version before the one that a change made.
const Version* before(std::string_view number) {
  const auto all = generations();
  for (std::size_t i = 1; i < all.size(); ++i)
    if (all[i].name == "pr" + std::string(number)) return &all[i - 1];
  return nullptr;
}

// "v0.12.1rc1" -> "v0.12.0": the first release of its series, or nothing.
std::string series_of(std::string_view text) {
  if (text.starts_with('v')) text.remove_prefix(1);
  const std::size_t first = text.find('.');
  const std::size_t second = first == std::string_view::npos ? first : text.find('.', first + 1);
  if (second == std::string_view::npos) return "";
  return "v" + std::string(text.substr(0, second)) + ".0";
}

}  // namespace

Result<VersionMatch> find_generation(std::string_view text) {
  constexpr std::string_view kOlder = "before v0.9.0 nothing is known here; everything is taken from v0.9.0";
  for (const std::string_view prefix : {"before", "pre"})
    if (text.starts_with(prefix) && starts_with_digits(text.substr(prefix.size())))
      if (const Version* found = before(text.substr(prefix.size()))) return VersionMatch{found, false, ""};
  const bool is_change = text.starts_with('v') && starts_with_digits(text.substr(1));
  if (is_change) text.remove_prefix(1);
  const std::vector<const Version*> all = all_versions();
  Result<VersionMatch> match = find_version(all, text, kOlder);
  if (match || is_change) return match;
  const std::string series = series_of(text);
  if (series.empty() || series == text) return match;
  Result<VersionMatch> first = find_version(all, series, kOlder);
  if (!first) return match;
  if (!first->is_older)
    first->note = fmt::format("{} is not known here by itself: the rules are those of {}, the first of its series",
                              text.substr(0, 60), series);
  return first;
}

const Generation& first_without(KnownFailure failure) {
  bool seen = false;
  for (const Generation& generation : generations()) {
    if (seen && generation.known_failure != failure) return generation;
    seen |= generation.known_failure == failure;
  }
  A2ASIM_INVARIANT(false, "every known failure ends");
  return generations().back();
}

}  // namespace a2asim::vllm
