// Values for templates that the pages of several commands share.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/check/check.h"
#include "model/step/deployment.h"
#include "model/step/topology.h"
#include "model/step/verdict.h"

namespace a2asim {

// "Disagrees", "Over capacity"; "graph decode", "at start".
std::string verdict_title(Verdict verdict);
std::string phase_title(Phase phase);

// setting.mustache, what a fixed-geometry all-to-all is, under a heading of this level. ranks: 0 where pages of several
// sizes share it.
nlohmann::ordered_json setting_values(int level, std::int64_t ranks, const std::optional<ModelShape>& shape);

// The mark of a size: equal sizes share one, so that disagreeing ranks stand out by shape. `seen`: sizes met
// so far.
std::string mark_of(const std::string& size, std::vector<std::string>& seen);

// finding.mustache: what, the batch that shows it with every rank's part, what it does, why, the fix.
nlohmann::ordered_json finding_values(const CheckFinding& finding);

// conditions.mustache: any one of these would do, and what the launch has instead.
nlohmann::ordered_json conditions_values(const std::vector<Condition>& conditions);

// topology.mustache: who is which rank.
nlohmann::ordered_json topology_values(const Topology& topology);

// bars.mustache: horizontal bars on one scale, each with its name and value in words, so that nobody needs
// the picture.
struct Bar {
  std::string name;
  double value = 0;
  std::string words;           // the value with its unit
  bool is_emphasised = false;  // hatched: waste, or what is over a limit
};
// `whole`: what a full bar stands for; 0: the largest value.
nlohmann::ordered_json bars(std::string_view caption, const std::vector<Bar>& list, double whole = 0);
Bar bar_of_bytes(std::string_view name, std::int64_t bytes, bool is_emphasised = false);

// bars.mustache: one rank's workspace by region; the bytes given in all, of which these are for dispatch and combine.
nlohmann::ordered_json workspace_bars(std::int64_t all_bytes, std::int64_t dispatch_bytes, std::int64_t combine_bytes,
                                      std::int64_t max_num_tokens);

}  // namespace a2asim
