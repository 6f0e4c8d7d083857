// Uses functions of both libraries, not only of their headers: a batch is decided and judged.
#include <cstdio>

#include "gpu/backend_plugin.h"
#include "model/alltoall/workspace.h"
#include "sim/alltoall/sim_alltoall.h"
#include "sim/cluster/replay.h"
#include "sim/conformance/suite.h"
#include "sim/scenario/scenario_reader.h"

// The suite over a dispatcher of one's own; here the simulator stands for it.
bool conforms() {
  const a2asim::conformance::Subject subject{
      "consumer", [](const auto& configs, bool) -> a2asim::Result<std::unique_ptr<a2asim::Dispatcher>> {
        auto made = a2asim::SimAllToAll::create(configs, {});
        if (!made) return tl::unexpected(made.error());
        return std::unique_ptr<a2asim::Dispatcher>(std::move(*made));
      }};
  const auto result = a2asim::conformance::run(subject, a2asim::conformance::law_cases()[0]);
  return result.outcome == a2asim::conformance::CaseOutcome::passed && A2ASIM_BACKEND_VERSION == 1;
}

int main() {
  if (!conforms()) return std::puts("the suite fails"), 1;
  const auto scenario = a2asim::parse_scenario(
      "name: consumer\n"
      "sglang: pr25907\n"
      "parallel: {tp_size: 2, dp_size: 2, ep_size: 2, enable_dp_attention: true, enable_dp_lm_head: true,\n"
      "  moe_dense_tp_size: 1, moe_a2a_backend: flashinfer, moe_runner_backend: flashinfer_cutlass,\n"
      "  disable_cuda_graph: true}\n"
      "model: {num_experts: 4, top_k: 1, hidden_size: 16}\n"
      "steps: [{mode: decode, tokens: [2, 1]}]\n",
      "consumer.yaml");
  if (!scenario) return std::puts(scenario.error().message.c_str()), 1;
  a2asim::ReplayOptions options;
  options.fidelity = a2asim::Fidelity::geometry;
  const auto report = a2asim::replay(*scenario, "consumer.yaml", options);
  if (!report) return std::puts(report.error().message.c_str()), 1;
  const auto verdict = a2asim::name(report->verdict);
  std::printf("%.*s\n", static_cast<int>(verdict.size()), verdict.data());
  return report->verdict == a2asim::Verdict::disagrees && a2asim::pad128(129) == 256 ? 0 : 1;
}
