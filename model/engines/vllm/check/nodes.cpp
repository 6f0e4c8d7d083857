// Commands of several nodes that are to be one deployment: what they say differently, and what comes of it.
#include <fmt/format.h>

#include "model/check/check_explain.h"
#include "model/check/finding_info.h"
#include "model/engines/vllm/deployment.h"

namespace a2asim::vllm {
namespace {

class Nodes {
 public:
  Nodes(const VllmPart& own, const VllmPart& other, CheckReport& report) : own_(own), other_(other), report_(report) {}

  void compare() {
    const ParallelArgs &a = own_.given.args.parallel, &b = other_.given.args.parallel;
    fixed("--tensor-parallel-size", a.sizes.tp, b.sizes.tp);
    fixed("--data-parallel-size", a.sizes.dp, b.sizes.dp);
    fixed("--pipeline-parallel-size", a.sizes.pp, b.sizes.pp);
    fixed("--enable-expert-parallel", a.enable_expert_parallel, b.enable_expert_parallel);
    fixed("--enable-eplb", a.enable_eplb, b.enable_eplb);
    fixed("num_redundant_experts", a.num_redundant_experts, b.num_redundant_experts);
    fixed("--enable-dbo", a.enable_dbo, b.enable_dbo);
    fixed("the all-to-all", own_.parallel.backend, other_.parallel.backend);
    if (own_.parallel.backend == other_.parallel.backend) sizes();
    modes();
  }

 private:
  // Part of ParallelConfig, whose hash the nodes compare when they report ready (#26218).
  template <class T>
  void fixed(std::string_view what, const T& a, const T& b) {
    if (a == b) return;
    const bool compared = own_.generation().compares_nodes;
    add(compared ? FindingKind::rejected : FindingKind::geometry_disagreement, Severity::error, differs(what, a, b),
        compared
            ? "Configuration mismatch detected for engine: the server refuses to start"
            : "nothing compares it before #26218 (2025-10-07): ranks meet in collectives of unequal sizes, and hang");
  }

  // Not part of it: every node goes on with its own.
  void sizes() {
    const std::int64_t a = own_.buffer.tokens, b = other_.buffer.tokens;
    const std::int64_t most = own_.limits.max_num_batched_tokens, its = other_.limits.max_num_batched_tokens;
    if (a != b)
      add(FindingKind::geometry_disagreement, Severity::error,
          differs(fmt::format("the buffer of {} ({})", own_.parallel.backend, own_.buffer.source), a, b),
          own_.buffer.is_chunked ? "nodes take another number of rounds, and wait for each other forever"
                                 : "buffers of unequal size: rows land in wrong slots, or the kernels wait forever");
    else if (most != its)
      add(FindingKind::note, own_.has_exact_sizes() ? Severity::note : Severity::warning,
          differs("max_num_batched_tokens", most, its),
          "nothing compares it; the sizes of this all-to-all do not follow it");
    if (!own_.limits_are_known || !other_.limits_are_known)
      report_.findings.push_back(
          make_note(FindingKind::note, Phase::start,
                    "max_num_batched_tokens is not given: on GPUs of another class a node takes another default"));
  }

  void modes() {
    const bool a = own_.graphs.setting->decode == GraphMode::none, b = other_.graphs.setting->decode == GraphMode::none;
    if (a == b || own_.generation().coordination.padding != Padding::unless_setting_none) return;
    add(FindingKind::rejected, Severity::error,
        differs("cudagraph_mode", own_.graphs.setting->name, other_.graphs.setting->name),
        "ranks assert should_attempt_dp_padding == should_dp_pad at the first step");
  }

  template <class T>
  static std::string differs(std::string_view what, const T& a, const T& b) {
    return fmt::format("{} is {} here and {} on the first node", what, b, a);
  }

  void add(FindingKind kind, Severity severity, std::string message, std::string consequence) {
    CheckFinding finding = make_note(kind, Phase::start, std::move(message), "give all nodes the same");
    finding.severity = severity;
    finding.consequence = std::move(consequence);
    report_.findings.push_back(std::move(finding));
  }

  const VllmPart &own_, &other_;
  CheckReport& report_;
};

}  // namespace

void VllmPart::add_differences(const Deployment& own, const Deployment& other, CheckReport& report) const {
  Nodes(vllm_part(own), vllm_part(other), report).compare();
}

}  // namespace a2asim::vllm
