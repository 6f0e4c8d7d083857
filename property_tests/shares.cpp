#include "property_tests/shares.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "property_tests/world.h"

namespace a2asim::props {
namespace {

using Counts = std::vector<std::int64_t>;

bool has_idle(const Counts& tokens) {
  const auto idle = std::ranges::count(tokens, 0);
  return idle > 0 && idle < std::ssize(tokens);
}

bool is_unequal(const Counts& tokens) {
  return std::ranges::any_of(tokens, [&](std::int64_t count) { return count != tokens.front(); });
}

bool is_at_edge(const Scenario& world) {
  for (const Step& step : world.steps)
    for (std::size_t rank = 0; rank < step.tokens.size(); ++rank) {
      const std::int64_t count = step.tokens[rank];
      for (const std::int64_t bs : world.parallel->cuda_graph_bs)
        if (count == bs || count == bs + 1) return true;
      if (count > 0 && count == limit_of(world, step.mode_of(rank))) return true;
    }
  return false;
}

}  // namespace

void Shares::count(const Scenario& world) {
  const auto any = [&](auto test) { return std::ranges::any_of(world.steps, test) ? 1 : 0; };
  const auto any_mode = [&](ForwardMode mode) {
    return any([mode](const Step& step) { return std::ranges::count(step.mode, mode) > 0; });
  };
  ++worlds;
  idle += any([](const Step& step) { return has_idle(step.tokens); });
  unequal += any([](const Step& step) { return is_unequal(step.tokens); });
  at_edge += is_at_edge(world) ? 1 : 0;
  remainder += world.model.num_experts % world.parallel->world_size() != 0 ? 1 : 0;
  several_steps += world.steps.size() > 1 ? 1 : 0;
  graphs += world.parallel->cuda_graph_bs.empty() ? 0 : 1;
  must_replay += any([](const Step& step) { return step.graph == true; });
  mixed += any_mode(ForwardMode::mixed);
  draft_extend += any_mode(ForwardMode::draft_extend);
  named_idle += any_mode(ForwardMode::idle);
}

void Shares::add(const Shares& other) {
  for (std::int64_t Shares::*const part :
       {&Shares::worlds, &Shares::idle, &Shares::unequal, &Shares::at_edge, &Shares::remainder, &Shares::several_steps,
        &Shares::graphs, &Shares::must_replay, &Shares::mixed, &Shares::draft_extend, &Shares::named_idle})
    this->*part += other.*part;
}

std::string text(const Shares& shares) {
  const auto part = [&](std::int64_t count) { return shares.worlds == 0 ? 0 : 1000 * count / shares.worlds; };
  return fmt::format(
      "of 1000 worlds {} have idle ranks, {} unequal ones, {} stand at an edge, {} have a remainder of experts, {} "
      "several "
      "steps, {} graphs, {} must replay; {} have mixed, {} draft_extend, {} idle by name",
      part(shares.idle), part(shares.unequal), part(shares.at_edge), part(shares.remainder), part(shares.several_steps),
      part(shares.graphs), part(shares.must_replay), part(shares.mixed), part(shares.draft_extend),
      part(shares.named_idle));
}

}  // namespace a2asim::props
