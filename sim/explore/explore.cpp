#include "sim/explore/explore.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <mutex>

#include "model/base/check_invariant.h"
#include "sim/explore/explore_configuration.h"
#include "sim/alltoall/parallel.h"

namespace a2asim {
namespace {

constexpr std::int64_t kBlockConfigurations = 16;  // configurations that a thread takes at once

// What of the space is walked: the budget's prefix of the order, cut inside the last configuration.
struct Plan {
  std::vector<ExploreConfiguration> space;
  std::int64_t end = 0;          // configurations
  std::int64_t last_cases = -1;  // of configuration end - 1; -1: all
};

Plan make_plan(const Version& generation, const ExploreOptions& options) {
  A2ASIM_INVARIANT(!options.budget_cases || *options.budget_cases >= 0, "a budget is a number of cases");
  Plan plan{.space = explore_space(generation), .end = 0};
  const auto all = static_cast<std::int64_t>(plan.space.size());
  plan.end = all;
  if (!options.budget_cases) return plan;
  ConfigurationExplorer explorer(generation, options.rule);
  std::int64_t left = *options.budget_cases;
  for (plan.end = 0; plan.end < all && left > 0; ++plan.end) {
    const std::int64_t cases = explorer.count_cases(plan.space[static_cast<std::size_t>(plan.end)]);
    if (cases >= left) plan.last_cases = left;
    left -= cases;
  }
  return plan;
}

class VersionSearch {
 public:
  VersionSearch(const Version& generation, const ExploreOptions& options)
      : generation_(generation), options_(options), plan_(make_plan(generation, options)) {
    A2ASIM_INVARIANT(options.shards >= 1 && options.shard >= 0 && options.shard < options.shards,
                     "a shard is one of several");
    for (std::int64_t at = options.shard; at < plan_.end; at += options.shards) mine_.push_back(at);
    blocks_.resize((mine_.size() + kBlockConfigurations - 1) / kBlockConfigurations);
  }

  GenerationExploration run() {
    WorkList list(blocks_.size());
    A2ASIM_INVARIANT(plan_.end <= std::ssize(plan_.space), "a plan ends inside its space");
    run_workers(options_.threads, blocks_.size(), [&] { work(list); });
    GenerationExploration whole = empty();
    for (std::size_t block = 0; block < blocks_.size(); ++block) {
      if (!blocks_[block]) {
        whole.stopped_at = mine_[block * kBlockConfigurations];
        break;
      }
      // Blocks of one run always fit together.
      if (const Result<void> added = add(whole, *blocks_[block]); !added) break;
    }
    ConfigurationExplorer explorer(generation_, options_.rule);
    for (ExploreClass& one : whole.classes)
      for (ExploreCell& cell : one.cells)
        for (auto& witness : cell.witness)
          if (witness) explorer.complete(plan_.space[static_cast<std::size_t>(witness->configuration)], *witness);
    return whole;
  }

 private:
  GenerationExploration empty() const {
    GenerationExploration out;
    out.generation = generation_.name;
    out.space = static_cast<std::int64_t>(plan_.space.size());
    return out;
  }

  void work(WorkList& list) {
    ConfigurationExplorer explorer(generation_, options_.rule);
    for (std::optional<std::size_t> taken = list.take(); taken && !stop_; taken = list.take()) {
      const std::size_t block = *taken;
      A2ASIM_INVARIANT(block < blocks_.size() && !blocks_[block], "a block is taken once");
      GenerationExploration found = empty();
      const std::size_t begin = block * kBlockConfigurations,
                        end = std::min(begin + kBlockConfigurations, mine_.size());
      for (std::size_t at = begin; at < end; ++at) {
        const bool last = mine_[at] + 1 == plan_.end;
        explorer.explore(plan_.space[static_cast<std::size_t>(mine_[at])], last ? plan_.last_cases : -1, found);
      }
      blocks_[block] = std::move(found);
      const std::lock_guard lock(progress_);
      done_ += static_cast<std::int64_t>(end - begin);
      if (options_.on_progress && !options_.on_progress(done_, static_cast<std::int64_t>(mine_.size()))) stop_ = true;
    }
  }

  const Version& generation_;
  const ExploreOptions& options_;
  Plan plan_;
  std::vector<std::int64_t> mine_;                            // configurations of this shard
  std::vector<std::optional<GenerationExploration>> blocks_;  // each written by one thread, read after all ended
  std::atomic<bool> stop_ = false;
  std::mutex progress_;
  std::int64_t done_ = 0;
};

void add_cell(ExploreCell& into, const ExploreCell& part) {
  for (std::size_t outcome = 0; outcome < kExploreOutcomes; ++outcome) {
    into.cases[outcome] += part.cases[outcome];
    const auto& other = part.witness[outcome];
    auto& own = into.witness[outcome];
    if (other && (!own || other->comes_before(*own))) own = other;
  }
}

void add_class(ExploreClass& into, const ExploreClass& part) {
  A2ASIM_INVARIANT(part.refused_configurations <= part.configurations, "refused configurations are among all");
  into.configurations += part.configurations;
  into.refused_configurations += part.refused_configurations;
  if (part.refusal_at >= 0 && (into.refusal_at < 0 || part.refusal_at < into.refusal_at)) {
    into.refusal_at = part.refusal_at;
    into.refusal = part.refusal;
  }
  for (std::size_t phase = 0; phase < into.cells.size(); ++phase) add_cell(into.cells[phase], part.cells[phase]);
}

}  // namespace

std::string_view name(ExploreOutcome outcome) {
  A2ASIM_INVARIANT(static_cast<std::size_t>(outcome) < kExploreOutcomes, "an outcome has a name");
  constexpr std::array<std::string_view, kExploreOutcomes> kNames = {"unused",   "safe",     "wasteful", "rejected",
                                                                     "over_cap", "overflow", "disagrees"};
  return kNames[static_cast<std::size_t>(outcome)];
}

std::int64_t ExploreCell::total() const {
  std::int64_t sum = 0;
  for (const std::int64_t count : cases) sum += count;
  return sum;
}

std::optional<ExploreOutcome> ExploreCell::outcome() const {
  for (std::size_t outcome = kExploreOutcomes; outcome-- > 0;)
    if (cases[outcome] > 0) return static_cast<ExploreOutcome>(outcome);
  return std::nullopt;
}

const ExploreWitness* GenerationExploration::first_error() const {
  for (std::size_t extra = 0; extra < kExploreExtras; ++extra) {
    const ExploreWitness* first = nullptr;
    for (std::size_t one = extra; one < kExploreClasses; one += kExploreExtras)
      for (const ExploreCell& cell : classes[one].cells)
        for (std::size_t outcome = 0; outcome < kExploreOutcomes; ++outcome) {
          const auto& witness = cell.witness[outcome];
          if (!witness || !is_error(static_cast<ExploreOutcome>(outcome))) continue;
          if (first == nullptr || witness->comes_before(*first)) first = &*witness;
        }
    if (first != nullptr) return first;
  }
  return nullptr;
}

std::int64_t GenerationExploration::count(ExploreOutcome outcome) const {
  A2ASIM_INVARIANT(static_cast<std::size_t>(outcome) < kExploreOutcomes, "an outcome has a count");
  std::int64_t sum = 0;
  for (const ExploreClass& one : classes)
    for (const ExploreCell& cell : one.cells) sum += cell.cases[static_cast<std::size_t>(outcome)];
  return sum;
}

Result<void> add(GenerationExploration& into, const GenerationExploration& part) {
  if (into.generation != part.generation || into.space != part.space)
    return fail(ErrorKind::bad_input, fmt::format("{} with {} configurations does not fit to {} with {}",
                                                  part.generation, part.space, into.generation, into.space));
  // Every count of a cell is part of this one.
  if (part.cases > kMostCases - into.cases || part.configurations > kMostCases - into.configurations)
    return fail(ErrorKind::bad_input, fmt::format("more than {} cases", kMostCases));
  into.configurations += part.configurations;
  into.cases += part.cases;
  if (part.stopped_at) into.stopped_at = std::min(into.stopped_at.value_or(*part.stopped_at), *part.stopped_at);
  for (std::size_t i = 0; i < into.classes.size(); ++i) add_class(into.classes[i], part.classes[i]);
  return {};
}

GenerationExploration explore(const Version& generation, const ExploreOptions& options) {
  A2ASIM_INVARIANT(options.threads >= 1, "somebody works");
  return VersionSearch(generation, options).run();
}

}  // namespace a2asim
