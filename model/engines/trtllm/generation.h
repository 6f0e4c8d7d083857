// One value per state of TensorRT-LLM: which rule of each kind it uses. versions.cpp names what changed from one to the
// next; where a tag's exact content was not read, a release is placed by its date and says so.
//   const auto match = trtllm::find_generation("1.3.0rc21");
//   if (match) as_generation(*match->version).chunks;
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "model/engines/trtllm/rules/chunks.h"
#include "model/engines/trtllm/rules/graphs.h"
#include "model/engines/trtllm/rules/method.h"
#include "model/engines/trtllm/rules/workspace.h"
#include "model/step/engine.h"

namespace a2asim::trtllm {

// A way to hang or to fail that no batch shows: something differs between ranks.
struct Hazard {
  std::string_view what;
  std::string_view until;  // the version without it
};

struct Generation : Version {
  std::vector<int> changes;  // pull requests that it stands for, its own included

  // The lane, by MoE backend; `factory` asks for all of them alike.
  Selector trtllm_backend = no_method, cutlass_backend = no_method, wideep_backend = wideep;
  bool has_factory = false;
  bool factory_by_variable = false;  // only with ENABLE_CONFIGURABLE_MOE=1
  bool mnnvl_on_arm_only = false;
  bool refuses_wideep = false;
  bool deepep_by_default = true;
  std::int64_t deepep_max_top_k = 0;

  ChunkRules chunks;
  bool low_latency_asks_own_rows = false;
  bool wideep_nvlink_cuts = true;

  KernelLimits kernel;
  std::span<const int> supported_top_k;
  bool fixed_workspace = false;  // 2048 MiB or the variable's, whatever max_num_tokens
  bool pads_hidden = false;      // to 256 before dispatch, but not where the workspace is sized
  bool skips_invalid_ids = false;
  bool checks_ranks_first = false;  // kMaxRanks, before it allocates a workspace a layer

  GraphRules graphs;
  BucketRule buckets = BucketRule::powers_floor;
  bool filter_keeps_zero = true;
  bool context_dummy = false;  // an idle rank beside a prefill takes part with max_num_tokens
  bool has_mnnvl_under_ray = false;
};

std::span<const Generation> generations();  // oldest first
inline const Generation& newest_generation() { return generations().back(); }
inline const Generation& as_generation(const Version& version) { return static_cast<const Generation&>(version); }
std::vector<Hazard> hazards_of(const Generation& generation);

// "t9", "w1", a change ("pr16745", "#16745"; "before16745": what was in force until it), a release ("1.3.0rc21"), an
// image
// ("nvcr.io/../release:1.3.0rc21", "tensorrtllm-runtime:0.8.1.post3"), a date, or "newest". Errors: bad_input.
Result<VersionMatch> find_generation(std::string_view text);

}  // namespace a2asim::trtllm
