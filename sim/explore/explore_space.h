// The configurations that exploring walks: every combination of a few values of each setting that decides the
// all-to-all, in order of size, so that the first counterexample is a smallest one.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/step/engine.h"
#include "sim/scenario/scenario.h"

namespace a2asim {

// Rows of the safety matrix: how the ranks are laid out, and at most one aggravation.
enum class ExploreLayout : std::uint8_t {
  one_rank,           // tp 1
  tensor_parallel,    // no DP attention: one batch, scattered over the ranks
  dp_attention,       // dp == tp
  attn_tp,            // DP attention with dp < tp
  collapsed,          // dp == tp, --moe-dense-tp-size 1 and --enable-dp-lm-head
  collapsed_attn_tp,  // the same with dp < tp
};
enum class ExploreExtra : std::uint8_t { none, speculative, small_cap, skip_all_gather, lane };
inline constexpr std::size_t kExploreLayouts = 6;
inline constexpr std::size_t kExploreExtras = 5;
inline constexpr std::size_t kExploreClasses = kExploreLayouts * kExploreExtras;
std::string class_name(std::size_t exploring_class);  // "collapsed", "collapsed+speculative", ..

struct ExploreConfiguration {
  std::int64_t ordinal = 0;  // its place in the order of size
  std::size_t exploring_class = 0;
  Parallel parallel;
  std::map<std::string, std::string> env;
  std::optional<std::string> launch;  // of an engine with settings of its own; then `parallel` has the ranks only
};

// The same list for every generation but for the runner, which is the first that the generation allows. Ordered by
// ranks, then by how many settings differ from the plain ones.
std::vector<ExploreConfiguration> explore_space(const Version& version);

// The shape of the model that witnesses use: small, and divisible by every number of ranks of the space.
ScenarioModel explore_model();

// A scenario of the configuration, without steps.
Scenario explore_scenario(const Version& version, const ExploreConfiguration& configuration);

// The deployment that the scenario describes, with a rule of the user's own or an empty one.
Result<std::unique_ptr<Deployment>> explore_deployment(const Version& version,
                                                       const ExploreConfiguration& configuration, SizingRule rule);

}  // namespace a2asim
