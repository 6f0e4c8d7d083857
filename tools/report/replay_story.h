// "What happened" in words for somebody who knows nothing of it: computed from the run, nothing is decided here.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "model/step/deployment.h"
#include "sim/cluster/replay.h"

namespace a2asim {

// A replay with what a page needs beyond the report.
struct ToldReplay {
  const Scenario* scenario = nullptr;
  const ReplayReport* report = nullptr;
  const Deployment* deployment = nullptr;  // nullptr: the command was refused
  bool says_why = true;                    // and what to change; false where the page has said it
  const Finding* row = nullptr;            // the wrong row whose way is told, see telling_row()
};

std::string phase_words(Phase phase);  // "eager decode"
// "Rank 0 reads its slot [1, 0] for token 0 of rank 1 .. It finds nothing that anybody wrote."
std::string row_words(const ReplayedStep& step, const Finding& found);

// Of the rows that a step's readers found wrong, the one that shows most: drawn, moved, of hidden states, misplaced;
// of a request's token, never padding.
// nullptr: there is none.
const Finding* telling_row(const ReplayedStep& step, const std::function<bool(const Finding&)>& is_drawn);

// For story.mustache: paragraphs under headings of this level; where it says why, first what an all-to-all is.
nlohmann::ordered_json story_values(const ToldReplay& told, int level);

}  // namespace a2asim
