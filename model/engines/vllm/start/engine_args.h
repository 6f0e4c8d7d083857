// The options of a command of vLLM as the rules read them: FlexibleArgumentParser (vllm/utils/argparse_utils.py), which
// takes underscores for dashes and dotted names for JSON, and the fields that EngineArgs makes of them.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/base/note.h"
#include "model/engines/vllm/generation.h"
#include "model/launch/launch_command.h"

namespace a2asim::vllm {

struct EngineArgs {
  std::string model;
  ParallelArgs parallel;
  std::optional<std::int64_t> dp_size_local, dp_start_rank, dp_rank;  // as given
  bool headless = false;
  std::int64_t nnodes = 1, node_rank = 0;
  BatchArgs batch;
  bool enforce_eager = false;
  std::optional<std::string> cudagraph_mode;  // of --compilation-config; upper case
  bool compiles = true;                       // -O0 does not, and then captures no graphs
  std::optional<std::vector<std::int64_t>> capture_sizes;
  std::optional<std::int64_t> max_capture_size;
  std::int64_t num_speculative_tokens = 0;
  std::string speculative_method;
  std::int64_t dbo_decode_threshold = 32, dbo_prefill_threshold = 512;
  std::optional<std::string> quantization, moe_backend;
};

struct ReadArgs {
  EngineArgs args;
  std::vector<Note> notes;
  std::optional<Error> refused;  // by vLLM's own parser: parse_error
};

// Errors: bad_input, for what cannot be read at all, and for options that no version up to the newest one has.
Result<ReadArgs> read_engine_args(const Generation& generation, const LaunchCommand& command);

// What to write instead of an option that the parser refuses.
std::string fix_for_options(const Generation& generation, std::span<const std::string> argv);

}  // namespace a2asim::vllm
