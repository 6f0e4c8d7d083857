// vllm_chunk_rounds, vllm_fi_one_sided_size, vllm_fi_one_sided_runtime, vllm_deepep_ll_hint, vllm_deepep_kwargs:
// rounds, buffers and what a rank hands to the kernels. Of deepep_kwargs the sizes are compared, not the switches that
// have nothing to do with them (explicitly_destroy, allow_*, enable_shrink).
#include <algorithm>

#include "model/engines/vllm/rules/deepep.h"
#include "model/engines/vllm/rules/rounds.h"
#include "tests/golden/vllm.h"

namespace a2asim::golden {

using namespace vllm;

json answer_vllm_chunk_rounds(Fields& in, const json&) {
  const Generation& v = vllm_generation(in);
  in.ignore({"data_parallel_size"});
  const auto sp = in.get<std::int64_t>("sp_size"), chunk = in.get<std::int64_t>("chunk");
  const auto list = in.get<std::vector<std::int64_t>>("num_tokens_across_dp");
  const std::int64_t rounds = num_rounds(std::ranges::max(list), sp, chunk);
  const bool has_sizes = v.date >= "2025-08-07";  // #21963: the sizes of a round are kept
  json ranks = json::array();
  for (std::size_t rank = 0; rank < list.size() * static_cast<std::size_t>(sp); ++rank) {
    json rows = json::array(), sizes = json::array();
    for (std::int64_t round = 0; round < rounds; ++round) {
      json of_round = json::array();
      for (std::size_t other = 0; other < list.size() * static_cast<std::size_t>(sp); ++other)
        of_round.push_back(rows_of_round(ceil_div(list[other / static_cast<std::size_t>(sp)], sp), round, chunk));
      rows.push_back(of_round[rank]);
      sizes.push_back(has_sizes ? of_round : json());
    }
    ranks.push_back({{"rounds", rounds}, {"rows", rows}, {"local_sizes", rank == 0 ? sizes : json()}});
  }
  return {{"out", {{"ranks", ranks}}}};
}

json answer_vllm_fi_one_sided_size(Fields& in, const json&) {
  const Generation& v = vllm_generation(in);
  const auto tag = in.get<std::string>("flashinfer");
  const FlashInferLimits* const flashinfer = find_flashinfer(tag);
  if (flashinfer == nullptr || flashinfer->version != v.flashinfer) throw std::invalid_argument("another pin: " + tag);
  in.ignore({"model"});
  std::vector<OneSidedLayer> layers;
  for (const json& layer : in.at("layers")) {
    const json& type = layer.at("quant_dtype");
    layers.push_back({type.is_null() ? std::nullopt : std::optional(type.get<std::string>()),
                      layer.at("hidden_size").get<std::int64_t>(), layer.at("top_k").get<std::int64_t>(),
                      layer.at("num_experts").get<std::int64_t>(), layer.at("mx_alignment").get<std::int64_t>()});
  }
  const auto tp = in.get<std::int64_t>("tensor_parallel_size"), dp = in.get<std::int64_t>("data_parallel_size");
  const auto tokens = in.get<std::int64_t>("max_num_batched_tokens");
  const auto workspace = one_sided_workspace(v.capacity.one_sided, *flashinfer, layers, tp * dp, dp, tokens);
  if (!workspace) return {{"out", {{"error", as_python(workspace.error())}}}};
  json out = {{"max_num_tokens", tokens},
              {"workspace_size_per_rank", workspace->bytes_per_rank},
              {"builds", workspace->builds},
              {"workspace_leading_dim", workspace->leading_dim},
              {"ep_size", tp * dp}};
  if (workspace->leading_dim != tp * dp) out["kernel_check"] = "workspace first dim must equal ep_size";
  return {{"out", out}};
}

std::optional<std::string> mismatch_vllm_fi_one_sided_size(const json& ours, const json& row) {
  json cut = ours;
  const json& theirs = row.at("out");
  if (theirs.contains("error") && cut.at("out").contains("error")) {
    const auto shown = theirs.at("error").get<std::string>();
    cut["out"]["error"] = cut.at("out").at("error").get<std::string>().substr(0, shown.size());
  }
  return mismatch_exact(cut, row);
}

json answer_vllm_fi_one_sided_runtime(Fields& in, const json&) {
  const Generation& v = vllm_generation(in);
  in.ignore({"tensor_parallel_size", "data_parallel_size", "sp_size"});  // 1: this backend is not sequence-parallel
  const auto list = in.get<std::vector<std::int64_t>>("num_tokens_across_dp");
  const auto cap = in.get<std::int64_t>("max_num_batched_tokens");
  const bool no_metadata = in.get<bool>("dp_metadata_none"), has_sizes = in.get<bool>("local_sizes_set");
  json rank = {{"runtime_max_tokens_per_rank", std::ranges::max(list)},
               {"max_num_tokens", cap},
               {"invalid_token_expert_id", v.capacity.one_sided.marks_unused_rows ? json(-1) : json()}};
  if (no_metadata && v.capacity.chunks)  // the getter of the chunked sizes is asked without a check
    rank = {{"error", "AttributeError: 'NoneType' object has no attribute 'get_chunk_sizes_across_dp_rank'"}};
  else if (no_metadata || !has_sizes)
    rank = {{"error", "AssertionError: "}};
  return {{"out", {{"ranks", json(list.size(), rank)}}}};
}

json answer_vllm_deepep_ll_hint(Fields& in, const json&) {
  in.ignore({"deepep", "model", "ep_size"});
  const auto experts = in.get<std::int64_t>("num_physical_experts");
  if (experts != in.get<std::int64_t>("num_logical_experts") + in.get<std::int64_t>("num_redundant_experts"))
    throw std::invalid_argument("physical experts are logical ones and copies");
  const auto bytes =
      deepep_rdma_bytes(in.get<std::int64_t>("max_num_tokens"), in.get<std::int64_t>("hidden_size"), experts);
  return {
      {"out", {{"num_rdma_bytes", *bytes}, {"buffer_assert_num_rdma_bytes_div16_lt_int_max", deepep_accepts(*bytes)}}}};
}

json answer_vllm_deepep_kwargs(Fields& in, const json&) {
  const Generation& v = vllm_generation(in);
  const bool low_latency = in.get<std::string>("manager") == "DeepEPLLAll2AllManager";
  const auto asked_mb = in.get<std::int64_t>("VLLM_DEEPEP_BUFFER_SIZE_MB");
  const std::int64_t buffer = (v.capacity.deepep_buffer_variable ? asked_mb : 1024) << 20;
  const bool intra = in.get<bool>("VLLM_DEEPEP_HIGH_THROUGHPUT_FORCE_INTRA_NODE");
  const bool crosses = in.get<bool>("internode") && !(intra && v.capacity.may_force_intra_node);
  const DeepEpBuffer out =
      low_latency
          ? deepep_low_latency_buffer(buffer, in.get<std::int64_t>("max_num_tokens_per_dp_rank"),
                                      in.get<std::int64_t>("token_hidden_size"), in.get<std::int64_t>("num_ep_ranks"),
                                      in.get<std::int64_t>("num_global_experts"))
          : deepep_high_throughput_buffer(buffer, crosses);
  return {{"out",
           {{"num_nvl_bytes", out.nvl_bytes},
            {"num_rdma_bytes", out.rdma_bytes},
            {"low_latency_mode", low_latency},
            {"num_qps_per_rank", out.num_qps_per_rank}}}};
}

std::optional<std::string> mismatch_vllm_deepep_kwargs(const json& ours, const json& row) {
  json sizes = row;
  for (const char* name : {"explicitly_destroy", "allow_nvlink_for_low_latency_mode", "allow_mnnvl", "enable_shrink"})
    sizes.at("out").erase(name);
  return mismatch_exact(ours, sizes);
}

}  // namespace a2asim::golden
