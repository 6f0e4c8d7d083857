// ParallelConfig (vllm/config/parallel.py): what the parallel sizes and the backend come to, and what is refused.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "model/base/result.h"
#include "model/engines/vllm/rules/topology.h"

namespace a2asim::vllm {

enum class BackendSource : std::uint8_t {
  variable,            // VLLM_ALL2ALL_BACKEND only
  flag_then_variable,  // #26732
  variable_then_flag,  // #30363
  flag,                // #33535: the variable is not read
};

enum class PcpRule : std::uint8_t { unknown, refused, not_checked, only_without_dp };

struct ParallelRules {
  BackendSource source = BackendSource::variable;
  std::string_view default_backend = "naive";
  std::string_view backends;  // words: names that are accepted
  std::string_view removed;   // of these: become allgather_reducescatter, with a warning
  KernelRules kernels;
  PcpRule pcp = PcpRule::unknown;
  bool checks_dcp = false;         // tp_size % decode_context_parallel_size
  bool checks_sizes_first = true;  // before #27328: one function; after: sizes are checked behind the rank
  bool eplb_counts_pcp = false;
  bool has_ubatch_size = false;  // #30120
  bool has_elastic_ep = false;   // #34861
};

struct ParallelArgs {
  std::optional<std::string> all2all_backend;  // the flag
  std::optional<std::string> backend_variable;
  ParallelSizes sizes;
  bool enable_expert_parallel = false;
  std::int64_t dp_size_local = 1;
  std::int64_t dp_rank = 0;
  bool external_lb = false, hybrid_lb = false;
  bool enable_eplb = false;
  std::int64_t num_redundant_experts = 0;
  bool enable_dbo = false;
  std::int64_t ubatch_size = 0;
  bool enable_elastic_ep = false;
  bool operator==(const ParallelArgs&) const = default;
};

struct ParallelConfig {
  std::string backend;
  bool from_variable = false;     // the backend
  bool ignores_variable = false;  // set, and not read; or set, and the flag wins
  bool ignores_flag = false;      // given, and the variable wins
  std::string replaced;           // the removed name that was asked for
  std::int64_t world_size = 1;    // without data parallelism
  std::int64_t world_size_across_dp = 1;
  bool sequence_parallel = false;
  bool all2all = false;
  bool microbatches = false;
  std::int64_t num_microbatches = 0;
};

// Errors: value_error (pydantic wraps it in its ValidationError), runtime_error for a NotImplementedError.
Result<ParallelConfig> parallel_config(const ParallelRules& rules, const ParallelArgs& args);

// use_batched_dp_moe: whose experts want their tokens in batches of a fixed size.
bool is_batched_dp_moe(std::string_view backend, const ParallelArgs& args);

// Physical experts must be a multiple of ep_size with EPLB.
std::optional<Error> refuse_uneven_experts(std::int64_t num_physical_experts, std::int64_t ep_size, ErrorKind kind);

}  // namespace a2asim::vllm
