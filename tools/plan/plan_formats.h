// A plan as text and as JSON.
#pragma once

#include <string>
#include <vector>

#include "tools/plan/plan.h"

namespace a2asim {

// One point in full; several as one table, a line a point.
std::string plan_as_text(const Plan& plan);
std::string plan_as_json(const Plan& plan);

// What a person wants to know first: whether it runs, whether it fits, how long it takes.
struct PlanAnswer {
  bool is_bad = false;
  std::string verdict;  // "Fits on every GPU listed"
  std::string cause;    // of what cannot run; else empty
  std::string memory;   // "the workspace takes 1.8 GiB per rank; ..", one sentence without its full stop
  std::string time;     // "dispatch and combine take at least 450 us per step ..", or how to get it
};
PlanAnswer answer_of(const Plan& plan);

// "v0.5.9 to v0.5.14, v0.5.16": neighbours in the order of time are joined; a change without a release by its name.
std::string generations_in_words(const std::vector<std::string_view>& names);

// Problems and notes of all points, problems first, each text once.
struct PlanRemark {
  bool is_problem = false;
  std::string text;
  std::string where;  // the points that it is about, the first few; empty: all
};
std::vector<PlanRemark> plan_remarks(const Plan& plan);

std::string workspace_words(const PlanPoint& point);            // "288.7 MiB"; "-" where it is not known
std::string microseconds(double value);                         // "12.0 us", "3.4 ms"
std::string times(std::int64_t computed, std::int64_t needed);  // "1.5x"; "-" where nothing is needed

// R, "refused", or "-" where the path uses no all-to-all.
std::string size_words(const PlanRule& rule);
// The most slots that any version computes over in eager decode.
const PlanRule* most_wasteful_rule(const PlanPoint& point);

}  // namespace a2asim
