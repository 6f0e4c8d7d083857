// What SGLang does with its arguments before anything runs: what it rewrites, and what it refuses.
//
// SGLang: ServerArgs._handle_dwdp, _handle_data_parallelism, _handle_context_parallelism, _handle_moe_kernel_config,
// _handle_a2a_moe and _validate_cutedsl_a2a_token_budget (python/sglang/srt/server_args.py, from July 2026
// arg_groups/parallel_hook.py and arg_groups/moe_hook.py). They run in this order, and each sees what the one before it
// wrote.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/note.h"
#include "model/base/result.h"
#include "model/engines/sglang/start/server_args.h"
#include "model/launch/environment.h"

namespace a2asim {

// When SGLANG_MOE_NVFP4_DISPATCH is turned on for the flashinfer backend, if it is not set.
enum class Nvfp4Dispatch : std::uint8_t { always, fp4_quantization };

// What must fit into env x ep_size before flashinfer_cutedsl may run on the flashinfer backend.
enum class CutedslBudget : std::uint8_t { none, max_prefill_tokens, largest_forward };

// The start-up rules of one SGLang version. Lists hold words with one blank between them.
struct StartRules {
  std::string_view ep_size_is_tp_size;         // backends that spread the experts over all of tp_size
  bool ep_size_comes_first = false;            // written before the flashinfer backend is checked
  bool flashinfer_needs_dp_attention = false;  // and dp_size == tp_size
  std::string_view flashinfer_runners;
  Nvfp4Dispatch nvfp4_dispatch = Nvfp4Dispatch::always;
  CutedslBudget cutedsl_budget = CutedslBudget::none;
  std::string_view mori_message;  // empty: no mori backend yet
  bool deepep_cutedsl_is_low_latency =
      false;  // deepep with flashinfer_cutedsl: auto becomes low_latency, normal is refused
  bool has_deepep_v2 = false;
  bool variable_chooses_megamoe = false;           // SGLANG_OPT_USE_DEEPGEMM_MEGA_MOE, over --moe-a2a-backend (#25406)
  std::int64_t megamoe_cap = 1024;                 // environ.py: tokens a rank where its variable is not set
  std::string_view waterfill_backends = "deepep";  // those that may stay with waterfill
  std::string_view mxfp8_runner = "cutlass";       // what the runner auto becomes with --quantization mxfp8
  bool runner_follows_checkpoint = false;          // .. also where the checkpoint alone makes it mxfp8 (#39613)
  bool prefill_cp_needs_8_ranks = true;            // prefill context parallelism: tp_size 8, later up to 8
  bool prefill_cp_covers_mla = false;              // .. forces settings of dense MLA models, too
  bool graphs_per_phase = false;  // graphs of decode and of prefill are disabled by options of their own
};

struct HandlerError {
  std::string_view handler;  // "_handle_a2a_moe"
  Error error;
  bool operator==(const HandlerError&) const = default;
};

// Arguments and environment as the handlers leave them; when one raises, as they were at that moment.
struct StartOutcome {
  ServerArgs args;
  Environment env;
  std::optional<HandlerError> error;
  std::vector<Note> notes;  // what a handler overwrote although the command says otherwise
};

// _handle_data_parallelism, then _handle_a2a_moe unless the first raised. chunked_prefill_size is expected to be
// resolved (SGLang takes it from the GPU's memory when it is not given); where it is None it stays None and the checks
// against it are left out.
StartOutcome run_start_handlers(const StartRules& rules, ServerArgs args, Environment env);

// As above, with prefill context parallelism and _handle_dwdp before, and _handle_context_parallelism and
// _handle_moe_kernel_config between the two: the start-up of a real server.
StartOutcome start_up(const StartRules& rules, ServerArgs args, Environment env);

// SGLANG_FLASHINFER_NUM_MAX_DISPATCH_TOKENS_PER_RANK (default 1024 here) x ep_size must cover the largest forward that
// flashinfer_cutedsl may see. `decode_graph_tokens` (largest decode bucket x speculative_num_draft_tokens) and
// `prefill_graph_tokens` are 0 without such graphs. Expects arguments that start_up has passed.
std::optional<Error> check_cutedsl_token_budget(const StartRules& rules, const ServerArgs& args, const Environment& env,
                                                std::int64_t decode_graph_tokens, std::int64_t prefill_graph_tokens);

}  // namespace a2asim
