// One value per version of vLLM: which rule of each kind it uses, and facts that the program asks for.
//   const auto match = vllm::find_generation("v0.12.0");
//   if (match) as_generation(*match->version).coordination.padding;
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "model/engines/vllm/rules/coordination.h"
#include "model/engines/vllm/rules/one_sided.h"
#include "model/engines/vllm/start/defaults.h"
#include "model/engines/vllm/start/parallel_config.h"
#include "model/step/engine.h"

namespace a2asim::vllm {

// A failure that a version is known for. The property laws must find it, and no other.
enum class KnownFailure : std::uint8_t {
  none,
  idle_graph,    // #24845 to #25906: an idle rank replays the graph of one token
  agreed_size,   // #28579 to #30173: the agreed count is the size of no graph
  request_keys,  // #34102 to #36165: no FULL graph with that number of requests
};

// What the all-to-all buffers are allocated for.
struct CapacityRules {
  bool chunks = true;                     // to #39107: in rounds; after: max_num_batched_tokens at once
  bool chunk_is_a_variable = false;       // #19506: VLLM_MOE_DP_CHUNK_SIZE; before 256
  bool may_disable_chunks = false;        // #29936: VLLM_ENABLE_MOE_DP_CHUNK
  bool deepep_buffer_variable = false;    // #24845: VLLM_DEEPEP_BUFFER_SIZE_MB; before 1 GiB
  bool may_force_intra_node = false;      // #27328: VLLM_DEEPEP_HIGH_THROUGHPUT_FORCE_INTRA_NODE
  bool deepep_knows_ep = false;           // #23619: dispatchers are counted over the expert-parallel group
  bool two_sided_spans_ep_group = false;  // #40893
  OneSided one_sided;
};

struct Generation : Version {
  Coordination coordination;
  bool has_runner_v2 = false;     // #32936, by VLLM_USE_V2_MODEL_RUNNER
  bool moe_models_on_v2 = false;  // #42667: DeepSeek, Qwen and Granite
  RunnerV2 runner_v2;
  bool graphs_with_all2all = false;               // #18724
  std::string_view default_graphs = "PIECEWISE";  // #25444: FULL_AND_PIECEWISE
  ParallelRules parallel;
  DefaultRules defaults;
  CapacityRules capacity;
  ErrorKind uneven_experts = ErrorKind::assertion_error;  // a ValueError from #42976 on
  bool has_eplb_flag = false;                             // #18343
  bool nvfp4_gathers_over_dp = false;  // #24982 to #32567: with sequence-parallel experts the sizes do not match
  bool cutedsl_wants_batches = true;   // flashinfer_cutedsl experts, until there were two kinds of them
  bool compares_nodes = false;         // #26218: the parallel configuration of every node is compared at the start
  FlashInferVersion flashinfer = FlashInferVersion::v0_6_1;
  KnownFailure known_failure = KnownFailure::none;
};

std::span<const Generation> generations();  // oldest first
inline const Generation& as_generation(const Version& version) { return static_cast<const Generation&>(version); }
// Also "before25906" (what was in force until it) and "v39107".
Result<VersionMatch> find_generation(std::string_view text);
// The oldest version from which on the failure is gone.
const Generation& first_without(KnownFailure failure);

}  // namespace a2asim::vllm
