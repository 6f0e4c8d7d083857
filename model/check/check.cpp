#include "model/check/check.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "model/base/words.h"
#include "model/engines/sglang/cap_variable.h"
#include "model/engines/sglang/deployment.h"
#include "model/check/capacity_mend.h"
#include "model/check/check_explain.h"
#include "model/check/check_search.h"
#include "model/check/finding_info.h"
#include "model/engines/sglang/static_caps.h"

namespace a2asim {
namespace {

CheckFinding make_note(FindingKind kind, Phase phase, std::string message, std::string fix = {}) {
  CheckFinding finding;
  finding.kind = kind;
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
    const auto shown = [](const std::optional<TroubledBatch>& batch) { return batch && batch->limits_are_explicit; };
    const bool capture_alone = !shown(outcome.over_cap) && !shown(outcome.silent_overflow);
    if (search.capture && search.capture->phase == phase && capture_alone) {
      report.findings.push_back(explain_capture(deployment, *search.capture));  // stands for what requests leave open
      continue;
    }
    if (outcome.over_cap)
      report.findings.push_back(
          explain_over_capacity(deployment, *outcome.over_cap, outcome.largest_tokens_per_rank));
    if (outcome.silent_overflow)
      report.findings.push_back(
          explain_silent_overflow(deployment, *outcome.silent_overflow, outcome.largest_tokens_per_rank));
  }
  if (search.draft.over_cap || search.draft.silent_overflow)
    report.findings.push_back(explain_draft(deployment, search.draft));
}

void add_prefill_graphs(const Deployment& deployment, CheckReport& report) {
  const Limit& tokens = deployment.prefill_graph_tokens;
  if (tokens.value <= deployment.max_num_tokens) return;
  CheckFinding finding = make_note(
      FindingKind::over_capacity, Phase::prefill,
      fmt::format("the largest prefill graph, {} tokens a rank, is above the cap max_num_tokens = {}{}", tokens.value,
                  deployment.max_num_tokens, tokens.is_explicit ? "" : " (whether it is captured is left open)"),
      fmt::format("set {} to {} or more, or lower --cuda-graph-max-bs-prefill to {}, or --disable-prefill-cuda-graph",
                  kCapVariable, tokens.value, std::max<std::int64_t>(deployment.max_num_tokens, 1)));
  finding.severity = tokens.is_explicit ? Severity::error : Severity::note;
  finding.needed_tokens_per_rank = tokens.value;
  finding.consequence = finding_info(finding.kind).on_hardware(Situation::capture);
  report.findings.push_back(std::move(finding));
}

void add_autotune(const Deployment& deployment, CheckReport& report) {
  const std::int64_t pool = deployment.requests_per_dp_rank.value;
  const auto runners = split_words(sglang_part(deployment).generation().autotuned_runners);
  const bool autotunes = std::ranges::find(runners, sglang_part(deployment).args.moe_runner_backend) != runners.end();
  if (!autotunes || sglang_part(deployment).args.disable_flashinfer_autotune || pool <= deployment.max_num_tokens) return;
  const std::int64_t replicas = deployment.topology.attn_dp_size;
  CheckFinding finding = make_note(
      FindingKind::autotune, Phase::start,
      fmt::format("the autotune dummy run is as large as the request pool, {}{} a rank, above the cap max_num_tokens = "
                  "{}: it can fail at the start",
                  deployment.requests_per_dp_rank.is_explicit ? "" : "at least ", pool, deployment.max_num_tokens),
      fmt::format("set {} to {} or more, or lower --max-running-requests to {}, or give --disable-flashinfer-autotune",
                  kCapVariable, pool, std::max<std::int64_t>(deployment.max_num_tokens, 1) * replicas));
  if (deployment.requests_per_dp_rank.is_explicit) finding.severity = Severity::warning;
  finding.consequence = finding_info(finding.kind).on_hardware(Situation::always);
  report.findings.push_back(std::move(finding));
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

void add_open_graphs(const Deployment& deployment, std::string_view threshold, CheckReport& report) {
  if (deployment.graph_max_bs.is_explicit || deployment.capture_bs.empty()) return;
  report.findings.push_back(make_note(
      FindingKind::graph_sizes_open, Phase::graph_decode,
      fmt::format("--cuda-graph-max-bs is not given (GPU memory decides): buckets up to {} are assumed{}",
                  deployment.capture_bs.back(), threshold)));
}

void add_open_limits(const Deployment& deployment, CheckReport& report) {
  const std::int64_t replicas = deployment.topology.attn_dp_size;
  const std::int64_t cap_tokens = deployment.max_num_tokens * deployment.topology.attn_tp_size;
  if (!deployment.requests_per_dp_rank.is_explicit && deployment.decode_reachable) {
    const std::int64_t safe = cap_tokens / deployment.num_tokens_per_bs;
    report.findings.push_back(make_note(
        FindingKind::request_limit_open, deployment.speculates ? Phase::verify : Phase::eager_decode,
        fmt::format("--max-running-requests is not given: safe up to {} running requests a rank ({} in all), by the cap {}",
                    safe, safe * replicas, deployment.max_num_tokens)));
  }
  const bool leaves_prefill = sglang_part(deployment).generation().extend_leaves_alltoall && !deployment.rule;
  if (!deployment.prefill_tokens.is_explicit && deployment.prefill_reachable && !leaves_prefill)
    report.findings.push_back(make_note(
        FindingKind::chunk_open, Phase::prefill,
        fmt::format("--chunked-prefill-size is not given (GPU memory decides; {} a rank assumed): safe up to {} in all",
                    deployment.prefill_tokens.value, cap_tokens * replicas)));
  add_open_graphs(deployment, "", report);
  if (!deployment.model)
    report.findings.push_back(make_note(
        FindingKind::model_unknown, Phase::start,
        "the model's shape is not known: workspace bytes and FlashInfer's limits on top_k and experts are not checked",
        "give --model NAME, --model-config FILE, or --num-experts, --top-k and --hidden-size"));
}

void check_flashinfer(const Deployment& deployment, CheckReport& report) {
  const bool can_run = deployment.rejections.empty();
  const SearchResult search = can_run ? search_batches(deployment) : SearchResult{};
  add_rejections(deployment, search, report);
  if (!has(report, FindingKind::rejected)) {
    add_geometry_findings(deployment, search, report);
    add_prefill_graphs(deployment, report);
    if (!has(report, FindingKind::over_capacity)) add_autotune(deployment, report);
    add_waste(deployment, search, report);
    add_open_limits(deployment, report);
  }
  report.capacity_source = deployment.max_num_tokens_source;
  report.workspace_known = deployment.capacity.has_value() && deployment.max_num_tokens > 0;
  report.capacity = deployment.capacity.value_or(Capacity{.max_num_tokens = deployment.max_num_tokens});
}

StaticCapInputs static_cap_inputs(const Deployment& deployment, const StaticCapRow& row) {
  const ServerArgs& args = sglang_part(deployment).args;
  StaticCapInputs in;
  in.backend = row.backend;
  if (const auto mode = parse_deepep_mode(args.deepep_mode)) in.deepep_mode = *mode;
  in.env_cap = sglang_part(deployment).env.get(row.env);
  if (deployment.requests_per_dp_rank.is_explicit) in.requests_per_dp_rank = deployment.requests_per_dp_rank.value;
  if (deployment.prefill_tokens.is_explicit) in.chunk_per_dp_rank = args.chunked_prefill_size;
  in.max_prefill_tokens = args.max_prefill_tokens;
  const bool deepep_normal = row.backend == StaticCapBackend::deepep && in.deepep_mode == DeepEpMode::normal;
  if (decode_graphs_disabled(args) || deepep_normal) in.decode_graph_max_bs = 0;
  else if (deployment.graph_max_bs.is_explicit) in.decode_graph_max_bs = deployment.graph_max_bs.value;
  in.num_tokens_per_request = deployment.num_tokens_per_bs;
  if (deployment.draft_backend == row.name && deployment.draft_is_explicit)
    in.num_tokens_per_request = std::max(in.num_tokens_per_request, deployment.draft_tokens_per_request);
  in.attn_tp_size = deployment.topology.attn_tp_size;
  in.two_batch_overlap = args.enable_two_batch_overlap;
  in.decode_only = !deployment.prefill_reachable;
  in.prefill_only = !deployment.decode_reachable;
  if (deployment.model) in.num_experts = deployment.model->num_experts;
  in.num_redundant_experts = args.ep_num_redundant_experts;
  in.ep_size = deployment.topology.ep_size;
  return in;
}

bool is_bounded_anywhere(const StaticCapInputs& inputs) {
  return (!inputs.prefill_only && is_bounded(inputs, Phase::eager_decode)) ||
         (!inputs.decode_only && is_bounded(inputs, Phase::prefill));
}

std::string static_cap_source(const StaticCapInputs& inputs) {
  const StaticCapRow& row = row_of(inputs.backend);
  if (!is_bounded_anywhere(inputs))
    return fmt::format("{}: no static cap, the layout is exchanged at run time", row.name);
  return fmt::format("{}: static cap of {} tokens a rank", row.env, static_cap(inputs));
}

void add_static_findings(const StaticCapInputs& inputs, const std::vector<StaticCapItem>& items, CheckReport& report) {
  const bool refused = std::ranges::any_of(
      items, [](const StaticCapItem& item) { return item.outcome == StaticCapOutcome::refused; });
  for (const StaticCapItem& item : items) {
    if (item.outcome == StaticCapOutcome::fits) continue;
    if (refused && item.outcome != StaticCapOutcome::refused) continue;  // never gets that far
    CheckFinding finding = make_note(FindingKind::static_cap, item.phase, item.message, item.fix);
    if (item.outcome == StaticCapOutcome::exceeds) {
      finding.kind = FindingKind::over_capacity;
      finding.severity = Severity::error;
      finding.consequence = row_of(inputs.backend).above_cap;
      finding.needed_tokens_per_rank = item.tokens_per_rank.value_or(0);
      if (item.tokens_per_rank)
        finding.chain.push_back(fmt::format("{} tokens a rank against {} = {}", *item.tokens_per_rank,
                                            row_of(inputs.backend).env, item.cap));
    } else if (item.outcome == StaticCapOutcome::refused) {
      finding.kind = FindingKind::rejected;
      finding.severity = Severity::error;
      finding.consequence = finding_info(finding.kind).on_hardware(Situation::start);
    }
    report.findings.push_back(std::move(finding));
  }
}

void check_static(const Deployment& deployment, CheckReport& report) {
  const StaticCapInputs inputs = static_cap_inputs(deployment, *find_static_cap(deployment.backend));
  report.capacity_source = static_cap_source(inputs);
  for (const Rejection& rejection : deployment.rejections) report.findings.push_back(explain_rejection(rejection));
  if (has(report, FindingKind::rejected)) return;
  add_static_findings(inputs, check_static_cap(inputs), report);
  if (has(report, FindingKind::rejected) || inputs.prefill_only || !is_bounded(inputs, Phase::graph_decode)) return;
  add_open_graphs(deployment, fmt::format(", safe up to {} requests a replica", safe_requests(inputs)), report);
}

// A draft model with a static-cap backend of its own. Start-up checks look at the target's only.
void check_static_draft(const Deployment& deployment, const StaticCapRow& row, CheckReport& report) {
  const StaticCapInputs inputs = static_cap_inputs(deployment, row);
  std::vector<StaticCapItem> items = check_static_cap(inputs);
  std::erase_if(items, [](const StaticCapItem& item) { return item.outcome == StaticCapOutcome::refused; });
  for (StaticCapItem& item : items) {
    item.message = "the draft model: " + item.message;
    if (item.outcome == StaticCapOutcome::exceeds && sglang_part(deployment).args.speculative_draft_model_path)
      item.outcome = StaticCapOutcome::open;  // whether that model has experts is not known
  }
  add_static_findings(inputs, items, report);
  if (report.capacity_source.empty()) report.capacity_source = "the draft model: " + static_cap_source(inputs);
}

Verdict verdict_of(const CheckReport& report) {
  if (has(report, FindingKind::rejected)) return Verdict::rejected;
  if (has(report, FindingKind::geometry_disagreement)) return Verdict::disagrees;
  return has(report, FindingKind::over_capacity) ? Verdict::over_capacity : Verdict::agrees;
}

// The same mends for all phases: who follows any of these fixes has nothing above the cap left.
void offer_capacity_mends(const Deployment& deployment, CheckReport& report) {
  std::array<std::optional<std::string>, 2> fixes;  // by CapacityTrouble; tried only where there is a use for them
  for (CheckFinding& finding : report.findings) {
    if (finding.kind != FindingKind::over_capacity) continue;
    const auto trouble = finding.severity == Severity::error ? CapacityTrouble::errors : CapacityTrouble::any_notes;
    std::optional<std::string>& fix = fixes[static_cast<std::size_t>(trouble)];
    if (!fix) fix = text(capacity_mends(deployment, report, trouble));
    if (!fix->empty()) finding.fix = *fix;
  }
}

}  // namespace

bool has(const CheckReport& report, FindingKind kind, Severity least) {
  return std::ranges::any_of(
      report.findings, [&](const CheckFinding& finding) { return finding.kind == kind && finding.severity <= least; });
}

CheckReport judge_deployment(const Deployment& deployment) {
  CheckReport report;
  report.generation = deployment.generation;
  report.backend = deployment.backend;
  report.topology = deployment.topology;
  if (deployment.uses_flashinfer) {
    check_flashinfer(deployment, report);
  } else if (deployment.has_static_cap) {
    check_static(deployment, report);
  } else {
    for (const Rejection& rejection : deployment.rejections) report.findings.push_back(explain_rejection(rejection));
    report.findings.push_back(make_note(
        FindingKind::no_all_to_all, Phase::start,
        fmt::format("--moe-a2a-backend {}: no all-to-all geometry of this kind is in use", report.backend)));
  }
  const StaticCapRow* const draft = find_static_cap(deployment.draft_backend);
  const bool draft_has_static_cap = draft != nullptr && deployment.draft_backend != deployment.backend;
  if (draft_has_static_cap && !has(report, FindingKind::rejected)) check_static_draft(deployment, *draft, report);
  for (const Note& note : deployment.notes)
    report.findings.push_back(make_note(FindingKind::note, Phase::start, note.message));
  std::stable_sort(report.findings.begin(), report.findings.end(),
                   [](const CheckFinding& a, const CheckFinding& b) { return a.severity < b.severity; });
  report.verdict = verdict_of(report);
  if (report.verdict == Verdict::agrees && !deployment.uses_flashinfer && !deployment.has_static_cap &&
      !draft_has_static_cap)
    report.verdict = Verdict::out_of_scope;
  return report;
}

CheckReport check_deployment(const Deployment& deployment) {
  CheckReport report = judge_deployment(deployment);
  offer_capacity_mends(deployment, report);
  return report;
}

}  // namespace a2asim
