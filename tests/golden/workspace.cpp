// workspace.jsonl: FlashInfer's constants, the layout of a slice with its size, and the dispatch op's offsets and
// checks.
#include "model/alltoall/workspace.h"

#include <cstdint>
#include <stdexcept>
#include <vector>

#include "model/flashinfer/capacity.h"
#include "tests/golden/table.h"

namespace a2asim::golden {
namespace {

const FlashInferLimits& flashinfer_of(Fields& in) {
  const auto tag = in.get<std::string>("variant");
  const FlashInferLimits* const found = find_flashinfer(tag);
  if (found == nullptr) throw std::invalid_argument("unknown FlashInfer version " + tag);
  return *found;
}

json constants(const FlashInferLimits& flashinfer) {
  return {{"kMaxTopK", flashinfer.max_top_k},
          {"kMaxPayloads", flashinfer.max_payloads},
          {"kMaxRanks", flashinfer.max_ranks},
          {"NUM_METAINFO_FIELDS", flashinfer.num_metainfo_fields}};
}

json size_per_rank(const FlashInferLimits& flashinfer, Fields& in) {
  const int ep_size = in.get<int>("ep_size");
  const auto max_num_tokens = in.get<std::int64_t>("max_num_tokens");
  const auto eplb = flashinfer.has_eplb_region() ? in.get<std::int64_t>("eplb_stats_num_experts") : 0;
  const WorkspaceLayout at = make_workspace_layout(flashinfer, ep_size, max_num_tokens, eplb);
  const auto bytes = workspace_bytes_per_rank(at, ep_size, max_num_tokens,
                                              in.get<std::int64_t>("total_dispatch_payload_size_per_token"),
                                              in.get<std::int64_t>("combine_payload_size_per_token"));
  json offsets{{"FLAG_VAL_OFFSET_INDEX", at.flag_val},
               {"LOCAL_TOKEN_COUNTER_OFFSET_INDEX", at.local_token_counter},
               {"SEND_COUNTERS_OFFSET_INDEX", at.send_counters},
               {"RECV_COUNTERS_OFFSET_INDEX", at.recv_counters},
               {"DISPATCH_COMPLETION_FLAGS_OFFSET_INDEX", at.dispatch_completion_flags},
               {"COMBINE_COMPLETION_FLAGS_OFFSET_INDEX", at.combine_completion_flags},
               {"TOPK_TARGET_RANKS_OFFSET_INDEX", at.topk_target_ranks},
               {"TOPK_SEND_INDICES_OFFSET_INDEX", at.topk_send_indices},
               {"PAYLOAD_DATA_OFFSET_INDEX", at.payload_data}};
  if (flashinfer.has_eplb_region()) offsets["EPLB_GATHERED_STATS_OFFSET_INDEX"] = at.eplb_gathered_stats;
  return {{"workspace_size", bytes}, {"aux_data_size", at.payload_data}, {"offsets", offsets}};
}

json dispatch_op(const FlashInferLimits& flashinfer, Fields& in) {
  std::vector<Payload> payloads;
  for (const json& payload : in.at("payloads"))
    payloads.push_back({payload.at(0).get<std::int64_t>(), payload.at(1).get<std::int64_t>()});
  DispatchCall call;
  call.ep_size = in.get<int>("ep_size");
  call.ep_rank = in.get<int>("ep_rank");
  call.runtime_max_tokens_per_rank = in.get<std::int64_t>("runtime_max_tokens_per_rank");
  call.max_num_tokens = in.get<std::int64_t>("max_num_tokens");
  call.workspace_bytes_per_rank = in.get<std::int64_t>("workspace_size_per_rank");
  call.top_k = in.get<int>("top_k");
  call.num_experts = in.get<std::int64_t>("num_experts");
  call.payloads = payloads;
  in.ignore({"local_num_tokens"});  // the op compares it with nothing but the payloads' own first dimension
  if (const auto accepted = check_dispatch_op(flashinfer, call); !accepted)
    return {{"error", accepted.error().message}};
  const DispatchRegions regions = dispatch_regions(flashinfer, call);
  return {{"out",
           {{"recv_offsets", regions.recv_offsets},
            {"recv_byte_sizes", regions.recv_byte_sizes},
            {"combine_payload_offset", regions.combine_payload_offset}}}};
}

}  // namespace

json answer_workspace(Fields& in, const json&) {
  const FlashInferLimits& flashinfer = flashinfer_of(in);
  const auto function = in.get<std::string>("fn");
  if (function == "constants") return {{"out", constants(flashinfer)}};
  if (function == "moe_a2a_get_workspace_size_per_rank") return {{"out", size_per_rank(flashinfer, in)}};
  if (function == "moeA2ADispatchOp") return dispatch_op(flashinfer, in);
  throw std::invalid_argument("unknown function " + function);
}

// The errors are all "Check failed", so the whole text is compared: which check fired, and its numbers.
std::optional<std::string> mismatch_workspace(const json& ours, const json& row) {
  if (row.contains("error") && ours.contains("error") && ours["error"] != row["error"])
    return "error: ours " + ours["error"].dump() + ", the row " + row["error"].dump();
  return mismatch_exact(ours, row);
}

}  // namespace a2asim::golden
