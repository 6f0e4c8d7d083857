// What vLLM's settings say by themselves: which buffers there are and whether they fit, rounds, and windows in which
// some ranks assert.
#include <fmt/format.h>

#include <algorithm>

#include "model/check/check_explain.h"
#include "model/check/finding_info.h"
#include "model/engines/vllm/deployment.h"
#include "model/engines/vllm/rules/deepep.h"
#include "model/engines/vllm/rules/rounds.h"

namespace a2asim::vllm {
namespace {

// An assertion on some ranks is vLLM's own refusal: they die, and the others wait in the next collective.
void call_assertions_refusals(CheckReport& report) {
  for (CheckFinding& finding : report.findings) {
    if (finding.kind != FindingKind::geometry_disagreement || !finding.witness) continue;
    const auto& r = finding.witness->runtime_max_tokens_per_rank;
    if (std::ranges::all_of(r, [](const auto& value) { return value.has_value(); })) continue;
    finding.kind = FindingKind::rejected;
    finding.message = "some ranks assert while others go on: " + finding.message;
  }
}

// With the rounds switched off a step may be larger than the buffer that was made for one round.
void check_rounds(const VllmPart& part, CheckReport& report) {
  const Buffer& buffer = part.buffer;
  const std::int64_t rows = ceil_div(part.limits.max_num_batched_tokens, part.sp);
  if (!part.generation().capacity.chunks || buffer.tokens == 0 || rows <= buffer.tokens) return;
  if (buffer.is_chunked) {
    report.findings.push_back(make_note(
        FindingKind::static_cap, Phase::prefill,
        fmt::format("{} tokens take {} rounds of {} ({}), as many on every rank; a rank that is through sends its last "
                    "row again",
                    rows, num_rounds(rows, 1, buffer.tokens), buffer.tokens, buffer.source)));
    return;
  }
  CheckFinding finding = make_note(
      FindingKind::over_capacity, Phase::prefill,
      fmt::format("a step of {} tokens per rank goes through in one round (VLLM_ENABLE_MOE_DP_CHUNK=0), above the "
                  "buffer of {} ({})",
                  rows, buffer.tokens, buffer.source),
      fmt::format("unset VLLM_ENABLE_MOE_DP_CHUNK (now 0), set {} to {} or more, or lower --max-num-batched-tokens to "
                  "{} (now {})",
                  buffer.source, rows, buffer.tokens * part.sp, part.limits.max_num_batched_tokens));
  finding.severity = part.limits_are_known ? Severity::error : Severity::note;
  finding.needed_tokens_per_rank = rows;
  finding.consequence = "the kernel library asserts on its host side and the rank dies; its peers wait";
  report.findings.push_back(std::move(finding));
}

// The most tokens whose buffer DeepEP accepts.
std::int64_t most_low_latency_tokens(std::int64_t hidden_size, std::int64_t num_experts, std::int64_t above) {
  std::int64_t good = 0, bad = above;
  while (bad - good > 1) {
    const std::int64_t tokens = good + (bad - good) / 2;
    const auto bytes = deepep_rdma_bytes(tokens, hidden_size, num_experts);
    (bytes && deepep_accepts(*bytes) ? good : bad) = tokens;
  }
  return good;
}

void check_bytes(const VllmPart& part, const Deployment& deployment, CheckReport& report) {
  const Buffer& buffer = part.buffer;
  if (part.kernels != Kernels::deepep_low_latency || buffer.fits || !deployment.model) return;
  const bool known = part.generation().capacity.chunks || part.limits_are_known ||
                     part.given.args.batch.max_num_batched_tokens.has_value();
  CheckFinding finding = make_note(
      FindingKind::over_capacity, Phase::start,
      fmt::format("DeepEP's low-latency buffer of {} tokens and {} experts takes {} bytes; it refuses 32 GiB and more",
                  buffer.tokens, deployment.num_experts, buffer.bytes.value_or(0)),
      fmt::format("lower {} to {} or less (now {})",
                  part.generation().capacity.chunks ? buffer.source : "--max-num-batched-tokens",
                  most_low_latency_tokens(deepep_hidden_size(deployment.model->hidden_size).value_or(0),
                                          deployment.num_experts, buffer.tokens),
                  buffer.tokens));
  finding.severity = known ? Severity::error : Severity::note;
  finding.needed_tokens_per_rank = buffer.tokens;
  finding.consequence =
      "DeepEP asserts num_rdma_bytes / 16 < INT_MAX when it makes the buffer, while the server starts";
  report.findings.push_back(std::move(finding));
}

void add_model_unknown(const Deployment& deployment, CheckReport& report) {
  if (deployment.model) return;
  report.findings.push_back(
      make_note(FindingKind::model_unknown, Phase::start,
                "the model's shape is not known: buffer bytes and rules on experts and hidden sizes are not checked",
                "give --model NAME, --model-config FILE, or --num-experts, --top-k and --hidden-size"));
}

std::string capacity_source(const VllmPart& part) {
  using enum Kernels;
  const Buffer& buffer = part.buffer;
  if (part.kernels == deepep_high_throughput) return "the layout is exchanged at run time: no fixed receive geometry";
  if (part.kernels == allgather_reducescatter || part.kernels == naive)
    return "exact sizes from the list: no buffer of a fixed size";
  if (part.kernels == flashinfer_two_sided)
    return "workspaces of the library; the largest entry of the list at every call";
  std::string out = fmt::format("{} tokens per rank ({})", buffer.tokens, buffer.source);
  if (part.kernels == deepep_low_latency) return out + ", and the NVLink buffer of VLLM_DEEPEP_BUFFER_SIZE_MB";
  return out + "; bytes by the library's own formula";
}

}  // namespace

// More of --max-num-batched-tokens makes the workspace and the step larger alike.
void VllmPart::add_start_findings(const Deployment& deployment, CheckReport& report) const {
  if (deployment.max_num_tokens >= buffer.tokens) return;
  for (CheckFinding& finding : report.findings)
    if (finding.kind == FindingKind::over_capacity)
      finding.advise(
          "use vLLM with #42976 (2026-05-19) or newer, whose workspace grows to the largest layer; or leave out "
          "--speculative-config; or use another --all2all-backend");
}

void VllmPart::add_open_limits(const Deployment&, CheckReport& report) const {
  report.findings.push_back(make_note(FindingKind::note, Phase::start,
                                      "this is about sizes: a rank that skips or adds a collective (a step without "
                                      "tokens, a draft that one rank leaves "
                                      "out) hangs the others all the same, and no size shows it"));
}

bool VllmPart::check_constant_geometry(const Deployment& deployment, CheckReport& report) const {
  if (kernels == Kernels::none) return false;
  report.capacity_source = capacity_source(*this);
  if (buffer.tokens > 0) report.static_cap = buffer.tokens;
  if (buffer.bytes && deployment.model) {
    const std::int64_t hidden = deployment.model->hidden_size;
    report.capacity = Capacity{buffer.tokens, deepep_dispatch_bytes(hidden), deepep_combine_bytes(hidden),
                               *buffer.bytes, *buffer.bytes};
    report.workspace_known = true;
  }
  const bool exchanges_layout = kernels == Kernels::deepep_high_throughput;
  if (deployment.rejections.empty()) check_agreement(deployment, report);
  call_assertions_refusals(report);
  if (exchanges_layout)  // no geometry of its own; but a window is a window
    for (CheckFinding& finding : report.findings) finding.severity = Severity::warning;
  if (exchanges_layout) return false;
  for (const Rejection& rejection : deployment.rejections) report.findings.push_back(explain_rejection(rejection));
  if (has(report, FindingKind::rejected)) return true;
  check_bytes(*this, deployment, report);
  check_rounds(*this, report);
  add_model_unknown(deployment, report);
  add_open_limits(deployment, report);
  return true;
}

bool VllmPart::check_draft_geometry(const Deployment&, CheckReport&) const { return false; }

}  // namespace a2asim::vllm
