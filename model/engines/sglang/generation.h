// One value per SGLang version: which rule of each kind it uses. Adding the next version means one row in
// generation.cpp and the functions that really changed.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "model/flashinfer/capacity.h"
#include "model/engines/sglang/rules/dp_padding.h"
#include "model/engines/sglang/options/flag_table.h"
#include "model/engines/sglang/rules/gather_rules.h"
#include "model/engines/sglang/rules/graph_buckets.h"
#include "model/engines/sglang/rules/mlp_sync.h"
#include "model/base/result.h"
#include "model/engines/sglang/start/server_args_start.h"
#include "model/engines/sglang/rules/sizing.h"
#include "model/engines/sglang/rules/topology.h"

namespace a2asim {

// How many requests one data-parallel rank may run at once (Scheduler, resolve_max_num_reqs).
struct RequestBoundRules {
  // pr24850 to pr26643: an explicit --max-running-requests // dp is clamped too, to a value between 2048 and 4096 that
  // depends on the token capacity; the upper end here.
  bool clamps_explicit_limit = false;
  // January: the request pool, which limits the capture sizes, holds --max-running-requests itself on every rank.
  bool pool_is_not_divided = false;
};

struct Generation {
  std::string_view name;       // "pr30450", as in --sglang
  int pr = 0;                  // 0: a state of the main branch that no single PR stands for
  std::string_view date;       // YYYY-MM-DD, the day it was merged
  std::string_view commit;     // as far as known
  std::string_view changed;    // one line
  std::string_view releases;   // "v0.5.13, v0.5.13.post1", or empty
  const StartRules* start = nullptr;  // names the option list too
  DpAttentionWorldInfo world_info = nullptr;
  GatherRules gather;
  MlpSyncRules sync;
  DpPaddingRules padding;
  GraphRules graphs;
  Result<SizingDecision> (*sizing)(const RankView&) = nullptr;
  CapacityRules capacity;
  SanitizeRule sanitize = SanitizeRule::none;
  RequestBoundRules requests;
};

std::span<const Generation> generations();  // oldest first
inline const Generation& newest_generation() { return generations().back(); }

// What a person asked for, and what they should know about the answer.
struct GenerationMatch {
  const Generation* generation = nullptr;
  bool has_flashinfer_dispatcher = true;  // false before #14668
  std::string note;                       // empty, or one line
};

// text: a PR ("pr30450", "30450", "#30450"), a date ("2026-06-20": the one in force that day), a release ("v0.5.13"),
// or "newest". Errors: bad_input.
Result<GenerationMatch> find_generation(std::string_view text);

}  // namespace a2asim
