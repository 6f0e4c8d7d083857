// Somebody's own sizing rules: one property with rapidcheck over drawn worlds, and the laws of a2asim::testing.
#include <a2asim/a2asim.h>
#include <a2asim/testing.h>
#include <rapidcheck.h>

#include <algorithm>
#include <cstdio>

using namespace a2asim;

Result<SizingDecision> own_rows(const RankView& view) { return SizingDecision{view.rows, view.rows}; }
Result<SizingDecision> largest_count(const RankView& view) {
  std::int64_t most = view.rows;
  if (view.dp_global)
    for (const std::int64_t count : *view.dp_global) most = std::max(most, count);
  return SizingDecision{most, view.rows};
}

bool holds(const char* what, const SizingRule& rule) {
  return rc::check(what, [&](std::uint64_t seed) {
    props::RandomChoice choose(seed);
    const Scenario world = props::draw_world(choose, props::small_space(), "pr30450");
    ReplayOptions options;
    options.fidelity = Fidelity::geometry;
    options.rule = rule;
    const auto report = replay(world, "drawn", options);
    RC_ASSERT(!report || report->verdict != Verdict::disagrees);
  });
}

int main() {
  const props::Law& agreement = props::law("agreement");
  const auto broken = props::find_broken(agreement, "pr30450", own_rows);
  if (!broken) return std::puts("own rows must break the law"), 1;
  std::printf("%s, after %lld worlds\n%s", broken->why.c_str(), static_cast<long long>(broken->cases),
              to_yaml(broken->smallest).c_str());
  if (const auto kept = props::find_broken(agreement, "pr30450", largest_count))
    return std::printf("the largest count keeps the law: %s\n%s", kept->why.c_str(), to_yaml(kept->smallest).c_str()),
           1;
  return !holds("own rows agree (they do not)", own_rows) && holds("the largest count agrees", largest_count) ? 0 : 1;
}
