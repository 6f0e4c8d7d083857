// vllm_server_args, vllm_parallel_config, vllm_topology: what the start settles and refuses. Errors are compared as far
// as the row has their text. Not compared: the capture sizes of pr25906, which that table could not compute, and the
// backend (and use_sequence_parallel_moe) where only a variable names it, which the rows do not hold.
#include <algorithm>
#include <map>

#include "tests/golden/vllm.h"

namespace a2asim::golden {
namespace {

using namespace vllm;

ParallelArgs parallel_args(Fields& in) {
  const auto number = [&](const char* key, std::int64_t otherwise) {
    return in.get_or_null<std::int64_t>(key).value_or(otherwise);
  };
  const auto flag = [&](const char* key) { return in.get_or_null<bool>(key).value_or(false); };
  ParallelArgs args;
  args.all2all_backend = in.get_or_null<std::string>("all2all_backend");
  args.sizes = {number("tensor_parallel_size", 1), number("pipeline_parallel_size", 1), number("data_parallel_size", 1),
                number("prefill_context_parallel_size", 1), number("decode_context_parallel_size", 1)};
  args.enable_expert_parallel = flag("enable_expert_parallel");
  args.dp_size_local = number("data_parallel_size_local", 1);
  args.dp_rank = number("data_parallel_rank", 0);
  args.external_lb = flag("data_parallel_external_lb");
  args.hybrid_lb = flag("data_parallel_hybrid_lb");
  args.enable_eplb = flag("enable_eplb");
  args.num_redundant_experts = number("num_redundant_experts", 0);
  args.enable_dbo = flag("enable_dbo");
  args.ubatch_size = number("ubatch_size", 0);
  args.enable_elastic_ep = flag("enable_elastic_ep");
  return args;
}

// The fields of the row that the version's class does not have, in the row's order.
json lacking(const Generation& v, const json& row) {
  const std::map<std::string, bool> has = {{"all2all_backend", v.parallel.source != BackendSource::variable},
                                           {"prefill_context_parallel_size", v.parallel.pcp != PcpRule::unknown},
                                           {"ubatch_size", v.parallel.has_ubatch_size},
                                           {"enable_elastic_ep", v.parallel.has_elastic_ep}};
  json out = json::array();
  for (const char* name : {"all2all_backend", "prefill_context_parallel_size", "enable_elastic_ep", "ubatch_size"}) {
    const json& in = row.at("in");
    if (in.contains(name) && !in.at(name).is_null() && !has.at(name)) out.push_back(name);
  }
  return out;
}

// The use_* properties of FusedMoEParallelConfig that are true once an all-to-all is used.
json kernel_properties(const Generation& v, const std::string& backend) {
  json names = {"use_all2all_kernels"};
  const Kernels kernels = kernels_of(backend);
  const bool early = v.date < "2026-01-21", renamed = v.date >= "2026-03-15";  // #42135 in 2026, #36022
  const bool low_latency = kernels == Kernels::deepep_low_latency;
  if (kernels == Kernels::deepep_high_throughput) names.push_back("use_deepep_ht_kernels");
  if (low_latency) names.push_back("use_deepep_ll_kernels");
  if (kernels == Kernels::pplx) names.push_back("use_pplx_kernels");
  if (!early) {
    const bool nixl = kernels == Kernels::nixl_ep;
    if (low_latency || (nixl && v.date >= "2026-06-08")) names.push_back("use_batched_activation_format");
    if (kernels == Kernels::mori) names.push_back("use_mori_kernels");
    if (nixl) names.push_back("use_nixl_ep_kernels");
    if (kernels == Kernels::deepep_v2) names.push_back("use_deepep_v2_kernels");
    if (kernels == Kernels::flashinfer_one_sided) names.push_back("use_fi_nvl_one_sided_kernels");
    if (kernels == Kernels::flashinfer_two_sided)
      names.push_back(renamed ? "use_fi_nvl_two_sided_kernels" : "use_fi_all2allv_kernels");
    if (kernels == Kernels::allgather_reducescatter || kernels == Kernels::naive)
      names.push_back(v.date >= "2026-03-19" ? "use_ag_rs_all2all_kernels" : "use_naive_all2all_kernels");
  }
  std::sort(names.begin(), names.end());
  return names;
}

}  // namespace

json answer_vllm_parallel_config(Fields& in, const json& row) {
  const Generation& v = vllm_generation(in);
  const ParallelArgs args = parallel_args(in);
  const auto config = parallel_config(v.parallel, args);
  if (!config) return {{"error", as_python(config.error(), "ValidationError")}};
  const bool has_backend = v.parallel.source != BackendSource::variable;
  json out = {{"all2all_backend", has_backend ? json(config->backend) : json()},
              {"world_size", config->world_size},
              {"world_size_across_dp", config->world_size_across_dp},
              {"data_parallel_size", args.sizes.dp},
              {"use_sequence_parallel_moe", config->sequence_parallel}};
  if (v.parallel.has_ubatch_size) {
    out["use_ubatching"] = config->microbatches;
    out["num_ubatches"] = config->num_microbatches;
  }
  if (v.defaults.small_for_batched_dp) out["use_batched_dp_moe"] = is_batched_dp_moe(config->backend, args);
  if (v.parallel.kernels.by_pcp)
    out["use_all2all"] =
        args.sizes.dp > 1 || config->sequence_parallel || (args.enable_expert_parallel && args.sizes.pcp > 1);
  if (const json missing = lacking(v, row); !missing.empty()) out["fields_that_this_version_lacks"] = missing;
  return {{"out", out}};
}

std::optional<std::string> mismatch_vllm_start(const json& ours, const json& row) {
  if (!ours.contains("error") || !row.contains("error")) {
    json mine = ours, theirs = row;
    const bool names_backend = !theirs.contains("out") || !theirs.at("out").at("all2all_backend").is_null();
    for (json* one : {&mine, &theirs})  // else only a variable names the backend, which the row does not hold
      if (!names_backend && one->contains("out"))
        for (const char* key : {"all2all_backend", "use_sequence_parallel_moe"}) one->at("out").erase(key);
    return mismatch_exact(mine, theirs);
  }
  // The list of accepted values is cut, and its order is the version's.
  const auto mine = ours.at("error").get<std::string>(), theirs = row.at("error").get<std::string>();
  if (mine.starts_with(theirs)) return std::nullopt;
  return "ours " + mine + ", theirs " + theirs;
}

json answer_vllm_topology(Fields& in, const json&) {
  const Generation& v = vllm_generation(in);
  ParallelArgs args = parallel_args(in);
  // These classes know neither a backend that is refused nor, before #28718, context parallelism.
  const auto config = parallel_config(v.parallel, args);
  const bool sp = config && config->sequence_parallel;
  const bool all2all = uses_all2all(v.parallel.kernels, args.enable_expert_parallel, sp, args.sizes);
  if (v.parallel.pcp == PcpRule::unknown) args.sizes.pcp = 1;
  json ranks = json::array();
  for (std::int64_t dp = 0; dp < args.sizes.dp; ++dp)
    for (std::int64_t tp = 0; tp < args.sizes.tp; ++tp) {
      const MoeRank r = moe_rank(args.sizes, args.enable_expert_parallel, dp, 0, tp);
      ranks.push_back({r.tp_size, r.tp_rank, r.dp_size, r.dp_rank, r.ep_size, r.ep_rank});
    }
  json properties = json::array();
  if (all2all) properties = kernel_properties(v, config ? config->backend : "");
  return {{"out", {{"per_rank_tp_tprank_dp_dprank_ep_eprank", ranks}, {"true_properties", properties}}}};
}

json answer_vllm_server_args(Fields& in, const json&) {
  const Generation& v = vllm_generation(in);
  const json& gpu = in.at("gpu");
  const auto gpu_name = gpu.at(1).get<std::string>();
  ParallelArgs args = parallel_args(in);
  const std::string backend = args.all2all_backend.value_or("");
  BatchArgs batch{.max_num_batched_tokens = in.get_or_null<std::int64_t>("max_num_batched_tokens"),
                  .max_num_seqs = in.get_or_null<std::int64_t>("max_num_seqs"),
                  .max_model_len = in.get<std::int64_t>("max_model_len"),
                  .performance_mode = in.get<std::string>("performance_mode"),
                  .batched_dp_moe = is_batched_dp_moe(backend, args)};
  const BatchLimits limits = batch_limits(v.defaults, batch, gpu_class(gpu.at(0).get<double>(), gpu_name));
  const auto chunk = in.get<std::int64_t>("VLLM_MOE_DP_CHUNK_SIZE");
  CaptureArgs capture{.enforce_eager = in.get<bool>("enforce_eager"),
                      .sizes = in.get_or_null<std::vector<std::int64_t>>("cudagraph_capture_sizes"),
                      .max_size = {},
                      .width = 1 + in.get<std::int64_t>("num_speculative_tokens"),
                      .interactivity = batch.performance_mode == "interactivity",
                      .sm100 = is_sm100(gpu_name)};
  json out = {{"max_num_batched_tokens", limits.max_num_batched_tokens}, {"max_num_seqs", limits.max_num_seqs}};
  if (const auto refused = refuse_limits(limits)) {
    out["error"] = "SchedulerConfig " + as_python(*refused);
    return {{"out", out}};
  }
  if (args.enable_dbo)
    if (const auto refused = refuse_microbatching(v.defaults, backend)) {
      out["error"] = as_python(*refused);
      return {{"out", out}};
    }
  out["moe_max_num_tokens"] = v.capacity.chunks ? chunk : limits.max_num_batched_tokens;
  const auto sizes = capture_sizes(v.defaults, capture, limits);
  if (!sizes) {
    out["cudagraph_error"] = as_python(sizes.error());
  } else {
    out["cudagraph_capture_sizes"] = *sizes;
    out["max_cudagraph_capture_size"] = sizes->empty() ? 0 : sizes->back();
  }
  return {{"out", out}};
}

std::optional<std::string> mismatch_vllm_server_args(const json& ours, const json& row) {
  json mine = ours, theirs = row;
  if (theirs.at("in").at("generation") == "pr25906")
    for (const char* name : {"cudagraph_error", "cudagraph_capture_sizes", "max_cudagraph_capture_size"}) {
      mine.at("out").erase(name);
      theirs.at("out").erase(name);
    }
  if (mine.at("out").contains("error") && theirs.at("out").contains("error")) {  // the row's text is cut
    const auto shown = theirs.at("out").at("error").get<std::string>();
    const auto own = mine.at("out").at("error").get<std::string>();
    mine.at("out")["error"] = own.substr(0, shown.size());
    theirs.at("out")["error"] = shown.substr(0, own.size());
  }
  return mismatch_exact(mine, theirs);
}

}  // namespace a2asim::golden
