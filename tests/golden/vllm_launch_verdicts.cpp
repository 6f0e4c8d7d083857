// vllm_launch_verdicts: whole commands, judged end to end. Compared are the verdict and every number that the row has;
// not the text of `why`, `at` and the witness, which is one of many. Where the row has no backend, its environment
// named none and the version's default is taken.
#include <fmt/format.h>

#include "model/check/check.h"
#include "model/engines/vllm/deployment.h"
#include "tests/golden/vllm.h"

namespace a2asim::golden {

json answer_vllm_launch_verdicts(Fields& in, const json&) {
  in.ignore({"args"});  // the command's flags once more
  DeployOptions options;
  options.version.version = &vllm_generation(in);
  for (const auto& [key, value] : in.at("env").items()) options.env.set(key, value.get<std::string>());
  options.model = ModelShape{in.get<std::int64_t>("num_experts"), in.get<std::int64_t>("top_k"),
                             in.get<std::int64_t>("hidden_size")};
  options.gpu_memory_gib = in.get<double>("gpu_memory_gib");
  options.gpu_name = in.get<std::string>("gpu");
  options.model_quantization = in.get_or_null<std::string>("dispatch_quant_dtype").value_or("bf16");
  const auto deployed = deploy_command(in.get<std::string>("command"), options);
  if (!deployed) return {{"error", as_python(deployed.error())}};
  if (!deployed->deployment) return {{"out", {{"verdict", "rejected"}}}};
  const Deployment& deployment = *deployed->deployment;
  const CheckReport report = judge_deployment(deployment);
  const vllm::VllmPart& part = vllm::vllm_part(deployment);
  json out = {{"verdict", name(report.verdict)},
              {"all2all_backend", report.backend},
              {"max_num_batched_tokens", part.limits.max_num_batched_tokens},
              {"max_num_seqs", part.limits.max_num_seqs},
              {"ep_size", report.topology.ep_size},
              {"max_num_tokens", part.buffer.tokens}};
  const bool one_sided = part.kernels == vllm::Kernels::flashinfer_one_sided;
  if (part.buffer.bytes) out[one_sided ? "workspace_bytes_per_rank" : "num_rdma_bytes"] = *part.buffer.bytes;
  return {{"out", out}};
}

std::optional<std::string> mismatch_vllm_launch_verdicts(const json& ours, const json& row) {
  if (ours.contains("error")) return "ours cannot use the command: " + ours.at("error").get<std::string>();
  const json& mine = ours.at("out");
  for (const auto& [key, value] : row.at("out").items()) {
    if (key == "why" || key == "at" || key == "witness" || (key == "all2all_backend" && value.is_null())) continue;
    if (!mine.contains(key) || mine.at(key) != value)
      return fmt::format("{} {} where the row has {}: {}", key, mine.contains(key) ? mine.at(key).dump() : "missing",
                         value.dump(), row.at("out").value("why", json()).dump());
  }
  return std::nullopt;
}

}  // namespace a2asim::golden
