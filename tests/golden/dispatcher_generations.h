// Which dispatcher rules the rows of sizing.jsonl and capacity.jsonl name by their field "generation".
#pragma once

#include <array>
#include <stdexcept>
#include <string>
#include <string_view>

#include "model/capacity.h"
#include "model/result.h"
#include "model/sizing.h"

namespace a2asim::golden {

struct DispatcherGeneration {
  std::string_view name;
  Result<SizingDecision> (*sizing)(const RankView&);
  SanitizeRule sanitize;
  bool dummy_token;  // the dispatcher has the attribute that the rows report
  CapacityRules capacity;
};

inline const DispatcherGeneration& dispatcher_generation(std::string_view name) {
  using enum FlashInferVersion;
  using enum SanitizeRule;
  static constexpr std::array<DispatcherGeneration, 11> kGenerations{{
      {"pr14668", sizing_pr14668, none, true, {v0_6_1, max_num_tokens_pr14668}},
      {"pr24850", sizing_pr14668, minus_one, true, {v0_6_8_post1, max_num_tokens_pr14668}},
      {"pr25685", sizing_pr25685, minus_one, true, {v0_6_11_post1, max_num_tokens_pr14668}},
      {"pr25907", sizing_pr25907, num_experts, true, {v0_6_11_post1, max_num_tokens_pr25907}},
      {"pr26643", sizing_pr25907, num_experts, true, {v0_6_11_post1, max_num_tokens_pr26643}},
      {"pr27945", sizing_pr27945, num_experts, true, {v0_6_12, max_num_tokens_pr26643}},
      {"pr29461", sizing_pr29461, num_experts, true, {v0_6_12, max_num_tokens_pr26643}},
      {"pr22394", sizing_pr22394, minus_one_if_routed, false, {v0_6_12, max_num_tokens_pr26643}},
      {"pr30450", sizing_pr30450, minus_one_if_routed, false, {v0_6_12, max_num_tokens_pr26643}},
      {"main20260823", sizing_pr30450, minus_one_if_routed, false, {v0_6_17, max_num_tokens_pr26643}},
      {"newest008b79d2", sizing_pr35758, minus_one_if_native, false, {v0_6_17, max_num_tokens_pr26643, true}},
  }};
  for (const DispatcherGeneration& generation : kGenerations)
    if (generation.name == name) return generation;
  throw std::invalid_argument("unknown generation " + std::string(name));
}

}  // namespace a2asim::golden
