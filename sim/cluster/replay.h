// Runs a scenario on the simulated cluster and says what happened: the library behind `a2asim replay`.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/cluster/cluster.h"
#include "sim/cluster/replay_setup.h"
#include "sim/scenario/scenario.h"

namespace a2asim {

// How far a run is. Within a step so many of its parts are done; after a step both are 0.
struct ReplayProgress {
  std::int64_t steps_done = 0, steps = 0;
  std::int64_t part = 0, parts = 0;
};

struct ReplayOptions {
  Fidelity fidelity = Fidelity::numeric;
  VersionChoice version;                // in place of the scenario's own
  std::optional<std::uint64_t> seed;    // in place of the scenario's
  SizingRule rule;                      // in place of the generation's; may be empty
  std::int64_t findings_per_kind = 64;  // kept of each step
  // Steps of a report are kept as long as they fit: so many ranks times steps. The others only count.
  std::int64_t kept_rank_steps = 200'000;
  // Often: after each step, and within long ones; false ends the run after the step. May be empty.
  std::function<bool(const ReplayProgress&)> progress;
  ClusterMirror* mirror = nullptr;  // see cluster_mirror.h
};

// What one expert-parallel rank knew and did.
struct ReplayedRank {
  RankDecision decision;
  bool takes_part = false;                           // in the all-to-all
  std::optional<std::int64_t> runtime_max() const {  // nothing: it derived none, or uses none
    if (!decision.participates || (decision.raised && !decision.exceeds_cap) ||
        decision.sizing.branch == SizingBranch::allgather_prefill)
      return std::nullopt;
    return decision.sizing.runtime_max_tokens_per_rank;
  }
  std::optional<SizingBranch> branch() const {  // nothing: it took none, or raised before the rule answered
    if (!decision.participates || (decision.raised && !decision.exceeds_cap)) return std::nullopt;
    return decision.sizing.branch;
  }
};

struct ReplayedStep {
  StepOutcome outcome;
  std::vector<RankBatch> batches;   // one a data-parallel rank
  std::vector<ReplayedRank> ranks;  // one an expert-parallel rank
  std::vector<std::optional<std::vector<std::int64_t>>>
      lists;                                            // the token list that each expert-parallel rank's rule saw
  std::vector<Finding> findings;                        // causes first
  std::array<std::int64_t, kFindingKinds> counts = {};  // all of them, also those not kept
  bool is_bad() const;                                  // a verdict other than agrees, or a finding of severity error
  Verdict verdict() const;                              // the outcome's; corrupt where only the findings are bad
};

struct ReplayReport {
  std::string name;
  std::string file;
  const Version* generation = nullptr;
  Fidelity fidelity = Fidelity::numeric;  // as run: a rank built with other payload bytes lowers numeric to provenance
  std::uint64_t seed = 0;
  int ep_size = 0;
  std::int64_t layers = 1;
  std::int64_t max_num_tokens = 0;
  DispatchType dispatch_type = DispatchType::bf16;    // of hidden states
  std::vector<std::int64_t> payload_bytes_per_token;  // of a rank without faults
  std::int64_t dispatch_bytes_per_token = 0, combine_bytes_per_token = 0, workspace_bytes_per_rank = 0;
  std::optional<Topology> topology;

  Verdict verdict = Verdict::agrees;  // of all steps, by precedence
  std::string why;                    // when the engine did not start
  std::string fix;
  std::vector<Finding> start_findings;  // before the first step
  std::optional<std::int64_t> first_bad_step;
  std::int64_t num_steps = 0;  // that the scenario has
  std::int64_t steps_run = 0;  // less where it stopped
  std::vector<ReplayedStep> steps;
  std::array<std::int64_t, kFindingKinds> counts = {};
  std::int64_t bad_tokens = 0;
  Traffic traffic;
  std::uint64_t digest = 0;
  std::vector<std::string> notes;

  bool has_error() const;  // a finding of severity error, or a verdict that says so
  bool knows_traffic() const { return fidelity != Fidelity::geometry; }
  std::int64_t bytes_moved() const { return traffic.dispatch_bytes + traffic.combine_bytes; }
  // Row slots that experts run over and nobody filled, with their bytes in both regions.
  std::int64_t bytes_wasted() const {
    return traffic.wasted_rows() * (dispatch_bytes_per_token + combine_bytes_per_token);
  }
};

// Whether a row that went wrong is of a request: not padding, and not the row of a rank without work.
bool is_of_request(const ReplayedStep& step, const Finding& found);

// Errors are bad_input, one line with the file's name.
Result<ReplayReport> replay(const Scenario& scenario, std::string_view file, const ReplayOptions& options);
// On what deploy() made of the same command, model, version and rule, for who runs many steps of one.
Result<ReplayReport> replay(const Scenario& scenario, std::string_view file, const ReplayOptions& options,
                            const ScenarioDeployment& deployed);

// Empty: as expected. Otherwise one line with what differs. Findings that the fidelity cannot show are not asked for,
// and neither are verdict and step of a scenario that is corrupt where only bytes show it.
std::string differs_from(const Expect& expected, const ReplayReport& report);

}  // namespace a2asim
