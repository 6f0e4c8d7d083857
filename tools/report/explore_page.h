// The page of `explore --report` and `merge --report`: the safety matrix, and behind each bad cell its witness.
#pragma once

#include <string>

#include "model/step/sizing_rule.h"
#include "tools/explore/explore_formats.h"

namespace a2asim {

// The most witnesses that a page holds, and of these the most that are replayed; errors come first.
inline constexpr std::size_t kWitnessesOnPage = 400;
inline constexpr std::size_t kReplaysOnPage = 60;

// `rule`: the one that was explored, in place of the generation's; without it such witnesses are not replayed.
std::string explore_page(const ExploreReport& report, const SizingRule& rule);

}  // namespace a2asim
