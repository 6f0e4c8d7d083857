#include <algorithm>
#include <vector>

#include "model/engines/sglang/rules/dp_padding.h"
#include "tests/golden/table.h"
#include "tests/golden/variant.h"

namespace a2asim::golden {
namespace {

using Tokens = std::vector<std::int64_t>;

json error(ErrorKind kind, const std::string& message) { return {{"error", std::string(name(kind)) + ": " + message}}; }

json prepare_mlp_sync_batch(const DpPaddingRules& rules, Fields& in) {
  auto tokens = in.get<Tokens>("global_num_tokens_cpu");
  const auto rank = in.get<std::size_t>("attn_dp_rank");
  const auto width = in.get_or_null<std::int64_t>("spec_tokens_per_req");
  const auto captured = in.get_or_null<Tokens>("prefill_cuda_graph_bs").value_or(Tokens{});
  const auto mode = parse_forward_mode(in.get<std::string>("forward_mode"));
  if (!mode) throw std::runtime_error(mode.error().message);
  const DpPaddingInputs inputs{
      .attn_tp_size = in.get<std::int64_t>("attn_tp_size"),
      .cp_align_size = in.get_or_null<std::int64_t>("cp_align_size").value_or(1),
      .attn_dp_size = in.get<std::int64_t>("attn_dp_size"),
      .is_extend_in_batch = in.get<bool>("is_extend_in_batch"),
      .can_run_dp_breakable_cuda_graph = in.get_or_null<bool>("can_run_dp_breakable_cuda_graph").value_or(false),
      .max_prefill_cuda_graph_num_tokens = captured.empty() ? 0 : std::ranges::max(captured)};
  const auto batch_size = in.get<std::int64_t>("batch_size");
  if (tokens.empty()) return error(ErrorKind::value_error, "max() arg is an empty sequence");
  if (tokens.size() > 1 && rank >= tokens.size()) return error(ErrorKind::index_error, "list index out of range");
  // The batch holds the rank's own count, unpadded.
  const std::int64_t own = local_padded_num_tokens(tokens, rank);

  const DpPadding padding = pad_global_num_tokens(rules, inputs, tokens);
  const std::int64_t padded = local_padded_num_tokens(tokens, rank);
  const ForwardBatchShape batch =
      pad_forward_batch(rules, padding, inputs.is_extend_in_batch, padded, width.value_or(0), {*mode, batch_size, own});
  return {{"out",
           {{"dp_padding_mode", name(padding.mode)},
            {"global_num_tokens_cpu", tokens},
            {"global_dp_buffer_len", padding.global_dp_buffer_len_tokens},
            {"padded_num_tokens", padded},
            {"padded_bs", batch.batch_size},
            {"batch_size", batch.batch_size},
            {"forward_mode", name(batch.forward_mode)},
            {"extend_num_tokens", batch.extend_num_tokens}}}};
}

}  // namespace

json answer_padding(Fields& in, const json&) {
  const auto rules = by_variant<DpPaddingRules>(in.get<std::string>("variant"), {{"jan2026", kDpPaddingPr14668},
                                                                                 {"june2026", kDpPaddingPr27945},
                                                                                 {"pr30450", kDpPaddingPr27945},
                                                                                 {"main2026", kDpPaddingMain20260823}});
  const auto fn = in.get<std::string>("fn");
  if (fn == "prepare_mlp_sync_batch") return prepare_mlp_sync_batch(rules, in);
  if (fn != "get_dp_padding_mode") throw std::runtime_error("unknown fn " + fn);
  const auto tokens = in.get<Tokens>("global_num_tokens");
  const DpPaddingInputs inputs{
      .attn_dp_size = in.get<std::int64_t>("dp_size"),
      .is_extend_in_batch = in.get<bool>("is_extend_in_batch"),
      .max_len_with_idle = in.get_or_null<bool>("max_len_with_idle").value_or(false),
      .force_max_len = backend_forces_max_len(in.get_or_null<std::string>("moe_a2a_backend").value_or("none"))};
  if (tokens.empty()) return error(ErrorKind::value_error, "max() arg is an empty sequence");
  return {{"out", name(rules.mode(tokens, inputs))}};
}

}  // namespace a2asim::golden
