// Whole scenarios as the values that properties speak of: drawn, made smaller, understood.
//
// A drawn world is a Scenario, so that a failing one can be written as a file and replayed. It keeps the limits that it
// names itself: counts within --max-running-requests and --chunked-prefill-size, as many entries as ranks, experts for
// every rank.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "model/step/engine.h"
#include "property_tests/choice.h"
#include "sim/scenario/scenario.h"

namespace a2asim::props {

// What may be drawn. The exhaustive walk wants few values each, the random run wants many.
struct Space {
  std::vector<std::int64_t> ranks;  // tp_size
  std::int64_t max_experts = 0;     // at least one a rank
  bool every_expert_count = false;  // else multiples of the ranks, now and then with a remainder
  std::vector<std::int64_t> top_k;
  std::int64_t max_tokens = 0;     // one rank, one step
  bool patterns = false;           // counts at edges, skewed, idle; else each of 0..max_tokens
  std::vector<std::int64_t> caps;  // max_num_tokens
  std::int64_t max_steps = 1;
  int faults = 0;  // the most of a world
  std::vector<std::string_view> backends = {"flashinfer"};
  std::vector<Routing::Kind> routings = {Routing::Kind::uniform};
  // plain: DP attention with a rank a replica, eager decode, for laws that look at rows alone. wide: replicas of two
  // ranks.
  enum class Layouts : std::uint8_t { all, plain, wide } layouts = Layouts::all;
  bool one_batch = false;  // max_tokens on every rank: for laws that look at the deployment alone
};

Space random_space();
Space random_space_with_faults();
Space random_space_of_backends();  // every fixed-capacity backend
Space small_space();               // ranks <= 4, experts <= 6, tokens <= 3, top_k <= 2: one step
Space small_sequences();           // two ranks, two steps
// For laws that cost more a world, or look at a part of it:
Space small_deployments();  // as many experts as ranks, top_k 1
Space small_pairs();        // two ranks, two steps, at most one token
Space small_faults();       // two ranks, one step, at most one token, one fault
Space small_wide_faults();  // the same of four ranks in two replicas
Space small_fault_pairs();  // two faults in one decode step of two ranks
Space small_texts();        // at most two ranks, one step, at most one token
Space small_backends();     // two ranks, every fixed-capacity backend
Space small_rounds();       // ranks <= 4, experts <= 6, tokens <= 3, top_k <= 2 of one layout

// Versions of every engine, oldest first.
std::vector<const Version*> every_version();
const Version& version_named(std::string_view name);
bool is_of_first_engine(const Version& version);

// Of engines but the first, layouts have one rank a replica: others' replicas of several ranks send copies.
Scenario draw_world(ChoiceSource& choose, const Space& space, std::string_view generation);

// Worlds that are a little smaller, the boldest first; each keeps the invariants of a drawn one.
std::vector<Scenario> smaller_worlds(const Scenario& world);
// Decreases with every step of smaller_worlds, so that shrinking ends.
std::int64_t size_of(const Scenario& world);
// "" or what is wrong with it.
std::string broken_invariant(const Scenario& world);

// Requests of one rank that the world's own limits admit in a step of this mode (tokens for extend and mixed).
std::int64_t limit_of(const Scenario& world, ForwardMode mode);

}  // namespace a2asim::props
