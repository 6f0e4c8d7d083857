#include "model/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "model/capacity_mend.h"
#include "model/check_explain.h"
#include "model/check_search.h"
#include "model/static_caps.h"

namespace a2asim {
namespace {

CheckFinding make_note(std::string id, Phase phase, std::string message, std::string fix = {}) {
  CheckFinding finding;
  finding.id = std::move(id);
  finding.severity = Severity::note;
  finding.phase = phase;
  finding.message = std::move(message);
  finding.fix = std::move(fix);
  return finding;
}

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
    if (outcome.over_cap)
      report.findings.push_back(
          explain_over_capacity(deployment, *outcome.over_cap, outcome.largest_tokens_per_rank));
    if (outcome.silent_overflow)
      report.findings.push_back(
          explain_silent_overflow(deployment, *outcome.silent_overflow, outcome.largest_tokens_per_rank));
  }
}

void add_waste(const Deployment& deployment, const SearchResult& search, CheckReport& report) {
  for (const Phase phase : kForwardPhases) {
    const PhaseOutcome& outcome = search.at(phase);
    if (outcome.least_rows > 0 && outcome.least_wasted_r >= 4 * outcome.least_rows) {
      report.findings.push_back(explain_waste(deployment, phase, outcome.least_wasted_r, outcome.least_rows));
      return;  // one example says it
    }
  }
}

void add_open_limits(const Deployment& deployment, CheckReport& report) {
  const std::int64_t replicas = deployment.topology.attn_dp_size;
  const std::int64_t cap_tokens = deployment.max_num_tokens * deployment.topology.attn_tp_size;
  if (!deployment.requests_per_dp_rank.is_explicit && deployment.decode_reachable) {
    const std::int64_t safe = cap_tokens / deployment.num_tokens_per_bs;
    report.findings.push_back(make_note(
        "request_limit_open", deployment.speculates ? Phase::verify : Phase::eager_decode,
        fmt::format("--max-running-requests is not given: safe up to {} running requests a rank ({} in all), by the cap {}",
                    safe, safe * replicas, deployment.max_num_tokens)));
  }
  const bool leaves_prefill = deployment.generation->sizing == sizing_pr35758 && !deployment.rule;
  if (!deployment.prefill_tokens.is_explicit && deployment.prefill_reachable && !leaves_prefill)
    report.findings.push_back(make_note(
        "chunk_open", Phase::prefill,
        fmt::format("--chunked-prefill-size is not given (GPU memory decides; {} a rank assumed): safe up to {} in all",
                    deployment.prefill_tokens.value, cap_tokens * replicas)));
  if (!deployment.graph_max_bs.is_explicit && !deployment.capture_bs.empty())
    report.findings.push_back(make_note(
        "graph_sizes_open", Phase::graph_decode,
        fmt::format("--cuda-graph-max-bs is not given (GPU memory decides): buckets up to {} are assumed",
                    deployment.capture_bs.back())));
  if (!deployment.model)
    report.findings.push_back(make_note(
        "model_unknown", Phase::start,
        "the model's shape is not known: workspace bytes and FlashInfer's limits on top_k and experts are not checked",
        "give --model NAME, --model-config FILE, or --num-experts, --top-k and --hidden-size"));
}

void check_flashinfer(const Deployment& deployment, CheckReport& report) {
  const bool can_run = deployment.rejections.empty();
  const SearchResult search = can_run ? search_batches(deployment) : SearchResult{};
  add_rejections(deployment, search, report);
  if (report.findings.empty()) add_geometry_findings(deployment, search, report);
  if (can_run) add_waste(deployment, search, report);
  add_open_limits(deployment, report);
  report.capacity_source = deployment.max_num_tokens_source;
  report.workspace_known = deployment.capacity.has_value();
  report.capacity = deployment.capacity.value_or(Capacity{.max_num_tokens = deployment.max_num_tokens});
}

StaticCapInputs static_cap_inputs(const Deployment& deployment) {
  const ServerArgs& args = deployment.args;
  StaticCapInputs in;
  const StaticCapRow& row = *find_static_cap(args.moe_a2a_backend);
  in.backend = row.backend;
  if (const auto mode = parse_deepep_mode(args.deepep_mode)) in.deepep_mode = *mode;
  in.env_cap = deployment.env.get(row.env);
  if (deployment.requests_per_dp_rank.is_explicit) in.requests_per_dp_rank = deployment.requests_per_dp_rank.value;
  if (deployment.prefill_tokens.is_explicit) in.chunk_per_dp_rank = args.chunked_prefill_size;
  in.max_prefill_tokens = args.max_prefill_tokens;
  const bool deepep_normal = row.backend == StaticCapBackend::deepep && in.deepep_mode == DeepEpMode::normal;
  if (decode_graphs_disabled(args) || deepep_normal) in.decode_graph_max_bs = 0;
  else if (deployment.graph_max_bs.is_explicit) in.decode_graph_max_bs = deployment.graph_max_bs.value;
  in.num_tokens_per_request = deployment.num_tokens_per_bs;
  in.attn_tp_size = deployment.topology.attn_tp_size;
  in.two_batch_overlap = args.enable_two_batch_overlap;
  in.decode_only = !deployment.prefill_reachable;
  in.prefill_only = !deployment.decode_reachable;
  if (deployment.model) in.num_experts = deployment.model->num_experts;
  in.num_redundant_experts = args.ep_num_redundant_experts;
  in.ep_size = deployment.topology.ep_size;
  return in;
}

void check_static(const Deployment& deployment, CheckReport& report) {
  for (const Rejection& rejection : deployment.rejections) report.findings.push_back(explain_rejection(rejection));
  const StaticCapInputs inputs = static_cap_inputs(deployment);
  report.capacity_source = fmt::format("{}: static cap of {} tokens a rank", row_of(inputs.backend).env, static_cap(inputs));
  for (const StaticCapItem& item : check_static_cap(inputs)) {
    if (item.outcome == StaticCapOutcome::fits) continue;
    CheckFinding finding = make_note("static_cap", item.phase, item.message, item.fix);
    if (item.outcome == StaticCapOutcome::exceeds) {
      finding.id = name(FindingKind::over_capacity);
      finding.severity = Severity::error;
      finding.consequence = row_of(inputs.backend).above_cap;
      finding.needed_tokens_per_rank = item.tokens_per_rank.value_or(0);
      if (item.tokens_per_rank)
        finding.chain.push_back(fmt::format("{} tokens a rank against {} = {}", *item.tokens_per_rank,
                                            row_of(inputs.backend).env, item.cap));
    } else if (item.outcome == StaticCapOutcome::refused) {
      finding.id = "rejected";
      finding.severity = Severity::error;
      finding.consequence = "the server stops while it starts";
    }
    report.findings.push_back(std::move(finding));
  }
}

Verdict verdict_of(const CheckReport& report) {
  const auto has = [&](std::string_view id) {
    return std::any_of(report.findings.begin(), report.findings.end(), [&](const CheckFinding& finding) {
      return finding.severity == Severity::error && finding.id == id;
    });
  };
  if (has("rejected")) return Verdict::rejected;
  if (has(name(FindingKind::geometry_disagreement))) return Verdict::disagrees;
  return has(name(FindingKind::over_capacity)) ? Verdict::over_capacity : Verdict::agrees;
}

// The same mends for all phases: who follows any of these fixes has nothing above the cap left.
void offer_capacity_mends(const Deployment& deployment, CheckReport& report) {
  std::array<std::optional<std::string>, 2> fixes;  // by CapacityTrouble; tried only where there is a use for them
  for (CheckFinding& finding : report.findings) {
    if (finding.id != name(FindingKind::over_capacity)) continue;
    const auto trouble = finding.severity == Severity::error ? CapacityTrouble::errors : CapacityTrouble::any_notes;
    std::optional<std::string>& fix = fixes[static_cast<std::size_t>(trouble)];
    if (!fix) fix = text(capacity_mends(deployment, report, trouble));
    if (!fix->empty()) finding.fix = *fix;
  }
}

}  // namespace

CheckReport judge_deployment(const Deployment& deployment) {
  CheckReport report;
  report.generation = deployment.generation;
  report.backend = deployment.args.moe_a2a_backend;
  report.topology = deployment.topology;
  if (deployment.uses_flashinfer) {
    check_flashinfer(deployment, report);
  } else if (deployment.has_static_cap) {
    check_static(deployment, report);
  } else {
    for (const Rejection& rejection : deployment.rejections) report.findings.push_back(explain_rejection(rejection));
    report.findings.push_back(make_note(
        "no_all_to_all", Phase::start,
        fmt::format("--moe-a2a-backend {}: no all-to-all geometry of this kind is in use", report.backend)));
  }
  for (const Note& note : deployment.notes) report.findings.push_back(make_note("note", Phase::start, note.message));
  std::stable_sort(report.findings.begin(), report.findings.end(),
                   [](const CheckFinding& a, const CheckFinding& b) { return a.severity < b.severity; });
  report.verdict = verdict_of(report);
  if (report.verdict == Verdict::agrees && !deployment.uses_flashinfer && !deployment.has_static_cap)
    report.verdict = Verdict::out_of_scope;
  return report;
}

CheckReport check_deployment(const Deployment& deployment) {
  CheckReport report = judge_deployment(deployment);
  offer_capacity_mends(deployment, report);
  return report;
}

}  // namespace a2asim
