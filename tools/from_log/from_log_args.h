// The line server_args=ServerArgs(model_path='..', tp_size=4, ..) at the top of a log -> the deployment. From v0.5.20
// on it is server_args={'model_path': '..', ..}.
//
// SGLang prints its arguments after the start-up handlers (ServerArgs.__post_init__), so what stands there is resolved:
// chunked_prefill_size is already divided by dp_size under DP attention, and is multiplied back here, because the model
// of the start divides it again.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/result.h"
#include "sim/scenario/scenario.h"

namespace a2asim {

// The fields of the repr, name -> value as it is written; nested values stay text, and the entries of dictionaries
// inside are there too ("cuda_graph_config.decode.max_bs"). Nothing when `line` has none. Errors: bad_input when it
// does not close.
using LoggedArgs = std::map<std::string, std::string, std::less<>>;
Result<std::optional<LoggedArgs>> read_server_args(std::string_view line);

// A rank logs a decode batch once in so many decode iterations.
struct DecodeLogInterval {
  std::int64_t iterations = 40;  // SGLang's default
  bool is_logged = false;        // it stands in the log
};

// The hosts of a server: each writes a log of its own ranks.
struct Nodes {
  std::int64_t count = 1;  // --nnodes
  std::int64_t own = 0;    // --node-rank
};

struct LoggedDeployment {
  Parallel parallel;
  DecodeLogInterval decode_log_interval;
  std::optional<std::string> model_path;
  Nodes nodes;
  std::vector<std::string> notes;
};

// Errors: bad_input for a value outside what a scenario takes.
Result<LoggedDeployment> deployment_from(const LoggedArgs& args);

// The same deployment? Nodes of one server differ in their rank and addresses.
bool same_deployment(const LoggedArgs& a, const LoggedArgs& b);

}  // namespace a2asim
