// Which CUDA graph a rank replays: the dispatcher of model runner V1 (vllm/v1/cudagraph_dispatcher.py), version by
// version, and the candidates of runner V2 (vllm/v1/worker/gpu/cudagraph_utils.py).
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "model/base/result.h"

namespace a2asim::vllm {

// CUDAGraphMode of one batch. Ranks exchange the number.
enum class GraphMode : std::uint8_t { none, piecewise, full };
std::string_view name(GraphMode mode);  // "NONE", ..

// CompilationConfig.cudagraph_mode: one routine for every batch, or decode batches apart from mixed ones.
struct GraphSetting {
  std::string_view name;  // "FULL_AND_PIECEWISE"
  GraphMode decode = GraphMode::none;
  GraphMode mixed = GraphMode::none;
  bool is_separate = false;
};
const GraphSetting* find_graph_setting(std::string_view name);  // either case; nullptr: no such mode
const GraphSetting& no_graphs();

// What is captured.
struct Graphs {
  const GraphSetting* setting = &no_graphs();
  std::vector<std::int64_t> sizes;  // tokens, ascending
  std::int64_t width = 1;           // tokens a request in a decode step: 1 and the draft tokens
  std::int64_t max_num_seqs = 0;

  std::int64_t padded(std::int64_t num_tokens) const;  // the smallest size that holds them; 0: none does
};

struct Dispatched {
  GraphMode mode = GraphMode::none;
  std::int64_t num_tokens = 0;
};

// Modes that may be chosen: bit m is mode m.
inline constexpr unsigned kAnyMode = 7;
constexpr unsigned only(GraphMode mode) { return 1U << static_cast<unsigned>(mode); }
constexpr unsigned all_but(GraphMode mode) { return kAnyMode & ~only(mode); }

// Errors: AssertionError, as the dispatcher raises it.
using Dispatch = Result<Dispatched> (*)(const Graphs& graphs, std::int64_t num_tokens, bool uniform_decode,
                                        unsigned allowed);
Result<Dispatched> dispatch_pr28579(const Graphs& graphs, std::int64_t num_tokens, bool uniform_decode,
                                    unsigned allowed);  // a decode batch may take a graph of mixed batches
Result<Dispatched> dispatch_pr34102(const Graphs& graphs, std::int64_t num_tokens, bool uniform_decode,
                                    unsigned allowed);  // mode FULL: only one with exactly its number of requests
Result<Dispatched> dispatch_pr36165(const Graphs& graphs, std::int64_t num_tokens, bool uniform_decode,
                                    unsigned allowed);  // mode FULL: any of its size

// --- model runner V2

// A captured graph, or (mode none) the batch as it is.
struct Candidate {
  GraphMode mode = GraphMode::none;
  std::int64_t num_tokens = 0;
  std::optional<std::int64_t> num_reqs;             // nothing: any number
  std::optional<std::int64_t> uniform_token_count;  // of every request; nothing: any
  bool operator==(const Candidate&) const = default;
};

class Candidates {
 public:
  // rounds_up: decode graphs hold whole requests, so that their sizes are multiples of the width (#45953).
  Candidates(const Graphs& graphs, bool rounds_up);
  Candidate dispatch(std::int64_t num_reqs, std::int64_t num_tokens,
                     std::optional<std::int64_t> uniform_token_count) const;

 private:
  std::vector<Candidate> all_;  // by tokens; of one size the one that is asked first comes first
};

}  // namespace a2asim::vllm
