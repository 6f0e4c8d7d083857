// Inside exploring: one configuration, all its batches.
#pragma once

#include <map>
#include <memory>
#include <span>
#include <vector>

#include "model/step/decider.h"
#include "model/step/external_engine.h"
#include "model/step/judgement.h"
#include "sim/explore/explore.h"
#include "sim/explore/explore_batches.h"

namespace a2asim {

// Exposed for its own test: what exploring calls this judgement of a batch.
ExploreOutcome outcome_of(const Judgement& said);

class ConfigurationExplorer {
 public:
  ConfigurationExplorer(const Version& generation, SizingRule rule)
      : generation_(generation),
        rule_(std::move(rule)),
        gathering_(engine_of(rule_) != nullptr ? engine_of(rule_)->gathering() : nullptr) {}

  std::int64_t count_cases(const ExploreConfiguration& configuration);
  // Adds what is found to `into`. limit: only the first cases count; -1: all.
  void explore(const ExploreConfiguration& configuration, std::int64_t limit, GenerationExploration& into);
  // Finding and scenario of a witness that explore() has placed, with the smallest counts that show it.
  void complete(const ExploreConfiguration& configuration, ExploreWitness& witness);

 private:
  struct Case {
    ExploreOutcome outcome;
    std::uint8_t phase;     // index in kExplorePhases
    bool by_itself = true;  // false: refused only because the server comes to nothing, see explore()
  };
  // Has code outside answer all that a configuration asks, many questions at once.
  void ask_ahead(const ExploreConfiguration& configuration, bool batches);
  const ExploreBatches& batches_of(const Deployment& deployment);
  void record(const ExploreConfiguration& configuration, ExploreClass& into);

  const Version& generation_;
  SizingRule rule_;
  std::unique_ptr<ExternalEngine> gathering_;  // with code outside
  std::map<std::vector<std::int64_t>, std::unique_ptr<ExploreBatches>> batches_;  // by ExploreBatches::key
  std::vector<Case> cases_;                                                       // scratch
  std::array<std::int64_t, kExplorePhases.size()> largest_{};  // the largest R wanted, or rows, by phase
};

}  // namespace a2asim
