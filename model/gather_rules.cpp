#include "model/gather_rules.h"

#include <fmt/format.h>

namespace a2asim {
namespace {

enum class Added { nothing, flashinfer, flashinfer_elastic_mori };

// The rows grew at fixed places, so one walk serves every version.
GatherRow first_match(const GatherInputs& in, Added added) {
  const bool newest = added == Added::flashinfer_elastic_mori;
  if (!in.enable_dp_attention) return GatherRow::no_dp_attention;
  if (in.dp_size <= 1) return GatherRow::dp_size_is_1;
  if (newest && in.elastic_expanded_world) return GatherRow::elastic_expanded_world;
  if (!in.moe_dense_tp_size) return GatherRow::dense_not_set;
  if (!in.enable_dp_lm_head) return GatherRow::no_dp_lm_head;
  if (in.moe_a2a_backend == "none") return GatherRow::backend_none;
  if (added != Added::nothing && in.moe_a2a_backend == "flashinfer") return GatherRow::backend_flashinfer;
  if (newest && in.moe_a2a_backend == "mori" && in.mori_recv_bound) return GatherRow::backend_mori_recv_bound;
  return GatherRow::dense_above_attention_tp;
}

Result<bool> attention_is_scattered(const GatherInputs& in) {
  return !in.enable_dp_attention || in.dp_size < in.tp_size;
}

}  // namespace

GatherRow mlp_tp_gather_row_pr14668(const GatherInputs& in) { return first_match(in, Added::nothing); }
GatherRow mlp_tp_gather_row_pr30450(const GatherInputs& in) { return first_match(in, Added::flashinfer); }
GatherRow mlp_tp_gather_row_main20260823(const GatherInputs& in) {
  return first_match(in, Added::flashinfer_elastic_mori);
}

Result<bool> value(GatherRow row, const GatherInputs& in) {
  switch (row) {
    case GatherRow::no_dp_attention:
      return false;
    case GatherRow::dp_size_is_1:
      return fail(ErrorKind::assertion_error, "dp_size must be greater than 1");
    case GatherRow::dense_above_attention_tp:
      return *in.moe_dense_tp_size > in.tp_size / in.dp_size;
    default:
      return true;
  }
}

std::string explain(GatherRow row, const GatherInputs& in) {
  switch (row) {
    case GatherRow::no_dp_attention:
      return "no --enable-dp-attention";
    case GatherRow::dp_size_is_1:
      return fmt::format("--enable-dp-attention with dp_size {}: SGLang asserts dp_size > 1", in.dp_size);
    case GatherRow::elastic_expanded_world:
      return "the elastic expert-parallel world was expanded";
    case GatherRow::dense_not_set:
      return "--moe-dense-tp-size is not set";
    case GatherRow::no_dp_lm_head:
      return "no --enable-dp-lm-head";
    case GatherRow::backend_none:
      return "--moe-a2a-backend is none";
    case GatherRow::backend_flashinfer:
      return "--moe-a2a-backend is flashinfer, which this version always gathers for";
    case GatherRow::backend_mori_recv_bound:
      return "--moe-a2a-backend is mori and SGLANG_MORI_RECV_BOUND is set";
    case GatherRow::dense_above_attention_tp:
      break;
  }
  const std::int64_t attention_tp = in.tp_size / in.dp_size;
  return fmt::format("moe_dense_tp_size {} > tp_size / dp_size = {} is {}", *in.moe_dense_tp_size, attention_tp,
                     *in.moe_dense_tp_size > attention_tp);
}

Result<bool> require_attn_tp_gather_pr14668(const GatherInputs& in) {
  if (in.moe_dense_tp_size.value_or(1) != 1)
    return fail(ErrorKind::assertion_error, std::string(kDenseTpSizeAssertion));
  if (in.moe_a2a_backend == "none" && !in.moe_dense_tp_size) return false;
  return attention_is_scattered(in);
}

Result<bool> require_attn_tp_gather_pr27945(const GatherInputs& in) {
  if (in.disable_attn_tp_gather) return false;
  if (in.moe_a2a_backend == "none" && !in.moe_dense_tp_size) return false;
  return attention_is_scattered(in);
}

Result<bool> require_mlp_tp_gather(const GatherRules& rules, const GatherInputs& in) {
  return value(rules.mlp_tp_gather_row(in), in);
}

Result<bool> require_gathered_buffer(const GatherRules& rules, const GatherInputs& in) {
  Result<bool> gather = require_mlp_tp_gather(rules, in);
  return !gather || *gather ? gather : rules.require_attn_tp_gather(in);
}

Result<bool> require_mlp_sync(const GatherRules& rules, const GatherInputs& in) {
  if (in.enable_dp_attention) return true;
  return require_gathered_buffer(rules, in);
}

}  // namespace a2asim
