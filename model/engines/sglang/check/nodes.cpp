// Commands of several nodes that are to be one server: no version of SGLang compares their options.
#include "model/check/node_findings.h"
#include "model/engines/sglang/cap_variable.h"
#include "model/engines/sglang/deployment.h"

namespace a2asim {
namespace {

// Groups are built from these, on every rank by itself.
struct Size {
  std::string_view flag;
  std::int64_t ServerArgs::*value;
};
constexpr Size kNodeSizes[] = {{"--tp-size", &ServerArgs::tp_size},
                               {"--dp-size", &ServerArgs::dp_size},
                               {"--ep-size", &ServerArgs::ep_size},
                               {"--pp-size", &ServerArgs::pp_size},
                               {"--attn-cp-size", &ServerArgs::attn_cp_size},
                               {"--moe-dp-size", &ServerArgs::moe_dp_size},
                               {"--nnodes", &ServerArgs::nnodes}};
struct Switch {
  std::string_view flag;
  bool ServerArgs::*value;
};
constexpr Switch kSwitches[] = {{"--enable-dp-attention", &ServerArgs::enable_dp_attention},
                                {"--enable-dp-lm-head", &ServerArgs::enable_dp_lm_head},
                                {"--enable-eplb", &ServerArgs::enable_eplb},
                                {"--enable-two-batch-overlap", &ServerArgs::enable_two_batch_overlap}};
constexpr std::string_view kHang =
    "nothing compares it: ranks build other groups, and wait for each other while the server starts";

}  // namespace

void SglangPart::add_differences(const Deployment& own, const Deployment& other, CheckReport& report) const {
  const ServerArgs &a = args, &b = sglang_part(other).args;
  const std::size_t before = report.findings.size();
  const auto error = [&](std::string message, std::string consequence, std::string fix) {
    add_difference(report, Severity::error, std::move(message), std::move(consequence), std::move(fix));
  };
  const auto words = [](const std::optional<std::int64_t>& value) {
    return value ? fmt::format("{}", *value) : std::string("not given");
  };
  for (const Size& size : kNodeSizes)
    if (a.*size.value != b.*size.value)
      error(differs(size.flag, a.*size.value, b.*size.value), std::string(kHang), give_all(size.flag, a.*size.value));
  for (const Switch& one : kSwitches)
    if (a.*one.value != b.*one.value)
      error(differs(one.flag, a.*one.value, b.*one.value), std::string(kHang), give_all(one.flag, a.*one.value));
  if (a.moe_dense_tp_size != b.moe_dense_tp_size)
    error(differs("--moe-dense-tp-size", words(a.moe_dense_tp_size), words(b.moe_dense_tp_size)), std::string(kHang),
          give_all("--moe-dense-tp-size", words(a.moe_dense_tp_size)));
  if (a.moe_a2a_backend != b.moe_a2a_backend)
    error(differs("--moe-a2a-backend", a.moe_a2a_backend, b.moe_a2a_backend),
          "ranks meet in collectives that do not match, and hang", give_all("--moe-a2a-backend", a.moe_a2a_backend));
  if (a.model_path != b.model_path)
    add_difference(report, Severity::warning,
                   differs("the model", a.model_path.value_or("not given"), b.model_path.value_or("not given")),
                   "ranks hold shards of other weights, unless both names mean one model",
                   "give every node the same model");
  if (report.findings.size() != before) return;
  if (own.max_num_tokens != other.max_num_tokens)
    error(
        differs("the cap, max_num_tokens per rank,", own.max_num_tokens, other.max_num_tokens),
        "no version compares it: workspaces have other sizes on each node, and the smaller one refuses a step that the "
        "other takes: its ranks raise, and the rest hang",
        fmt::format("give every node the same --chunked-prefill-size and {}", kCapVariable));
  if (own.requests_per_dp_rank.value != other.requests_per_dp_rank.value)
    add_difference(
        report, Severity::warning,
        differs("the request limit of a replica", own.requests_per_dp_rank.value, other.requests_per_dp_rank.value),
        "nodes capture other graphs where the limit decides; balance is lost",
        "give every node the same --max-running-requests");
}

std::optional<NodeShare> SglangPart::node_share() const {
  if (args.nnodes < 2) return std::nullopt;
  return NodeShare{"nodes", args.node_rank, 1, args.nnodes};
}

}  // namespace a2asim
