#include "property_tests/search.h"

#include "model/base/check_invariant.h"

namespace a2asim::props {

std::optional<Broken> find_broken(const Law& law, std::string_view version, const SizingRule& rule,
                                  const Search& search) {
  A2ASIM_INVARIANT(search.worlds >= 1, "a search tries something");
  Workbench bench(rule);
  Marks marks;
  Trial trial{bench, marks};
  RandomChoice choose(search.seed);
  const Space space = law.random();
  for (std::int64_t tried = 1; tried <= search.worlds; ++tried) {
    const Scenario world = draw_world(choose, space, version);
    Broken broken{tried, world, world, law.body(world, trial)};
    if (broken.why.empty()) continue;
    for (bool is_smaller = true; is_smaller;) {
      is_smaller = false;
      for (const Scenario& candidate : smaller_worlds(broken.smallest)) {
        std::string why = law.body(candidate, trial);
        if (why.empty()) continue;
        broken.smallest = candidate;
        broken.why = std::move(why);
        is_smaller = true;
        break;
      }
    }
    return broken;
  }
  return std::nullopt;
}

}  // namespace a2asim::props
