// The server arguments that decide the all-to-all, their defaults and spellings by version.
//
// SGLang: python/sglang/srt/server_args.py, ServerArgs.add_cli_args and from_cli_args. Field names are SGLang's; where
// versions spell one field differently (cuda_graph_max_bs, later cuda_graph_max_bs_decode) it is one field here.
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "model/engines/sglang/options/option_list.h"
#include "model/base/note.h"
#include "model/base/result.h"

namespace a2asim {

// std::nullopt is Python's None. Defaults here are those of the newest version; parse_server_args sets each field to
// the default of the version that it is asked for.
struct ServerArgs {
  using Int = std::int64_t;
  using OptionalInt = std::optional<std::int64_t>;
  using OptionalInts = std::optional<std::vector<std::int64_t>>;
  using OptionalString = std::optional<std::string>;

  OptionalString model_path;
  OptionalString quantization;
  OptionalInt context_length;

  // Parallel sizes.
  Int tp_size = 1;
  Int dp_size = 1;
  Int ep_size = 1;
  Int pp_size = 1;
  Int attn_cp_size = 1;
  Int moe_dp_size = 1;
  Int dcp_size = 1;
  Int dwdp_size = 1;
  Int nnodes = 1;
  Int node_rank = 0;
  OptionalInt moe_dense_tp_size;
  bool enable_dp_attention = false;
  bool enable_dp_lm_head = false;
  bool enable_attn_tp_input_scattered = false;
  bool disable_attn_tp_gather = false;
  bool enable_prefill_cp = false;
  OptionalString cp_strategy;
  bool enable_nsa_prefill_context_parallel = false;  // later enable_dsa_prefill_context_parallel
  std::string dsa_prefill_cp_mode = "round-robin-split";  // earlier nsa_prefill_cp_mode
  bool enable_prefill_context_parallel = false;

  // Mixture of experts.
  std::string moe_a2a_backend = "none";
  OptionalString speculative_moe_a2a_backend;
  std::string moe_runner_backend = "auto";
  OptionalString speculative_moe_runner_backend;
  std::string deepep_mode = "auto";
  OptionalString flashinfer_a2a_dispatch_type;
  Int ep_num_redundant_experts = 0;
  bool enable_eplb = false;
  OptionalString elastic_ep_backend;
  bool disable_shared_experts_fusion = false;
  bool enforce_shared_experts_fusion = false;
  bool enable_waterfill = false;
  bool disable_flashinfer_autotune = false;

  // Scheduling. Counts are tokens or requests of the whole server, before any division by dp_size.
  OptionalInt chunked_prefill_size;
  Int max_prefill_tokens = 16384;
  OptionalInt max_running_requests;
  OptionalInt max_total_tokens;
  OptionalInt page_size;
  std::optional<double> mem_fraction_static;
  double schedule_conservativeness = 1.0;
  bool enable_mixed_chunk = false;
  bool disable_overlap_schedule = false;
  bool enable_two_batch_overlap = false;
  bool enable_single_batch_overlap = false;
  std::string load_balance_method = "auto";
  std::string disaggregation_mode = "null";

  // CUDA graphs. Batch sizes are requests in decode, tokens in prefill.
  OptionalInt cuda_graph_max_bs;
  OptionalInts cuda_graph_bs;
  OptionalInt cuda_graph_max_bs_prefill;  // January: piecewise_cuda_graph_max_tokens
  OptionalInts cuda_graph_bs_prefill;     // January: piecewise_cuda_graph_tokens
  OptionalString cuda_graph_backend_decode;
  OptionalString cuda_graph_backend_prefill;
  OptionalString cuda_graph_config;  // JSON text
  bool disable_cuda_graph = false;
  bool disable_cuda_graph_padding = false;
  bool disable_decode_cuda_graph = false;
  bool disable_prefill_cuda_graph = false;
  bool enable_piecewise_cuda_graph = false;  // January: prefill graphs are opt-in

  // Speculation.
  OptionalString speculative_algorithm;
  OptionalString speculative_draft_model_path;
  OptionalInt speculative_num_steps;
  OptionalInt speculative_eagle_topk;
  OptionalInt speculative_num_draft_tokens;
  OptionalInt speculative_dflash_block_size;  // DFLASH: another name of num_draft_tokens
  OptionalInt speculative_dspark_block_size;  // DSPARK: proposed tokens; one more is verified

  bool operator==(const ServerArgs&) const = default;
};

// No decode graph is captured: --disable-cuda-graph, --disable-decode-cuda-graph or the backend "disabled".
bool decode_graphs_disabled(const ServerArgs& args);
// No prefill graph is captured. In January they exist only with --enable-piecewise-cuda-graph.
bool prefill_graphs_disabled(const ServerArgs& args);

// One spelling of a field and where it is kept.
struct ServerArgsField {
  using Member =
      std::variant<bool ServerArgs::*, ServerArgs::Int ServerArgs::*, double ServerArgs::*, std::string ServerArgs::*,
                   ServerArgs::OptionalInt ServerArgs::*, std::optional<double> ServerArgs::*,
                   ServerArgs::OptionalString ServerArgs::*, ServerArgs::OptionalInts ServerArgs::*>;
  std::string_view dest;  // the name that some version gives it
  Member member;
};
std::span<const ServerArgsField> server_args_fields();
const ServerArgsField* find_server_args_field(std::string_view dest);

// strict: what argparse does; every problem is parse_error with argparse's own text.
// lenient: for a person's command. Unknown options, options of other versions and stray words become notes; old
// spellings are read; what cannot be used is bad_input; a value that is no choice of this version is parse_error,
// because SGLang itself would refuse to start.
enum class ParseMode : std::uint8_t { strict, lenient };

struct ParsedArgs {
  ServerArgs args;
  std::vector<Note> notes;                   // empty when strict
  std::vector<std::string> unrecognized;     // options and stray words that argparse takes in no version that is known
  std::set<std::string, std::less<>> given;  // dests that the command line set
};

Result<ParsedArgs> parse_server_args(OptionList list, std::span<const std::string> argv, ParseMode mode);

}  // namespace a2asim
