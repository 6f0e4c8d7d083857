// A plan as text and as JSON.
#pragma once

#include <string>
#include <vector>

#include "tools/plan/plan.h"

namespace a2asim {

// One point in full; several as one table, a line a point.
std::string plan_as_text(const Plan& plan);
std::string plan_as_json(const Plan& plan);

// "pr14668 to pr27945, pr30450": neighbours in the order of time are joined.
std::string generations_in_words(const std::vector<std::string_view>& names);

// Problems and notes of all points, problems first, each text once.
struct PlanRemark {
  bool is_problem = false;
  std::string text;
  std::string where;  // the points that it is about, the first few; empty: all
};
std::vector<PlanRemark> plan_remarks(const Plan& plan);

// R, "refused", or "-" where the path uses no all-to-all.
std::string size_words(const PlanRule& rule);
// The most slots that any version computes over in eager decode.
const PlanRule* most_wasteful_rule(const PlanPoint& point);

}  // namespace a2asim
