// One value per SGLang version: which rule of each kind it uses, and facts that the program asks for. Each version is a
// file of versions/, which names what changed against the one before it.
//   const auto match = find_generation("v0.5.13");
//   if (match) match->generation->sizing(view);
#pragma once

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/result.h"
#include "model/engines/sglang/options/option_list.h"
#include "model/engines/sglang/rules/dp_padding.h"
#include "model/engines/sglang/rules/gather_rules.h"
#include "model/engines/sglang/rules/graph_buckets.h"
#include "model/engines/sglang/rules/mlp_sync.h"
#include "model/engines/sglang/rules/sizing.h"
#include "model/engines/sglang/rules/topology.h"
#include "model/engines/sglang/start/server_args_start.h"
#include "model/engines/sglang/static_caps.h"
#include "model/flashinfer/capacity.h"
#include "model/step/engine.h"

namespace a2asim {

// resolve_max_num_reqs: an unset limit is clamped to 2048..4096 by the token capacity, which a command does not settle.
// So memory is sure to bound no fewer.
inline constexpr std::int64_t kLeastDefaultRequests = 2048;

// How many requests one data-parallel rank may run at once (Scheduler, resolve_max_num_reqs).
struct RequestBoundRules {
  // pr24850 to pr26643: an explicit --max-running-requests // dp is clamped too, to a value between 2048 and 4096 that
  // depends on the token capacity; the upper end here.
  bool clamps_explicit_limit = false;
  // January: the request pool, which limits the capture sizes, holds --max-running-requests itself on every rank.
  bool pool_is_not_divided = false;
};

// Merged after a version, known, and not modelled.
struct NotModelled {
  std::string_view date = {};  // empty: nothing
  std::string_view what = {};
};

struct Generation;

// What a release has besides the rules of its version: its branch is cut later than the change that the version stands
// for.
struct ReleaseState {
  std::string_view name;  // "v0.5.11"
  OptionList options;
  FlashInferVersion flashinfer;
  void (*besides)(Generation& own) = nullptr;
};

// What the days before a change lacked, of a change that is older than all versions.
struct EarlierState {
  std::string_view until_date, until_release;  // the day of the change, and the first release with it
  void (*lacks)(Generation& own);
};

struct Generation : Version {
  NotModelled not_modelled;

  OptionList options;
  bool options_are_complete = true;  // false: not all of them were read, so that one missing here may exist
  std::vector<EarlierState> earlier_states;
  std::vector<ReleaseState> release_states;  // of those of its releases that have more than its rules
  StartRules start;
  DpAttentionWorldInfo world_info = nullptr;
  GatherRules gather;
  MlpSyncRules sync;
  DpPaddingRules padding;
  GraphRules graphs;
  Result<SizingDecision> (*sizing)(const RankView&) = nullptr;
  CapacityRules capacity;
  SanitizeRule sanitize = SanitizeRule::none;
  RequestBoundRules requests;
  DeepEpLimits deepep;

  std::string_view cap_default;                 // the cap where its variable is not set, in words
  bool cap_is_times_ep_size = false;            // either way
  bool always_gathers = false;                  // FlashInfer's all-to-all: all counts are known on all ranks
  bool only_graphs_disagree = false;            // without all counts: eager forwards take the cap
  bool extend_leaves_alltoall = false;          // batches with prefill are gathered instead
  bool prefill_graphs_with_flashinfer = false;  // until then the flashinfer backend disables them
  // The token list is a class attribute that does not exist until capture, or a batch, assigns it.
  bool list_unassigned_before_capture = false;
  // Runners whose kernels a dummy run of the whole request pool tunes, which goes through dispatch; with one blank
  // between.
  std::string_view autotuned_runners;

  // Laws of property_tests/ that it breaks, and why. It must keep every other.
  std::map<std::string_view, std::string_view> known_failures;
};

std::span<const Generation> generations();  // oldest first
inline const Generation& newest_generation() { return generations().back(); }
std::span<const Generation> newer_than(const Generation& generation);  // oldest first
// The oldest version of which a fact is true: where a person finds it. At least the newest has it.
// The oldest release whose version has the fact.
std::string_view first_release_with(bool Generation::*fact);
const Generation& first_with(bool Generation::*fact);

// What a person asked for, and what they should know about the answer.
struct GenerationMatch {
  const Generation* generation = nullptr;  // of generations(), or one of them with what a release or a day has besides
  bool has_flashinfer_dispatcher = true;   // false before #14668
  std::string note;                        // empty, or one line
};

// text: a PR ("pr30450", "30450", "#30450"), a date ("2026-06-20": the one in force that day), a release ("v0.5.13"),
// or "newest". Errors: bad_input.
Result<GenerationMatch> find_generation(std::string_view text);

}  // namespace a2asim
