// What check says in TensorRT-LLM's words, and which settings it may change.
#include <fmt/format.h>

#include <algorithm>

#include "model/check/check_explain.h"
#include "model/check/node_findings.h"
#include "model/engines/trtllm/deployment.h"
#include "model/engines/trtllm/resolve.h"
#include "model/step/fix_steps.h"

namespace a2asim::trtllm {
namespace {

constexpr std::string_view kTokens = "--max_num_tokens";

// That ranks must have alike.
constexpr std::string_view kOptionsOfAll[] = {"tensor_parallel_size",
                                              "pipeline_parallel_size",
                                              "context_parallel_size",
                                              "moe_tensor_parallel_size",
                                              "moe_expert_parallel_size",
                                              "enable_attention_dp",
                                              kTokens,
                                              "max_batch_size",
                                              "moe_config.backend",
                                              "moe_config.max_num_tokens",
                                              "cuda_graph_config.batch_sizes",
                                              "cuda_graph_config.max_batch_size",
                                              "cuda_graph_config.enable_padding",
                                              "speculative_config.max_draft_len"};

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

// The NVLink domain settles the method: of one node, or of all ranks (and then, of 72, on Grace).
std::vector<OpenMachine> TrtllmPart::open_machines() const {
  if (domain_is_known || mapping.dp_size < 2) return {};
  constexpr std::int64_t kNode = 8, kRack = 72;
  std::vector<OpenMachine> out;
  for (const std::int64_t gpus : {kNode, std::max(kRack, mapping.moe_ep_size)}) {
    Inputs inputs = given;
    inputs.nvlink_domain = gpus;
    const auto resolved = resolve(inputs);
    if (resolved && trtllm_part(**resolved).setups == setups && gpus != domain) return {};
    out.push_back({fmt::format("if {} GPUs share NVLink{} (--nvlink-domain {})", gpus,
                               gpus == kNode ? "" : ", as in a GB200 rack", gpus),
                   gpus,
                   {}});
  }
  return out;
}

Advice TrtllmPart::fix_disagreement(bool) const {
  if (setups.size() > 1) return "give every rank the same environment: mpirun -x NAME, srun --export=ALL";
  if (low_latency_asks())
    return std::vector{at_least(set_variable("TRTLLM_DEEP_EP_TOKEN_LIMIT", std::to_string(max_num_tokens))),
                       upgrade_to("pr6173", "2025-07-18")};
  return std::vector{remove_flag("moe_config.max_num_tokens", std::to_string(moe_max_num_tokens)),
                     upgrade_to("pr16745", "2026-07-22")};
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
      inputs.args.set("max_num_tokens", std::to_string(setting.values.front()));
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

// The options of the first rank count for all; variables are each rank's own.
void TrtllmPart::add_differences(const Deployment& own, const Deployment& other, CheckReport& report) const {
  const TrtllmPart& its = trtllm_part(other);
  const RankSetup &a = setups.front(), &b = its.setups.front();
  const auto said = [](const TrtllmPart& part, std::string_view option) {
    return part.given.args.text(option).value_or("not given");
  };
  for (const std::string_view option : kOptionsOfAll)
    if (const std::string first = said(*this, option), here = said(its, option); first != here)
      add_difference(report, Severity::warning, differs(option, first, here),
                     "the options of the first rank's command count for all ranks; this node's are not read",
                     give_all(option, first));
  if (own.topology.ep_size != other.topology.ep_size || max_num_tokens != its.max_num_tokens) return;
  if (a.lane != b.lane)
    add_difference(report, Severity::error, differs<std::string_view>("the method", name(a.lane), name(b.lane)),
                   "each rank chooses by its own environment: ranks wait for each other in other collectives until the "
                   "hang detector stops them after about 300 s",
                   "give every node the same variables");
  else if (a.workspace_bytes != b.workspace_bytes)
    add_difference(report, Severity::error,
                   differs("the workspace, in bytes per rank,", a.workspace_bytes, b.workspace_bytes),
                   "the load is refused: \"Not all rank allocating same size.\"",
                   fmt::format("give every node the same {}", kWorkspaceMb), FindingKind::rejected);
  else if (a.low_latency_tokens != b.low_latency_tokens && a.lane == Lane::deepep_low_latency)
    add_difference(report, Severity::error,
                   differs("the token limit of DeepEPLowLatency", a.low_latency_tokens, b.low_latency_tokens),
                   "some ranks send, the others gather: hang", "give every node the same TRTLLM_DEEP_EP_TOKEN_LIMIT");
}

// Nothing is sent: only what there is to say.
bool TrtllmPart::check_constant_geometry(const Deployment& deployment, CheckReport& report) const {
  report.capacity_source = setups.front().why;
  add_start_findings(deployment, report);
  return false;
}

std::string TrtllmPart::without_all_to_all() const {
  if (setups.front().why.empty()) return "no method is chosen";
  return fmt::format("{}: {}", name(setups.front().lane), setups.front().why);
}

}  // namespace a2asim::trtllm
