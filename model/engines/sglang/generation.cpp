#include "model/engines/sglang/generation.h"

#include <fmt/format.h>

#include <algorithm>

#include "model/base/check_invariant.h"
#include "model/engines/sglang/versions/version.h"
#include "model/step/find_version.h"

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

std::string_view first_release_with(bool Generation::*fact) {
  for (const Generation& generation : generations())
    if (generation.*fact && !generation.releases.empty()) return generation.releases.front().name;
  return first_with(fact).name;
}

Result<GenerationMatch> find_generation(std::string_view text) {
  std::vector<const Version*> versions;
  for (const Generation& generation : generations()) versions.push_back(&generation);
  Result<VersionMatch> match = find_version(versions, text, before_dispatcher());
  if (!match) return tl::unexpected(match.error());
  const auto& generation = static_cast<const Generation&>(*match->version);
  const NotModelled& later = generation.not_modelled;
  const bool is_date = text.find('-') != std::string_view::npos;
  if (is_date && !match->is_older && !later.date.empty() && text >= later.date)
    match->note = fmt::format("{}; its rule is not modelled, {} is used", later.what, generation.name);
  return GenerationMatch{&generation, !match->is_older, std::move(match->note)};
}

}  // namespace a2asim
