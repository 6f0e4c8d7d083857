#include "model/engines/sglang/rules/mlp_sync.h"

#include <vector>

#include "tests/golden/table.h"
#include "tests/golden/variant.h"

namespace a2asim::golden {
namespace {

std::optional<LocalBatch> local_batch(const json& row) {
  if (row.is_null()) return std::nullopt;
  for (const auto& [key, value] : row.items())
    if (key != "forward_mode" && key != "batch_size" && key != "extend_lens" && key != "extend_logprob_start_lens" &&
        key != "return_logprob")
      throw std::runtime_error("unknown key " + key + " in local_batches");
  const auto lens = row.at("extend_lens").get<std::vector<std::int64_t>>();
  const auto starts = row.at("extend_logprob_start_lens").get<std::vector<std::int64_t>>();
  const auto mode = parse_forward_mode(row.at("forward_mode").get<std::string>());
  if (!mode) throw std::runtime_error(mode.error().message);
  LocalBatch batch{.forward_mode = *mode,
                   .batch_size = row.at("batch_size").get<std::int64_t>(),
                   .extend_num_tokens_for_logprob = logprob_tokens(lens, starts),
                   .return_logprob = row.at("return_logprob").get<bool>()};
  for (const std::int64_t len : lens) batch.extend_num_tokens += len;
  return batch;
}

json nullable(const std::optional<bool>& value) { return value ? json(*value) : json(nullptr); }

json list_of(const MlpSyncResult& result, std::size_t rank, std::span<const std::int64_t> counts) {
  const auto list = token_list(result, rank, counts);
  return list ? json(std::vector<std::int64_t>(list->begin(), list->end())) : json(nullptr);
}

json rank_out(const MlpSyncRules& rules, const MlpSyncResult& result, std::size_t rank, const MlpSyncWorld& world) {
  json out = {{"returned", result.has_batch ? json(name(result.forward_mode)) : json(nullptr)},
              {"idle_batch_created", result.idle_batch_created ? 1 : 0}};
  if (!result.has_gathered_batch) return out;
  out["global_num_tokens"] = list_of(result, rank, world.global_num_tokens);
  out["global_num_tokens_for_logprob"] = list_of(result, rank, world.global_num_tokens_for_logprob);
  out["is_extend_in_batch"] = nullable(result.is_extend_in_batch);
  out["can_run_dp_cuda_graph"] = nullable(result.can_run_dp_cuda_graph);
  if (rules.prefill_graph_vote != nullptr)
    out["can_run_dp_breakable_cuda_graph"] = nullable(result.can_run_dp_breakable_cuda_graph);
  return out;
}

}  // namespace

json answer_mlp_sync(Fields& in, const json&) {
  const auto rules = by_variant<MlpSyncRules>(in.get<std::string>("variant"), {{"jan2026", kMlpSyncPr14668},
                                                                               {"june2026", kMlpSyncPr27945},
                                                                               {"pr30450", kMlpSyncPr27945},
                                                                               {"main2026", kMlpSyncMain20260823}});
  in.ignore({"attn_tp_size"});  // rank 0 of each attention group speaks for it
  const MlpSyncInputs inputs{
      .require_mlp_tp_gather = in.get<bool>("require_mlp_tp_gather"),
      .skip_all_gather = in.get<bool>("SGLANG_SCHEDULER_SKIP_ALL_GATHER"),
      .disable_cuda_graph = in.get<bool>("disable_cuda_graph"),
      .prefill_backend_is_breakable = in.get_or_null<bool>("prefill_backend_breakable").value_or(false)};
  std::vector<std::optional<LocalBatch>> batches;
  for (const json& row : in.at("local_batches")) {
    batches.push_back(local_batch(row));
    if (const auto ok = check_local_batch(batches.back()); !ok)
      return {{"error", std::string(name(ok.error().kind)) + ": " + ok.error().message}};
  }
  if (batches.size() != in.get<std::size_t>("dp_size")) throw std::runtime_error("one local batch a DP rank");

  std::vector<MLPSyncBatchInfo> infos(batches.size());
  std::vector<std::int64_t> counts(batches.size());
  std::vector<std::int64_t> logprob_counts(batches.size());
  std::vector<MlpSyncResult> results(batches.size());
  const MlpSyncWorld world{infos, counts, logprob_counts, results};
  mlp_sync(rules, inputs, batches, world);
  json out = json::array();
  for (std::size_t rank = 0; rank < results.size(); ++rank) out.push_back(rank_out(rules, results[rank], rank, world));
  return {{"out", out}};
}

}  // namespace a2asim::golden
