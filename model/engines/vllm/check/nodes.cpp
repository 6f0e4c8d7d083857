// Commands of several nodes that are to be one deployment: what they say differently, and what comes of it.
#include <fmt/format.h>

#include "model/check/node_findings.h"
#include "model/engines/vllm/deployment.h"

namespace a2asim::vllm {
namespace {

constexpr std::string_view kTokensOption = "--max-num-batched-tokens";

class Nodes {
 public:
  Nodes(const VllmPart& own, const VllmPart& other, CheckReport& report) : own_(own), other_(other), report_(report) {}

  void compare() {
    compare_parallel_config();
    if (own_.given.args.model != other_.given.args.model)
      add(Severity::warning,
          fmt::format("the model is {} here and {} on the first node", other_.given.args.model, own_.given.args.model),
          "ranks hold shards of other weights, unless both names mean one model", "give every node the same model");
    if (parts_) return;
    compare_buffers();
    compare_exchange();
  }

 private:
  // ParallelConfig, whose hash the nodes compare when they report ready (#26218).
  void compare_parallel_config() {
    const ParallelArgs &a = own_.given.args.parallel, &b = other_.given.args.parallel;
    fixed("--tensor-parallel-size", a.sizes.tp, b.sizes.tp);
    fixed("--data-parallel-size", a.sizes.dp, b.sizes.dp);
    fixed("--pipeline-parallel-size", a.sizes.pp, b.sizes.pp);
    fixed("--prefill-context-parallel-size", a.sizes.pcp, b.sizes.pcp);
    fixed("--decode-context-parallel-size", a.sizes.dcp, b.sizes.dcp);
    fixed("--enable-expert-parallel", a.enable_expert_parallel, b.enable_expert_parallel);
    fixed("--enable-eplb", a.enable_eplb, b.enable_eplb);
    fixed("num_redundant_experts", a.num_redundant_experts, b.num_redundant_experts);
    fixed("--enable-dbo", a.enable_dbo, b.enable_dbo);
    fixed("--ubatch-size", a.ubatch_size, b.ubatch_size);
    const auto& p = own_.parallel.backend;
    const auto& q = other_.parallel.backend;
    if (!p.empty() && !q.empty())
      fixed(own_.generation().parallel.source == BackendSource::variable ? "VLLM_ALL2ALL_BACKEND" : "--all2all-backend",
            p, q);
  }

  template <class T>
  void fixed(std::string_view what, const T& a, const T& b) {
    if (a == b) return;
    parts_ = true;
    const bool compared = own_.generation().compares_nodes;
    add(Severity::error, differs(what, a, b),
        compared ? "vLLM compares the nodes' parallel configuration at the start, and stops: \"Configuration mismatch "
                   "detected for engine\""
                 : "nothing compares it before #26218 (2025-10-07): ranks meet in collectives that do not match, and "
                   "hang",
        give_all(what, a), compared ? FindingKind::rejected : FindingKind::nodes_differ);
  }

  // Not part of it: every node goes on with its own.
  void compare_buffers() {
    const Buffer &a = own_.buffer, &b = other_.buffer;
    const std::int64_t most = own_.limits.max_num_batched_tokens, its = other_.limits.max_num_batched_tokens;
    const bool by_tokens = a.source == "max_num_batched_tokens";
    const std::string what = fmt::format("the buffer of {}, in tokens per rank ({}),", own_.parallel.backend, a.source);
    if (a.is_chunked != b.is_chunked) {
      add(Severity::error,
          "VLLM_ENABLE_MOE_DP_CHUNK=0 on one of the first node and this one: it sends a step of more than "
          "one round at once",
          "ranks of the other node wait in rounds that the first never enters: hang",
          "give every node the same VLLM_ENABLE_MOE_DP_CHUNK");
    } else if (a.tokens != b.tokens) {
      add(Severity::error, differs(what, a.tokens, b.tokens),
          a.is_chunked ? "a step takes another number of rounds on each node: ranks wait for each other forever"
                       : "no version compares it: ranks lay their buffers out for other sizes, and read wrong rows or "
                         "hang",
          by_tokens ? give_all(kTokensOption, a.tokens) : give_all(a.source, a.tokens));
    } else if (most != its) {
      add(own_.has_exact_sizes() || !by_tokens ? Severity::note : Severity::warning,
          differs("max_num_batched_tokens", most, its), "no size of this all-to-all follows it",
          give_all(kTokensOption, most));
    }
    if (own_.limits_are_known && other_.limits_are_known) return;
    const BatchArgs &x = own_.given.args.batch, &y = other_.given.args.batch;
    const bool tokens = x.max_num_batched_tokens && y.max_num_batched_tokens, seqs = x.max_num_seqs && y.max_num_seqs;
    const std::string_view open = tokens ? "max_num_seqs" : seqs ? "max_num_batched_tokens" : "";
    report_.findings.push_back(make_note(
        FindingKind::nodes_differ, Phase::start,
        fmt::format("{} not given: a node with GPUs of another class takes another default, which no version compares",
                    open.empty() ? "max_num_batched_tokens and max_num_seqs are" : fmt::format("{} is", open)),
        fmt::format("give every node {}", tokens ? "--max-num-seqs"
                                          : seqs ? kTokensOption
                                                 : "--max-num-batched-tokens and --max-num-seqs")));
  }

  // What ranks all-reduce before a forward, and how often.
  void compare_exchange() {
    const auto version = [](const VllmPart& part) { return part.runs_v2 ? 2 : 1; };
    if (own_.runs_v2 != other_.runs_v2)
      add(Severity::error, differs("the model runner", version(own_), version(other_)),
          "the two exchange tables of another form: hang at the first step",
          "give every node the same VLLM_USE_V2_MODEL_RUNNER");
    const std::int64_t a = own_.given.args.num_speculative_tokens, b = other_.given.args.num_speculative_tokens;
    if (a != b)
      add(Severity::error, differs("num_speculative_tokens", a, b),
          "every draft forward is an exchange of its own: a node makes more of them, and waits for the other",
          give_all("num_speculative_tokens", a));
    const bool x = own_.graphs.setting->decode == GraphMode::none, y = other_.graphs.setting->decode == GraphMode::none;
    if (x == y || own_.generation().coordination.padding != Padding::unless_setting_none) return;
    add(Severity::error, differs("cudagraph_mode", own_.graphs.setting->name, other_.graphs.setting->name),
        "ranks assert should_attempt_dp_padding == should_dp_pad at the first step, and stop",
        give_all("cudagraph_mode", own_.graphs.setting->name), FindingKind::rejected);
  }

  void add(Severity severity, std::string message, std::string consequence, std::string fix,
           FindingKind kind = FindingKind::nodes_differ) {
    add_difference(report_, severity, std::move(message), std::move(consequence), std::move(fix), kind);
  }

  const VllmPart &own_, &other_;
  CheckReport& report_;
  bool parts_ = false;  // nothing else matters then
};

}  // namespace

void VllmPart::add_differences(const Deployment& own, const Deployment& other, CheckReport& report) const {
  Nodes(vllm_part(own), vllm_part(other), report).compare();
}

std::optional<NodeShare> VllmPart::node_share() const {
  const EngineArgs& args = given.args;
  const std::int64_t dp = args.parallel.sizes.dp;
  if (args.nnodes > 1) return NodeShare{"nodes", args.node_rank, 1, args.nnodes};
  if (args.dp_rank) return NodeShare{"replicas", *args.dp_rank, 1, dp};
  return NodeShare{"replicas", args.dp_start_rank.value_or(0), args.dp_size_local.value_or(dp), dp};
}

}  // namespace a2asim::vllm
