// One of an engine's versions by what people call it.
#pragma once

#include <array>
#include <span>
#include <string_view>

#include "model/step/engine.h"

namespace a2asim {

// text: a change ("pr30450", "30450", "#30450"), a date ("2026-06-20": the one in force that day), a release
// ("v0.5.13"), or "newest". versions: oldest first. What is older than the first of them gets its rules and the note
// `older`. Errors: bad_input.
Result<VersionMatch> find_version(std::span<const Version* const> versions, std::string_view text,
                                  std::string_view older);

// "2026-06-20", a day that the calendar has.
bool is_date(std::string_view text);

// Sorts "0.5.8" before "0.5.9" and "0.5.20" after it; only major, minor, patch.
std::array<int, 3> version_numbers(std::string_view text);

}  // namespace a2asim
