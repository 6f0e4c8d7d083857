// A sizing rule of one's own in C++, judged like a built-in one: all batches of all small configurations of #29461.
#include <algorithm>
#include <cstdio>

#include "model/engines/sglang/generation.h"
#include "sim/explore/explore.h"

int main() {
  a2asim::ExploreOptions options;
  options.rule = [](const a2asim::RankView& view) -> a2asim::Result<a2asim::SizingDecision> {
    const bool knows_peers = view.dp_global && view.dp_global->size() > 1;
    a2asim::SizingDecision decision;
    decision.runtime_max_tokens_per_rank = knows_peers ? std::ranges::max(*view.dp_global) : view.rows;
    return decision;
  };
  const auto surroundings = a2asim::find_generation("pr29461");
  const a2asim::GenerationExploration found = a2asim::explore(*surroundings->generation, options);
  const a2asim::ExploreWitness* first = found.first_error();
  std::printf("%lld cases: %s\n%s", static_cast<long long>(found.cases),
              first == nullptr ? "no error" : first->finding.message.c_str(),
              first == nullptr ? "" : first->scenario.c_str());
  return first == nullptr ? 0 : 1;
}
