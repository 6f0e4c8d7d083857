#include "model/engines/sglang/generation.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <mutex>

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

std::string about_newest() {
  const Generation& newest = newest_generation();
  const NotModelled& later = newest.not_modelled;
  return fmt::format("the newest rules known here are those of {} ({}){}{}", newest.name, newest.date,
                     later.date.empty() ? "" : "; changed since, and not modelled: ", later.what);
}

// The version with what a release or a day has besides, made when it is first asked for.
template <class Change>
const Generation& derived(const Generation& version, const std::string& key, const Change& change) {
  static std::mutex mutex;
  static std::map<std::string, Generation, std::less<>> known;
  const std::scoped_lock lock(mutex);
  const auto [at, is_new] = known.try_emplace(key, version);
  if (is_new) change(at->second);
  return at->second;
}

void add_state(Generation& own, const ReleaseState& state) {
  own.options = state.options;
  own.capacity.flashinfer = state.flashinfer;
  if (state.besides != nullptr) state.besides(own);
}

// What the releases by that day had besides, and the options of the day.
const Generation& on_day(std::string_view date, const Generation& version) {
  const ReleaseState* last = nullptr;
  for (const ReleaseState& state : version.release_states)
    if (date_of(state.options) <= date) last = &state;
  const OptionList options = options_at(version.options, date);
  if (last == nullptr && options == version.options) return version;
  const std::string key =
      fmt::format("{} {} {} {}", version.name, last == nullptr ? "" : last->name, options.name, options.until);
  return derived(version, key, [&](Generation& own) {
    if (last != nullptr) add_state(own, *last);
    own.options = options;
  });
}

const Generation& of_release(const std::string& release, const Generation& version) {
  const auto state = std::ranges::find(version.release_states, release, &ReleaseState::name);
  if (state == version.release_states.end()) return version;
  return derived(version, release, [&](Generation& own) {
    own.release = state->name;
    add_state(own, *state);
  });
}

// The first version, without what came only after a day or release before it.
const Generation& before_all(const std::function<bool(const EarlierState&)>& is_before) {
  const Generation& first = generations().front();
  for (const EarlierState& state : first.earlier_states)
    if (is_before(state)) return derived(first, "before " + std::string(state.until_date), state.lacks);
  return first;
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
  const auto* generation = static_cast<const Generation*>(match->version);
  const bool is_date = text.find('-') != std::string_view::npos;
  const bool is_release = !is_date && text.find('.') != std::string_view::npos;
  const std::string_view digits = text.substr(text.starts_with('v') || text.starts_with('V') ? 1 : 0);
  if (match->is_older) {
    generation = &before_all([&](const EarlierState& state) {
      return is_date ? text < state.until_date
                     : version_numbers(digits) < version_numbers(state.until_release.substr(1));
    });
  } else if (is_release) {
    generation = &of_release("v" + std::string(digits), *generation);
  } else if (is_date) {
    const NotModelled& later = generation->not_modelled;
    if (!later.date.empty() && text >= later.date)
      match->note = fmt::format("{}; its rule is not modelled, {} is used", later.what, generation->name);
    generation = &on_day(text, *generation);
  } else if (generation == &newest_generation() && text != generation->name) {
    match->note = about_newest();
  }
  return GenerationMatch{generation, !match->is_older, std::move(match->note)};
}

}  // namespace a2asim
