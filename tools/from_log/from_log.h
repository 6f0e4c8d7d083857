// An SGLang server log -> a scenario with one step an iteration, and everything that could not be placed.
//
// What a log does not say is never filled in silently: a decode batch is logged only every decode_log_interval
// iterations, a rank without work logs nothing, and environment and version are not in it. All of that is a note.
#pragma once

#include <istream>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "model/base/result.h"
#include "model/launch/launch_command.h"
#include "model/step/engine.h"
#include "model/step/model_shapes.h"
#include "sim/scenario/scenario.h"
#include "tools/from_log/from_log_args.h"
#include "tools/from_log/from_log_lines.h"

namespace a2asim {

inline constexpr std::size_t kMaxLogLineBytes = std::size_t{1} << 20;  // of a longer line only the start is read
inline constexpr std::size_t kMaxBatchLines = 1'000'000;

struct LogContents {
  std::size_t lines = 0;
  std::size_t cut_lines = 0;  // longer than kMaxLogLineBytes
  std::vector<BatchLine> batches;
  std::vector<UnusableLine> unusable;
  std::optional<LoggedArgs> args;  // of the first server that starts
  std::size_t args_line = 0;
  std::string args_problem;                      // of the first line of arguments that cannot be read
  std::optional<std::size_t> other_server_line;  // from here on it is a server of another deployment
};

// Batches of lines first..last only; the arguments may stand anywhere. Errors: bad_input, one line.
Result<LogContents> read_log(std::istream& in, std::size_t first_line = 1,
                             std::size_t last_line = std::numeric_limits<std::size_t>::max());

// What a rank without a line in a step is taken for.
enum class MissingRank : std::uint8_t {
  idle,  // no work
  last,  // the requests of its last decode line; no work before the first
  drop,  // the step is left out
};

struct FromLogOptions {
  std::string source;                   // what the log is called in texts
  VersionChoice version;                // nothing: the newest
  std::optional<LaunchCommand> launch;  // in place of the log's server_args
  Environment env;                      // what --env gave
  std::optional<ModelShape> model;
  std::int64_t window_ms = 1000;
  MissingRank missing = MissingRank::idle;
  std::optional<std::int64_t> replica;  // without DP attention: which of the independent servers; nothing: 0
};

struct NotPlaced {
  std::string reason;
  std::size_t count = 0;
  std::vector<std::size_t> first_lines;  // numbers of the first few
};

struct FromLog {
  Scenario scenario;
  std::string yaml;  // the scenario, with notes and the origin of each step as comments
  DecodeLogInterval decode_log_interval;
  Nodes nodes;  // of the server
  std::size_t batch_lines = 0;
  std::size_t placed = 0;
  std::vector<NotPlaced> not_placed;
  std::vector<std::string> notes;
};

// Errors: bad_input, one line with the fix: no batches, no deployment, no model, or more than a scenario holds.
Result<FromLog> scenario_from_log(const LogContents& log, const FromLogOptions& options);

}  // namespace a2asim
