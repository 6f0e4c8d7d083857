// What check says in TensorRT-LLM's words, and which settings it may change.
#include <fmt/format.h>

#include <algorithm>

#include "model/check/check_explain.h"
#include "model/engines/trtllm/deployment.h"
#include "model/engines/trtllm/resolve.h"

namespace a2asim::trtllm {
namespace {

constexpr std::string_view kTokens = "max_num_tokens";

bool gathers(const TrtllmPart& part) {
  const Lane lane = part.setups.front().lane;
  return lane == Lane::all_gather || lane == Lane::deepep || lane == Lane::deepep_low_latency;
}

}  // namespace

std::vector<std::string> TrtllmPart::knowledge() const {
  std::vector<std::string> lines = {
      fmt::format("method {}: {}", name(setups.front().lane), setups.front().why),
      "before every forward the token counts of all ranks are gathered on the host: all have the same list"};
  for (std::size_t i = 1; i < setups.size(); ++i)
    lines.push_back(
        fmt::format("ranks with another environment have method {}: {}", name(setups[i].lane), setups[i].why));
  const bool own = generation().chunks.patch == ChunkRules::Patch::own_entry && !is_wideep && gathers(*this);
  if (own)
    lines.push_back(
        "a step of several chunks is gathered with a size for each rank; a rank whose chunk is empty sends "
        "its first one again, and sets only its own entry of the sizes (#16745)");
  if (low_latency_asks()) lines.push_back("each rank compares its own rows with the limit of DeepEPLowLatency (#6173)");
  return lines;
}

Advice TrtllmPart::fix_disagreement(bool) const {
  if (setups.size() > 1) return "give every rank the same environment: mpirun -x NAME, srun --export=ALL";
  if (low_latency_asks())
    return fmt::format("use a version with #6173 (2025-07-18); or set TRTLLM_DEEP_EP_TOKEN_LIMIT to {} or more",
                       max_num_tokens);
  return fmt::format(
      "use a version with #16745 (2026-07-22); or leave out moe_config.max_num_tokens (now {}), so that a "
      "step is one chunk",
      moe_max_num_tokens);
}

Advice TrtllmPart::fix_every_forward() const { return "see the error's own text"; }

Advice TrtllmPart::fix_waste(std::int64_t) const {
  return "R is the largest count of all ranks: attention_dp_config.enable_balance lets ranks prefill together";
}

CapVariable TrtllmPart::cap(const Deployment& deployment) const {
  const std::int64_t mib = std::max<std::int64_t>(setups.front().workspace_bytes >> 20, 1);
  return {kWorkspaceMb, deployment.max_num_tokens, std::max<std::int64_t>(largest_r / mib, 1), "which is in MiB"};
}

std::vector<Knob> TrtllmPart::knobs(const Deployment& deployment) const {
  Knob knob;
  knob.name = kTokens;
  knob.most_steps = max_num_tokens;
  knob.guess_steps = deployment.max_num_tokens;
  knob.values = [](std::int64_t steps) { return std::vector<std::int64_t>{steps}; };
  knob.is_given = max_num_tokens_is_given;
  knob.now = fmt::format("{} {}", knob.is_given ? "now" : "not given:", max_num_tokens);
  return {knob};
}

Result<std::unique_ptr<Deployment>> TrtllmPart::with(std::span<const FixSetting> settings) const {
  Inputs inputs = given;
  for (const FixSetting& setting : settings) {
    if (setting.name == kTokens)
      inputs.args.set(std::string(kTokens), std::to_string(setting.values.front()));
    else
      inputs.env.set(setting.name, std::to_string(setting.values.front()));
  }
  return resolve(inputs);
}

void TrtllmPart::add_start_findings(const Deployment&, CheckReport& report) const {
  report.findings.insert(report.findings.end(), remarks.begin(), remarks.end());
}

void TrtllmPart::add_open_limits(const Deployment& deployment, CheckReport& report) const {
  if (max_num_tokens_is_given) return;
  report.findings.push_back(make_note(
      FindingKind::chunk_open, Phase::prefill,
      fmt::format(
          "max_num_tokens is not given: {} is assumed, the default of most versions; a rank's step is safe up to {}",
          max_num_tokens, deployment.max_num_tokens)));
}

// Nothing is sent: only what there is to say.
bool TrtllmPart::check_constant_geometry(const Deployment& deployment, CheckReport& report) const {
  report.capacity_source = setups.front().why;
  add_start_findings(deployment, report);
  return false;
}

std::string TrtllmPart::without_all_to_all() const {
  return fmt::format("{}: {}", name(setups.front().lane), setups.front().why);
}

}  // namespace a2asim::trtllm
