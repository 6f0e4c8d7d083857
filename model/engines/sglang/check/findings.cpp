// What SGLang's settings say by themselves: graphs and dummy runs above the cap, limits that the command leaves open,
// and backends whose geometry is a constant.
#include <fmt/format.h>

#include <algorithm>

#include "model/base/words.h"
#include "model/check/check_explain.h"
#include "model/check/finding_info.h"
#include "model/engines/sglang/cap_variable.h"
#include "model/engines/sglang/deployment.h"
#include "model/engines/sglang/static_caps.h"

namespace a2asim {
namespace {

void add_prefill_graphs(const Deployment& deployment, CheckReport& report) {
  const Limit& tokens = deployment.prefill_graph_tokens;
  if (tokens.value <= deployment.max_num_tokens) return;
  CheckFinding finding = make_note(
      FindingKind::over_capacity, Phase::prefill,
      fmt::format("the largest prefill graph, {} tokens per rank, is above the cap max_num_tokens = {}{}", tokens.value,
                  deployment.max_num_tokens, tokens.is_explicit ? "" : " (whether it is captured is left open)"),
      fmt::format("set {} to {} or more, or lower --cuda-graph-max-bs-prefill to {}, or --disable-prefill-cuda-graph",
                  kCapVariable, tokens.value, std::max<std::int64_t>(deployment.max_num_tokens, 1)));
  finding.severity = tokens.is_explicit ? Severity::error : Severity::note;
  finding.needed_tokens_per_rank = tokens.value;
  finding.consequence = finding_info(finding.kind).on_hardware(Situation::capture);
  report.findings.push_back(std::move(finding));
}

void add_autotune(const SglangPart& sglang, const Deployment& deployment, CheckReport& report) {
  const std::int64_t pool = deployment.requests_per_dp_rank.value;
  const auto runners = split_words(sglang.generation().autotuned_runners);
  const bool autotunes = std::ranges::find(runners, sglang.args.moe_runner_backend) != runners.end();
  if (!autotunes || sglang.args.disable_flashinfer_autotune || pool <= deployment.max_num_tokens) return;
  const std::int64_t replicas = deployment.topology.attn_dp_size;
  CheckFinding finding = make_note(
      FindingKind::autotune, Phase::start,
      fmt::format(
          "the autotune dummy run is as large as the request pool, {}{} per rank, above the cap max_num_tokens = "
          "{}: it can fail at the start",
          deployment.requests_per_dp_rank.is_explicit ? "" : "at least ", pool, deployment.max_num_tokens),
      fmt::format("set {} to {} or more, or lower --max-running-requests to {}, or give --disable-flashinfer-autotune",
                  kCapVariable, pool, std::max<std::int64_t>(deployment.max_num_tokens, 1) * replicas));
  if (deployment.requests_per_dp_rank.is_explicit) finding.severity = Severity::warning;
  finding.consequence = finding_info(finding.kind).on_hardware(Situation::always);
  report.findings.push_back(std::move(finding));
}

void add_open_graphs(const Deployment& deployment, std::string_view threshold, CheckReport& report) {
  if (deployment.graph_max_bs.is_explicit || deployment.capture_bs.empty()) return;
  report.findings.push_back(
      make_note(FindingKind::graph_sizes_open, Phase::graph_decode,
                fmt::format("--cuda-graph-max-bs is not given (GPU memory decides): buckets up to {} are assumed{}",
                            deployment.capture_bs.back(), threshold)));
}

StaticCapInputs static_cap_inputs(const SglangPart& sglang, const Deployment& deployment, const StaticCapRow& row) {
  const ServerArgs& args = sglang.args;
  StaticCapInputs in;
  in.backend = row.backend;
  if (const auto mode = parse_deepep_mode(args.deepep_mode)) in.deepep_mode = *mode;
  in.env_cap = sglang.env.get(row.env);
  in.default_cap = sglang.default_cap(row);
  if (deployment.requests_per_dp_rank.is_explicit) in.requests_per_dp_rank = deployment.requests_per_dp_rank.value;
  in.memory_bounds_requests = !args.max_total_tokens && deployment.requests_per_dp_rank.value > kLeastDefaultRequests;
  in.deepep = sglang.generation().deepep;
  if (deployment.prefill_tokens.is_explicit) in.chunk_per_dp_rank = args.chunked_prefill_size;
  in.max_prefill_tokens = args.max_prefill_tokens;
  const bool deepep_normal = row.backend == StaticCapBackend::deepep && in.deepep_mode == DeepEpMode::normal;
  if (decode_graphs_disabled(args) || deepep_normal)
    in.decode_graph_max_bs = 0;
  else if (deployment.graph_max_bs.is_explicit)
    in.decode_graph_max_bs = deployment.graph_max_bs.value;
  in.num_tokens_per_request = deployment.num_tokens_per_bs;
  if (deployment.draft_backend == row.name && deployment.draft_is_explicit)
    in.num_tokens_per_request = std::max(in.num_tokens_per_request, deployment.draft_tokens_per_request);
  in.attn_tp_size = deployment.topology.attn_tp_size;
  in.two_batch_overlap = args.enable_two_batch_overlap;
  in.decode_only = !deployment.prefill_reachable;
  in.prefill_only = !deployment.decode_reachable;
  if (deployment.model) {
    in.num_experts = deployment.model->num_experts;
    in.top_k = deployment.model->top_k;
    in.hidden_size = deployment.model->hidden_size;
  }
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
  return fmt::format("{}: static cap of {} tokens per rank", row.env, static_cap(inputs));
}

void add_static_findings(const StaticCapInputs& inputs, const std::vector<StaticCapItem>& items, CheckReport& report) {
  const bool refused =
      std::ranges::any_of(items, [](const StaticCapItem& item) { return item.outcome == StaticCapOutcome::refused; });
  for (const StaticCapItem& item : items) {
    if (item.outcome == StaticCapOutcome::fits) continue;
    if (refused && item.outcome != StaticCapOutcome::refused) continue;  // never gets that far
    CheckFinding finding = make_note(FindingKind::static_cap, item.phase, item.message, item.fix);
    if (item.outcome == StaticCapOutcome::exceeds) {
      const bool goes_on = row_of(inputs.backend).leaves_above_cap;
      finding.kind = goes_on ? FindingKind::static_cap : FindingKind::over_capacity;
      finding.severity = goes_on ? Severity::warning : Severity::error;
      finding.consequence = row_of(inputs.backend).above_cap;
      finding.needed_tokens_per_rank = item.tokens_per_rank.value_or(0);
      if (item.tokens_per_rank)
        finding.chain.push_back(fmt::format("{} tokens per rank against {} = {}", *item.tokens_per_rank,
                                            row_of(inputs.backend).env, item.cap));
    } else if (item.outcome == StaticCapOutcome::beyond_memory) {
      finding.severity = Severity::warning;
      finding.consequence = row_of(inputs.backend).above_cap;
    } else if (item.outcome == StaticCapOutcome::refused) {
      finding.kind = FindingKind::rejected;
      finding.severity = Severity::error;
      finding.consequence = finding_info(finding.kind).on_hardware(Situation::start);
    }
    report.findings.push_back(std::move(finding));
  }
}

}  // namespace

void SglangPart::add_start_findings(const Deployment& deployment, CheckReport& report) const {
  add_prefill_graphs(deployment, report);
  if (!has(report, FindingKind::over_capacity)) add_autotune(*this, deployment, report);
}

void SglangPart::add_open_limits(const Deployment& deployment, CheckReport& report) const {
  const std::int64_t replicas = deployment.topology.attn_dp_size;
  const std::int64_t cap_tokens = deployment.max_num_tokens * deployment.topology.attn_tp_size;
  if (!deployment.requests_per_dp_rank.is_explicit && deployment.decode_reachable) {
    const std::int64_t safe = cap_tokens / deployment.num_tokens_per_bs;
    report.findings.push_back(make_note(
        FindingKind::request_limit_open, deployment.speculates ? Phase::verify : Phase::eager_decode,
        fmt::format("--max-running-requests is not given: safe up to {} running requests per rank ({} in all), by the "
                    "cap {}",
                    safe, safe * replicas, deployment.max_num_tokens)));
  }
  const bool leaves_prefill = generation().extend_leaves_alltoall && !deployment.rule;
  if (!deployment.prefill_tokens.is_explicit && deployment.prefill_reachable && !leaves_prefill)
    report.findings.push_back(make_note(
        FindingKind::chunk_open, Phase::prefill,
        fmt::format(
            "--chunked-prefill-size is not given (GPU memory decides; {} per rank assumed): safe up to {} in all",
            deployment.prefill_tokens.value, cap_tokens * replicas)));
  add_open_graphs(deployment, "", report);
}

bool SglangPart::check_constant_geometry(const Deployment& deployment, CheckReport& report) const {
  if (!deployment.has_static_cap) return false;
  const StaticCapInputs inputs = static_cap_inputs(*this, deployment, *find_static_cap(deployment.backend));
  report.capacity_source = static_cap_source(inputs);
  if (is_bounded_anywhere(inputs)) report.static_cap = static_cap(inputs);
  for (const Rejection& rejection : deployment.rejections) report.findings.push_back(explain_rejection(rejection));
  if (has(report, FindingKind::rejected)) return true;
  add_static_findings(inputs, check_static_cap(inputs), report);
  if (has(report, FindingKind::rejected)) return true;
  if (inputs.prefill_only || !is_bounded(inputs, Phase::graph_decode)) return true;
  add_open_graphs(deployment, fmt::format(", safe up to {} requests per replica", safe_requests(inputs)), report);
  return true;
}

// A draft model with a static-cap backend of its own. Start-up checks look at the target's only.
bool SglangPart::check_draft_geometry(const Deployment& deployment, CheckReport& report) const {
  const StaticCapRow* const row = find_static_cap(deployment.draft_backend);
  if (row == nullptr || deployment.draft_backend == deployment.backend) return false;
  if (has(report, FindingKind::rejected)) return true;
  const StaticCapInputs inputs = static_cap_inputs(*this, deployment, *row);
  std::vector<StaticCapItem> items = check_static_cap(inputs);
  std::erase_if(items, [](const StaticCapItem& item) { return item.outcome == StaticCapOutcome::refused; });
  for (StaticCapItem& item : items) {
    item.message = "the draft model: " + item.message;
    if (item.outcome == StaticCapOutcome::exceeds && args.speculative_draft_model_path)
      item.outcome = StaticCapOutcome::open;  // whether that model has experts is not known
  }
  add_static_findings(inputs, items, report);
  if (report.capacity_source.empty()) report.capacity_source = "the draft model: " + static_cap_source(inputs);
  return true;
}

}  // namespace a2asim
