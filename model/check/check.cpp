#include "model/check/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "model/check/capacity_fix.h"
#include "model/check/check_explain.h"
#include "model/check/check_search.h"
#include "model/check/checked_engine.h"
#include "model/check/finding_info.h"
#include "model/check/unsanitized_padding.h"
#include "model/step/judgement.h"

namespace a2asim {
namespace {

// A forward that FlashInfer refuses whatever the batch (top_k, experts). The cap assertion of FlashInfer's Python side
// comes before it, so a phase in which some batch meets that one first does not fail "in every forward".
bool every_forward_fails(const Deployment& deployment, const SearchResult& search) {
  const auto dead = [](const SearchResult::Kind& kind) { return kind.tried > 0 && kind.over_cap == 0; };
  return deployment.launch_error && (dead(search.decode) || dead(search.prefill));
}

void add_rejections(const Deployment& deployment, const SearchResult& search, CheckReport& report) {
  for (const Rejection& rejection : deployment.rejections) report.findings.push_back(explain_rejection(rejection));
  for (const SearchResult::Kind* kind : {&search.decode, &search.prefill})
    if (kind->first_raises) report.findings.push_back(explain_every_forward(deployment, *kind->raises));
  if (deployment.rejections.empty() && every_forward_fails(deployment, search))
    report.findings.push_back(explain_rejection(*deployment.launch_error));
}

// Phases in the order in which they are reported.
constexpr Phase kForwardPhases[] = {Phase::graph_decode, Phase::eager_decode, Phase::verify, Phase::prefill};

void add_geometry_findings(const Deployment& deployment, const SearchResult& search, CheckReport& report) {
  for (const Phase phase : kForwardPhases)
    if (const auto& batch = search.at(phase).disagrees)
      report.findings.push_back(explain_disagreement(deployment, *batch));
  for (const Phase phase : kForwardPhases) {
    const PhaseOutcome& outcome = search.at(phase);
    const auto shown = [](const std::optional<TroubledBatch>& batch) { return batch && batch->limits_are_explicit; };
    const bool capture_alone = !shown(outcome.over_cap) && !shown(outcome.silent_overflow);
    if (search.capture && search.capture->phase == phase && capture_alone) {
      report.findings.push_back(explain_capture(deployment, *search.capture));  // stands for what requests leave open
      continue;
    }
    if (outcome.over_cap)
      report.findings.push_back(explain_over_capacity(deployment, *outcome.over_cap, outcome.largest_tokens_per_rank));
    if (outcome.silent_overflow)
      report.findings.push_back(
          explain_silent_overflow(deployment, *outcome.silent_overflow, outcome.largest_tokens_per_rank));
  }
  if (search.draft.over_cap || search.draft.silent_overflow)
    report.findings.push_back(explain_draft(deployment, search.draft));
}

void add_waste(const Deployment& deployment, const SearchResult& search, CheckReport& report) {
  for (const Phase phase : kForwardPhases) {
    const PhaseOutcome& outcome = search.at(phase);
    if (is_wasteful(outcome.least_wasted_r, outcome.least_rows)) {
      report.findings.push_back(explain_waste(deployment, phase, outcome.least_wasted_r, outcome.least_rows));
      return;  // one example says it
    }
  }
}

void check_flashinfer(const Deployment& deployment, CheckReport& report) {
  const bool can_run = deployment.rejections.empty();
  const SearchResult search = can_run ? search_batches(deployment) : SearchResult{};
  add_rejections(deployment, search, report);
  if (!has(report, FindingKind::rejected)) {
    add_geometry_findings(deployment, search, report);
    if (search.idle) report.findings.push_back(explain_idle_step(deployment, *search.idle));
    if (search.unused_rows) report.findings.push_back(explain_unsanitized_padding(deployment, *search.unused_rows));
    checked_engine(deployment).add_start_findings(deployment, report);
    add_waste(deployment, search, report);
    checked_engine(deployment).add_open_limits(deployment, report);
    if (!deployment.model)
      report.findings.push_back(
          make_note(FindingKind::model_unknown, Phase::start,
                    "the model's shape is not known: workspace bytes and the kernels' limits on top_k and experts are "
                    "not checked",
                    "give --model NAME, --model-config FILE, or --num-experts, --top-k and --hidden-size"));
  }
  report.capacity_source = deployment.max_num_tokens_source;
  report.workspace_known = deployment.capacity.has_value() && deployment.max_num_tokens > 0;
  report.capacity = deployment.capacity.value_or(Capacity{.max_num_tokens = deployment.max_num_tokens});
}

Verdict verdict_of(const CheckReport& report) {
  if (has(report, FindingKind::rejected)) return Verdict::rejected;
  if (has(report, FindingKind::geometry_disagreement) || has(report, FindingKind::nodes_differ))
    return Verdict::disagrees;
  return has(report, FindingKind::over_capacity) ? Verdict::over_capacity : Verdict::agrees;
}

// The same fixes for all phases: who follows any of these fixes has nothing above the cap left.
void offer_capacity_fixes(const Deployment& deployment, CheckReport& report) {
  std::array<std::optional<Advice>, 2> fixes;  // by CapacityTrouble; tried only where there is a use for them
  for (CheckFinding& finding : report.findings) {
    if (finding.kind != FindingKind::over_capacity) continue;
    const auto trouble = finding.severity == Severity::error ? CapacityTrouble::errors : CapacityTrouble::any_notes;
    std::optional<Advice>& fix = fixes[static_cast<std::size_t>(trouble)];
    if (!fix) fix = advice(capacity_fixes(deployment, report, trouble));
    if (!fix->words.empty()) finding.advise(*fix);
  }
}

void add_no_all_to_all(const Deployment& deployment, CheckReport& report) {
  const std::string own = checked_engine(deployment).without_all_to_all();
  report.findings.push_back(
      make_note(FindingKind::no_all_to_all, Phase::start,
                fmt::format("{}: no all-to-all with fixed buffers is in use",
                            own.empty() ? fmt::format("--moe-a2a-backend {}", report.backend) : own)));
}

}  // namespace

bool has(const CheckReport& report, FindingKind kind, Severity least) {
  return std::ranges::any_of(
      report.findings, [&](const CheckFinding& finding) { return finding.kind == kind && finding.severity <= least; });
}

bool CheckReport::has_error() const {
  return std::ranges::any_of(findings, [](const CheckFinding& found) { return found.severity == Severity::error; });
}

void check_agreement(const Deployment& deployment, CheckReport& report) {
  const SearchResult search = search_batches(deployment);
  for (const Phase phase : kForwardPhases)
    if (const auto& batch = search.at(phase).disagrees)
      report.findings.push_back(explain_disagreement(deployment, *batch));
}

void settle_verdict(CheckReport& report) {
  std::ranges::stable_sort(report.findings, {}, &CheckFinding::severity);
  const Verdict found = verdict_of(report);
  if (found != Verdict::agrees || report.verdict != Verdict::out_of_scope) report.verdict = found;
}

CheckReport judge_deployment(const Deployment& deployment) {
  CheckReport report;
  report.generation = deployment.generation;
  report.backend = deployment.backend;
  report.topology = deployment.topology;
  const CheckedEngine& engine = checked_engine(deployment);
  bool in_scope = deployment.uses_flashinfer || engine.has_sizes();
  if (deployment.uses_flashinfer || engine.decides_each_step()) {
    check_flashinfer(deployment, report);
    if (!in_scope && !has(report, FindingKind::geometry_disagreement)) add_no_all_to_all(deployment, report);
  } else if (engine.check_constant_geometry(deployment, report)) {
    in_scope = true;
  } else {
    for (const Rejection& rejection : deployment.rejections) report.findings.push_back(explain_rejection(rejection));
    if (deployment.rejections.empty()) add_no_all_to_all(deployment, report);
  }
  in_scope |= engine.check_draft_geometry(deployment, report);
  for (const Note& note : deployment.notes) {
    report.findings.push_back(
        make_note(parse_finding_kind(note.id).value_or(FindingKind::note), Phase::start, note.message));
    if (note.is_warning && !note.id.empty()) report.findings.back().severity = Severity::warning;
  }
  if (!in_scope) report.verdict = Verdict::out_of_scope;
  settle_verdict(report);
  return report;
}

CheckReport check_deployment(const Deployment& deployment) {
  CheckReport report = judge_deployment(deployment);
  offer_capacity_fixes(deployment, report);
  return report;
}

}  // namespace a2asim
