#include "tools/validate/validate.h"

#include <fmt/format.h>

#include "sim/cluster/replay.h"
#include "tools/validate/validate_mirror.h"

namespace a2asim {
namespace {

std::int64_t total(const ScenarioValidation& validation, CheckResult result) {
  std::int64_t sum = 0;
  for (const auto& of_kind : validation.counts) sum += of_kind[static_cast<std::size_t>(result)];
  return sum;
}

// Why nothing of it reached an all-to-all.
std::string explain(const ReplayReport& report) {
  if (!report.why.empty()) return fmt::format("{} before any all-to-all: {}", name(report.verdict), report.why);
  for (const ReplayedStep& step : report.steps) {
    for (const ReplayedRank& rank : step.ranks) {
      if (rank.decision.raised)
        return fmt::format("step {}: the engine's own rule refuses before any all-to-all: {}: {}", step.outcome.step,
                           name(rank.decision.raised->kind), rank.decision.raised->message);
    }
    if (!step.outcome.refused.empty())
      return fmt::format("step {}: FlashInfer refuses these sizes on every rank", step.outcome.step);
  }
  return "no step of it has an all-to-all";
}

}  // namespace

std::string_view name(CheckKind kind) {
  constexpr std::array<std::string_view, kCheckKinds> names = {"receive", "output",  "tokens",   "guard",
                                                               "refusal", "missing", "recovery", "verdict"};
  return names[static_cast<std::size_t>(kind)];
}

std::string_view name(CheckResult result) {
  constexpr std::array<std::string_view, kCheckResults> names = {"passed", "failed", "skipped"};
  return names[static_cast<std::size_t>(result)];
}

Result<ScenarioValidation> validate_scenario(const Scenario& scenario, std::string_view file,
                                             const ValidateOptions& options, const MakeDevice& make_device) {
  ScenarioValidation out;
  out.name = scenario.name;
  out.file = file;
  out.guard = options.guard;
  if (scenario.experts == ExpertsKind::ffn) {
    out.why = "experts: ffn; the device has the closed-form experts only";
    return out;
  }
  if (options.guard && !options.device.has(Capability::guard)) {
    out.why = fmt::format("needs '{}'", name(Capability::guard));
    return out;
  }
  const Result<ScenarioDeployment> deployed = deploy(scenario, file, options.version);
  if (!deployed) return tl::unexpected(deployed.error());
  if (deployed->deployment && !deployed->deployment->uses_flashinfer) {
    out.verdict = deployed->verdict;
    out.why = fmt::format("all-to-all {}: not the one of these kernels", deployed->deployment->backend);
    return out;
  }
  ValidationMirror mirror(options, make_device, out);
  ReplayOptions run;
  run.version = options.version;
  run.mirror = &mirror;
  const Result<ReplayReport> report = replay(scenario, file, run);
  if (!report) return tl::unexpected(report.error());
  out.verdict = report->verdict;
  if (total(out, CheckResult::failed) > 0)
    out.result = CheckResult::failed;
  else if (total(out, CheckResult::passed) > 0)
    out.result = CheckResult::passed;
  if (out.why.empty() && out.result == CheckResult::skipped) out.why = explain(*report);
  return out;
}

}  // namespace a2asim
