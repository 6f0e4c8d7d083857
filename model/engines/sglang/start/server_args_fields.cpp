#include "model/engines/sglang/start/server_args.h"

namespace a2asim {
namespace {

using A = ServerArgs;

// Every dest of the flag table that is kept, old spellings included. One field may have several.
constexpr ServerArgsField kFields[] = {
    {"model_path", &A::model_path},
    {"quantization", &A::quantization},
    {"context_length", &A::context_length},
    {"tp_size", &A::tp_size},
    {"tensor_parallel_size", &A::tp_size},
    {"dp_size", &A::dp_size},
    {"data_parallel_size", &A::dp_size},
    {"ep_size", &A::ep_size},
    {"expert_parallel_size", &A::ep_size},
    {"pp_size", &A::pp_size},
    {"pipeline_parallel_size", &A::pp_size},
    {"attn_cp_size", &A::attn_cp_size},
    {"attention_context_parallel_size", &A::attn_cp_size},
    {"moe_dp_size", &A::moe_dp_size},
    {"moe_data_parallel_size", &A::moe_dp_size},
    {"dcp_size", &A::dcp_size},
    {"dwdp_size", &A::dwdp_size},
    {"nnodes", &A::nnodes},
    {"node_rank", &A::node_rank},
    {"moe_dense_tp_size", &A::moe_dense_tp_size},
    {"enable_dp_attention", &A::enable_dp_attention},
    {"enable_dp_lm_head", &A::enable_dp_lm_head},
    {"enable_attn_tp_input_scattered", &A::enable_attn_tp_input_scattered},
    {"disable_attn_tp_gather", &A::disable_attn_tp_gather},
    {"enable_prefill_cp", &A::enable_prefill_cp},
    {"cp_strategy", &A::cp_strategy},
    {"enable_nsa_prefill_context_parallel", &A::enable_nsa_prefill_context_parallel},
    {"enable_dsa_prefill_context_parallel", &A::enable_nsa_prefill_context_parallel},
    {"dsa_prefill_cp_mode", &A::dsa_prefill_cp_mode},
    {"nsa_prefill_cp_mode", &A::dsa_prefill_cp_mode},
    {"enable_prefill_context_parallel", &A::enable_prefill_context_parallel},
    {"moe_a2a_backend", &A::moe_a2a_backend},
    {"speculative_moe_a2a_backend", &A::speculative_moe_a2a_backend},
    {"moe_runner_backend", &A::moe_runner_backend},
    {"speculative_moe_runner_backend", &A::speculative_moe_runner_backend},
    {"deepep_mode", &A::deepep_mode},
    {"flashinfer_a2a_dispatch_type", &A::flashinfer_a2a_dispatch_type},
    {"ep_num_redundant_experts", &A::ep_num_redundant_experts},
    {"enable_eplb", &A::enable_eplb},
    {"elastic_ep_backend", &A::elastic_ep_backend},
    {"disable_shared_experts_fusion", &A::disable_shared_experts_fusion},
    {"enforce_shared_experts_fusion", &A::enforce_shared_experts_fusion},
    {"enable_waterfill", &A::enable_waterfill},
    {"enable_deepep_waterfill", &A::enable_waterfill},
    {"disable_flashinfer_autotune", &A::disable_flashinfer_autotune},
    {"chunked_prefill_size", &A::chunked_prefill_size},
    {"max_prefill_tokens", &A::max_prefill_tokens},
    {"max_running_requests", &A::max_running_requests},
    {"max_total_tokens", &A::max_total_tokens},
    {"page_size", &A::page_size},
    {"mem_fraction_static", &A::mem_fraction_static},
    {"schedule_conservativeness", &A::schedule_conservativeness},
    {"enable_mixed_chunk", &A::enable_mixed_chunk},
    {"disable_overlap_schedule", &A::disable_overlap_schedule},
    {"enable_two_batch_overlap", &A::enable_two_batch_overlap},
    {"enable_single_batch_overlap", &A::enable_single_batch_overlap},
    {"load_balance_method", &A::load_balance_method},
    {"disaggregation_mode", &A::disaggregation_mode},
    {"cuda_graph_max_bs", &A::cuda_graph_max_bs},
    {"cuda_graph_max_bs_decode", &A::cuda_graph_max_bs},
    {"cuda_graph_bs", &A::cuda_graph_bs},
    {"cuda_graph_bs_decode", &A::cuda_graph_bs},
    {"cuda_graph_max_bs_prefill", &A::cuda_graph_max_bs_prefill},
    {"piecewise_cuda_graph_max_tokens", &A::cuda_graph_max_bs_prefill},
    {"cuda_graph_bs_prefill", &A::cuda_graph_bs_prefill},
    {"piecewise_cuda_graph_tokens", &A::cuda_graph_bs_prefill},
    {"cuda_graph_backend_decode", &A::cuda_graph_backend_decode},
    {"cuda_graph_backend_prefill", &A::cuda_graph_backend_prefill},
    {"cuda_graph_config", &A::cuda_graph_config},
    {"disable_cuda_graph", &A::disable_cuda_graph},
    {"disable_cuda_graph_padding", &A::disable_cuda_graph_padding},
    {"disable_decode_cuda_graph", &A::disable_decode_cuda_graph},
    {"disable_prefill_cuda_graph", &A::disable_prefill_cuda_graph},
    {"enable_piecewise_cuda_graph", &A::enable_piecewise_cuda_graph},
    {"speculative_algorithm", &A::speculative_algorithm},
    {"speculative_draft_model_path", &A::speculative_draft_model_path},
    {"speculative_num_steps", &A::speculative_num_steps},
    {"speculative_eagle_topk", &A::speculative_eagle_topk},
    {"speculative_num_draft_tokens", &A::speculative_num_draft_tokens},
    {"speculative_dflash_block_size", &A::speculative_dflash_block_size},
    {"speculative_dspark_block_size", &A::speculative_dspark_block_size},
};

}  // namespace

std::span<const ServerArgsField> server_args_fields() { return kFields; }

const ServerArgsField* find_server_args_field(std::string_view dest) {
  for (const ServerArgsField& field : kFields)
    if (field.dest == dest) return &field;
  return nullptr;
}

bool decode_graphs_disabled(const ServerArgs& args) {
  return args.disable_cuda_graph || args.disable_decode_cuda_graph || args.cuda_graph_backend_decode == "disabled";
}

bool prefill_graphs_disabled(const ServerArgs& args) {
  return args.disable_cuda_graph || args.disable_prefill_cuda_graph || args.cuda_graph_backend_prefill == "disabled";
}

}  // namespace a2asim
