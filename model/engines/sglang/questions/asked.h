// Questions to code outside, one function for each rule that it may answer instead of a version: the same inputs, the
// same result.
//
// Errors: those of the rule, and bad_input where the answer cannot be used.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "model/engines/sglang/generation.h"
#include "model/step/external_engine.h"

namespace a2asim::asked {

// Handlers of ServerArgs: what they leave, with `ours` for everything that they do not touch.
Result<StartOutcome> start(ExternalEngine& engine, const ServerArgs& args, const Environment& env, StartOutcome ours);

struct Predicates {
  Result<bool> require_mlp_tp_gather;
  Result<bool> require_attn_tp_gather;
};
Result<Predicates> gather(ExternalEngine& engine, const GatherInputs& in);

Result<std::vector<std::int64_t>> decode_sizes(ExternalEngine& engine, std::int64_t max_bs, bool speculative,
                                               bool disable_cuda_graph_padding);
Result<std::vector<std::int64_t>> batch_sizes(ExternalEngine& engine, const CaptureFilter& in);
Result<CaptureTokenList> token_list(ExternalEngine& engine, bool require_mlp_tp_gather, bool require_attn_tp_gather,
                                    std::int64_t dp_size, std::int64_t bs, std::int64_t num_tokens_per_bs);

// results: one a DP rank. lists: the list that each rank's batch carries; empty for none.
Result<void> sync(ExternalEngine& engine, const MlpSyncInputs& in, std::int64_t attn_tp_size,
                  std::span<const std::optional<LocalBatch>> batches, std::span<MlpSyncResult> results,
                  std::span<std::vector<std::int64_t>> lists);

// The batch of one rank, as far as the padding looks at it.
struct PaddedRank {
  std::int64_t dp_rank = 0;
  ForwardMode mode = ForwardMode::idle;
  std::int64_t batch_size = 0;
  std::int64_t tokens_per_request = 0;  // 0: no speculation
};
// Pads the list in place, and gives the rank's own padded count.
Result<std::int64_t> pad(ExternalEngine& engine, const DpPaddingInputs& in, std::int64_t attn_cp_size, bool zigzag,
                         std::string_view moe_a2a_backend, const PaddedRank& rank, std::span<std::int64_t> list);

Result<ReplayDecision> bucket(ExternalEngine& engine, const ReplayInputs& in, std::string_view speculative_algorithm);

struct Cap {
  std::int64_t max_num_tokens = 0;
  std::int64_t dispatch_bytes_per_token = 0;
  std::int64_t combine_bytes_per_token = 0;
};
Result<Cap> cap(ExternalEngine& engine, const CapacityInputs& in);

}  // namespace a2asim::asked
