// What the all-to-all of a planned deployment takes: memory, traffic, wasted slots, and the least time on a given link.
//
// Nothing here is a rule of its own: a plan writes the launch command that it stands for, resolves it as `check` does,
// and asks the same capacity, workspace and sizing functions.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/result.h"
#include "model/flashinfer/capacity.h"
#include "model/step/engine.h"
#include "model/step/model_shapes.h"

namespace a2asim {

// What combine carries. Engines leave it at bf16; fp8 is FlashInfer's use_low_precision (float8_e4m3, without scales),
// for which the workspace is reserved as for bf16.
enum class CombineType : std::uint8_t { bf16, fp8 };
std::string_view name(CombineType type);

struct PlanInputs {
  const Version* generation = engines().front()->versions().back();
  ModelShape model;
  DispatchType dispatch_type = DispatchType::bf16;
  CombineType combine_type = CombineType::bf16;
  std::vector<std::int64_t> ep_sizes;
  std::vector<std::int64_t> tokens;            // of one data-parallel rank in one step, the same on all of them
  std::string backend;                         // of the engine; empty: the fixed-geometry one, or what is in its place
  std::int64_t attn_tp_size = 1;               // ranks that share a data-parallel rank's tokens
  std::int64_t layers = 1;                     // mixture-of-experts layers of a step
  std::optional<std::int64_t> max_num_tokens;  // what the engine's cap_variable sets
  std::optional<std::int64_t> chunked_prefill_size;
  std::optional<double> gpu_memory_gib, weights_gib, other_gib;  // of one GPU
  std::optional<double> link_gbps;                               // 10^9 bits a second, one GPU, one direction
};

// A part of one rank's workspace, up to the start of the next.
struct PlanRegion {
  std::string name;
  std::int64_t offset_bytes = 0;
  std::int64_t size_bytes = 0;
};

// Of the busiest rank, in one step of all layers. Remote: over the link; local: to the rank's own slice.
struct PlanTraffic {
  std::int64_t sent_remote_bytes = 0;
  std::int64_t received_remote_bytes = 0;
  std::int64_t local_bytes = 0;
};
struct PlanRouting {
  PlanTraffic dispatch, combine;
  // The least time that the link allows, in microseconds; 0 without a rate.
  double dispatch_us = 0, combine_us = 0;
};

enum class PlanPath : std::uint8_t { eager_decode, graph_decode, prefill };
std::string_view name(PlanPath path);

// What one rule makes of the step, for all versions that come to the same.
struct PlanRule {
  PlanPath path = PlanPath::eager_decode;
  bool own_count_only = false;  // the collapse: --enable-dp-lm-head with --moe-dense-tp-size 1
  std::vector<std::string_view> generations;
  std::string_view rule;                           // the branch in words
  std::optional<std::int64_t> runtime_max_tokens;  // nothing: refused, or no all-to-all
  std::int64_t computed_slots = 0;                 // of one rank: ep_size x R
  std::int64_t needed_slots = 0;                   // ep_size x rows of a rank
  std::string refused;                             // why there is no R
  bool agrees = true;                              // every rank has this R when the others have one token or none
  bool is_chosen = false;                          // holds the version that the plan is for

  std::int64_t wasted_slots() const { return computed_slots > needed_slots ? computed_slots - needed_slots : 0; }
};

struct PlanHeadroom {
  std::string gpu;
  std::int64_t memory_mib = 0;
  std::int64_t left_bytes = 0;  // negative: it does not fit
};

struct PlanPoint {
  std::int64_t ep_size = 0;
  std::int64_t tokens = 0;
  std::int64_t rows_per_rank = 0;  // ceil(tokens / attn_tp_size)
  std::string launch;              // the command that the plan stands for; `a2asim check -- ..` takes it
  std::string backend;             // the all-to-all that it comes to
  Capacity capacity;
  bool workspace_known = true;  // false: the library's own, or exact sizes: 0 bytes here
  std::string capacity_source;
  std::vector<PlanRegion> regions;
  double expected_copies = 0;  // destination ranks of a token under uniform routing, its own included
  PlanRouting expected, worst;
  std::vector<PlanRule> rules;
  std::vector<PlanHeadroom> headroom;
  std::vector<std::string> problems;  // it cannot run so
  std::vector<std::string> notes;
};

// Whether the planned version takes the step at all, and in which of its two kinds. `no` means a problem, and exit
// code 1.
enum class PlanRuns : std::uint8_t { yes, prefill_only, decode_only, no };
std::string_view name(PlanRuns runs);  // "yes", "prefill only", ..
PlanRuns can_run(const PlanPoint& point);

// What the planned version makes of a path when all counts are known, or nullptr.
const PlanRule* chosen_rule(const PlanPoint& point, PlanPath path = PlanPath::eager_decode);

struct Plan {
  PlanInputs inputs;
  std::vector<PlanPoint> points;  // by ep, then by tokens
  bool has_problem() const;
};

inline constexpr std::int64_t kMostPlanRanks = 1024;
inline constexpr std::int64_t kMostPlanTokens = std::int64_t{1} << 20;
inline constexpr std::int64_t kMostPlanLayers = 1024;
inline constexpr std::size_t kMostPlanPoints = 1024;

// Errors: bad_input, one line, for numbers that cannot go together or leave int64.
Result<Plan> make_plan(const PlanInputs& inputs);

inline constexpr std::string_view kGpuMemorySource = "memory.total of nvidia-smi, as public logs show it";

// Probability that at least one of a token's top_k distinct experts, all equally likely, is among these.
double chance_of_rank(std::int64_t num_experts, std::int64_t experts_of_rank, std::int64_t top_k);

}  // namespace a2asim
