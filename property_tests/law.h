// A law: one property with the space it is drawn from.
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "property_tests/workbench.h"
#include "property_tests/world.h"

namespace a2asim::props {

// Rare branches that a run reached, by name: derived from what a body observed, so that the model stays free of them.
using Marks = std::map<std::string, std::int64_t, std::less<>>;

// What a body works with, besides the world.
struct Trial {
  Workbench& bench;
  Marks& marks;
};

// "": the law holds, or has nothing to say of this world. Otherwise one line: what was seen, where.
using LawBody = std::string (*)(const Scenario& world, Trial& trial);

struct Law {
  std::string_view name;  // short: the name of its test case
  std::string_view says;
  LawBody body;
  Space (*random)();                    // drawn from this
  std::vector<Space (*)()> exhaustive;  // and all of these
  // Marks that its random run must reach.
  std::vector<std::string_view> reaches = {};
  // The all-to-all alone is asked, which is the same for all: the exhaustive walk takes one generation.
  bool asks_generation = true;
  // Why versions of other engines than the first are left out; empty: they are not.
  std::string_view first_engine_only = {};
};
std::span<const Law> laws();
const Law& law(std::string_view name);
// Not among laws(): they must fail.
const Law& canary_law();
const Law& dying_law();
const Law& throwing_law();
// Why this law says nothing of that version; empty: it does.
std::string_view why_skipped(const Law& law, const Version& version);
// As the version's own file says; every other one must keep the law. One whose known failure is not found any
// more fails the build: either somebody repaired the rule, or the model no longer shows the defect.
bool is_known_to_fail(const Law& law, std::string_view generation);

// laws_decide.cpp: sizes, as ranks compute them
std::string ranks_agree(const Scenario& world, Trial& trial);
std::string fits_exactly(const Scenario& world, Trial& trial);
std::string wastes_nothing(const Scenario& world, Trial& trial);
std::string idle_ranks_take_part(const Scenario& world, Trial& trial);
std::string permuting_ranks_permutes(const Scenario& world, Trial& trial);
std::string sharing_changes_nothing(const Scenario& world, Trial& trial);
std::string check_is_sound(const Scenario& world, Trial& trial);
std::string larger_caps_fit(const Scenario& world, Trial& trial);
// laws_cluster.cpp: what then happens to bytes
std::string outputs_equal_the_oracle(const Scenario& world, Trial& trial);
std::string reads_nothing_stale(const Scenario& world, Trial& trial);
std::string fidelities_agree(const Scenario& world, Trial& trial);
std::string one_digest(const Scenario& world, Trial& trial);
std::string verdicts_are_plain(const Scenario& world, Trial& trial);
std::string wrong_outputs_have_a_row_to_blame(const Scenario& world, Trial& trial);
std::string consequences_have_causes(const Scenario& world, Trial& trial);
// laws_fault.cpp
std::string faults_are_seen(const Scenario& world, Trial& trial);
std::string order_of_faults_changes_nothing(const Scenario& world, Trial& trial);
// laws_alltoall.cpp: one all-to-all against plain loops
std::string conserves_tokens(const Scenario& world, Trial& trial);
std::string unequal_sizes_go_where_the_sender_says(const Scenario& world, Trial& trial);
std::string renaming_experts_changes_nothing(const Scenario& world, Trial& trial);
std::string permuting_ranks_permutes_rows(const Scenario& world, Trial& trial);
std::string replay_equals_eager(const Scenario& world, Trial& trial);
std::string judge_sees_what_is_wrong(const Scenario& world, Trial& trial);
std::string missing_ranks_are_named(const Scenario& world, Trial& trial);
// laws_text.cpp
std::string texts_are_stable(const Scenario& world, Trial& trial);
// These prove that the harness can fail.
std::string canary(const Scenario& world, Trial& trial);
std::string dying_canary(const Scenario& world, Trial& trial);
std::string throwing_canary(const Scenario& world, Trial& trial);

}  // namespace a2asim::props
