// A deployment field by field, instead of a launch command. The fields have SGLang's names; what is left out keeps the
// engine's default, and a field that an engine has no flag for has no part in its command (Engine::launch_words).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace a2asim {

struct Parallel {
  std::optional<std::string> model_path;  // the launch command needs one; "M" if left out
  std::optional<std::int64_t> tp_size, dp_size, ep_size, pp_size, attn_cp_size, moe_dp_size, moe_dense_tp_size;
  std::optional<bool> enable_dp_attention, enable_dp_lm_head;
  std::optional<std::string> moe_a2a_backend, moe_runner_backend, deepep_mode, flashinfer_a2a_dispatch_type;
  std::optional<std::string> quantization, load_balance_method, disaggregation_mode;
  std::optional<std::int64_t> chunked_prefill_size;  // -1: chunking is off
  std::optional<std::int64_t> max_prefill_tokens, max_running_requests;
  std::optional<bool> enable_mixed_chunk, enable_two_batch_overlap, disable_overlap_schedule;
  std::optional<bool> disable_cuda_graph, disable_cuda_graph_padding;
  std::optional<std::int64_t> cuda_graph_max_bs;
  std::vector<std::int64_t> cuda_graph_bs;     // empty: left out
  std::optional<std::string> cuda_graph_mode;  // of engines that have several: "FULL_DECODE_ONLY"
  std::optional<std::string> speculative_algorithm;
  std::optional<std::int64_t> speculative_num_steps, speculative_eagle_topk, speculative_num_draft_tokens;
  // Not a flag: SGLANG_FLASHINFER_NUM_MAX_DISPATCH_TOKENS_PER_RANK, which is the cap (before #25907: times ep_size).
  std::optional<std::int64_t> max_num_tokens;
  bool operator==(const Parallel&) const = default;

  std::int64_t world_size() const { return tp_size.value_or(1); }
  // Data-parallel ranks that share one all-to-all: without DP attention the replicas are independent.
  std::int64_t attn_dp_size() const { return enable_dp_attention.value_or(false) ? dp_size.value_or(1) : 1; }
};

}  // namespace a2asim
