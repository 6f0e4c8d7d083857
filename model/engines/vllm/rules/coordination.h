// What data-parallel ranks exchange before every forward pass, and what they make of it: the list L of token counts,
// one graph mode, and whether all of them run two microbatches.
//
//   A0 v0.9.0   the counts, nothing is padded
//   A1 #18724   everybody is padded to the largest; #18935: not with --enforce-eager
//   A3 #25768   vllm/v1/worker/dp_utils.py; #26375: padded unless the compilation's mode is NONE
//   A6 #30173   the graph mode is exchanged; #34102: it decides the padding
// Model runner V2 (vllm/v1/worker/gpu/dp_utils.py, #32936) exchanges counts, mode and the tokens of a request.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "model/engines/vllm/rules/graphs.h"

namespace a2asim::vllm {

enum class Padding : std::uint8_t {
  never,
  always,
  unless_eager,         // --enforce-eager
  unless_setting_none,  // cudagraph_mode of the compilation; ranks assert that all say the same
  by_agreed_mode,
};

struct Coordination {
  Padding padding = Padding::by_agreed_mode;
  bool exchanges_mode = true;
  bool dispatches_again = true;           // with the agreed count, and asserts that it is the size of a graph (#28579)
  bool counts_padding_as_tokens = false;  // #28579 to #30173: microbatches are voted on by the padded count
  bool again_in_agreed_mode_only = true;  // #34102; before: no FULL graph unless FULL was agreed
  bool idle_replays_its_own = false;      // #24845 to #25906: an idle rank keeps the graph of its one dummy token
  Dispatch dispatch = dispatch_pr36165;
};

struct Microbatching {
  bool is_on = false;
  std::int64_t count = 2;
  std::int64_t decode_threshold = 32;
  std::int64_t prefill_threshold = 512;

  bool wants(std::int64_t num_tokens, bool uniform_decode) const {
    return is_on && num_tokens >= (uniform_decode ? decode_threshold : prefill_threshold);
  }
};

// One rank's columns of the table that is all-reduced.
struct Proposal {
  std::int64_t unpadded = 0;
  std::int64_t padded = 0;
  bool wants_microbatches = false;
  GraphMode mode = GraphMode::none;
  bool allows_padding = true;
};

struct Agreement {
  bool microbatches = false;
  bool pads = false;
  bool all_allow_padding = true;
  std::int64_t most = 0;  // of the padded counts
  GraphMode mode = GraphMode::none;

  std::int64_t tokens_of(const Proposal& rank) const { return pads ? most : rank.padded; }
};
Agreement agree(const Coordination& rules, std::span<const Proposal> ranks, std::int64_t microbatches = 2);
// The rank asserts that everybody allows padding, or nobody.
bool asserts_padding(const Coordination& rules, const Agreement& agreed, const Proposal& rank);

// --- a step of runner V1

struct ScheduledRank {
  bool is_idle = false;  // runs a dummy decode batch
  std::int64_t num_tokens = 0;
  std::int64_t num_reqs = 0;
  std::int64_t max_scheduled_tokens = 0;  // of one request
  bool uses_cascade_attention = false;
};

struct DecidedRank {
  GraphMode mode = GraphMode::none;
  std::int64_t num_tokens = 0;  // that the rank runs, padding included
  std::optional<Error> raised;
};

struct StepInputs {
  const Coordination& rules;
  const Graphs& graphs;
  const Microbatching& microbatching;
  bool enforce_eager = false;
};
// `each`: one for all ranks, or one a rank, where nodes have other settings. proposals and decided: one a rank, as
// `ranks`. The list of a rank is agreed.tokens_of(proposal of each rank).
Agreement step_v1(std::span<const StepInputs> each, std::span<const ScheduledRank> ranks, std::span<Proposal> proposals,
                  std::span<DecidedRank> decided);
inline Agreement step_v1(const StepInputs& in, std::span<const ScheduledRank> ranks, std::span<Proposal> proposals,
                         std::span<DecidedRank> decided) {
  return step_v1(std::span(&in, 1), ranks, proposals, decided);
}

// --- a step of runner V2

struct RunnerV2 {
  bool rounds_up_decode_graphs = false;  // #45953: decode graphs hold whole requests
  // #47808: the first rank's width is handed on, also where others have another: all replay a decode graph then.
  bool first_width_counts = false;
};

struct ScheduledRankV2 {
  std::int64_t num_reqs = 0;
  std::int64_t num_tokens = 0;
  std::optional<std::int64_t> uniform_token_count;
  bool needs_eager = false;
};
struct AgreementV2 {
  bool runs = false;                 // false: nobody has anything to do
  GraphMode mode = GraphMode::none;  // none: L holds the counts as they are
};
// `each`: one for all ranks, or one a rank. decided: one a rank; with a mode agreed its num_tokens is the entry of
// every rank in that rank's list.
AgreementV2 step_v2(const RunnerV2& rules, std::span<const Candidates> each, std::span<const ScheduledRankV2> ranks,
                    std::span<Candidate> decided);
inline AgreementV2 step_v2(const RunnerV2& rules, const Candidates& candidates, std::span<const ScheduledRankV2> ranks,
                           std::span<Candidate> decided) {
  return step_v2(rules, std::span(&candidates, 1), ranks, decided);
}

}  // namespace a2asim::vllm
