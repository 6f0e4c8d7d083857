// require_mlp_tp_gather and its three siblings: does a rank know every rank's token count, or only its own?
//
// SGLang: utils/common.py. When the first predicate is false although DP attention is on, the scheduler leaves each
// rank a one-entry list holding its own count ("the collapse"), and rules that take max(list) differ between ranks.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "model/base/result.h"

namespace a2asim {

struct GatherInputs {
  bool enable_dp_attention = false;
  std::int64_t dp_size = 1;
  std::int64_t tp_size = 1;
  std::optional<std::int64_t> moe_dense_tp_size = std::nullopt;
  bool enable_dp_lm_head = false;
  std::string_view moe_a2a_backend = "none";  // --moe-a2a-backend
  bool disable_attn_tp_gather = false;        // read from pr24850 on
  bool elastic_expanded_world = false;  // an elastic-EP backend is set and its world was expanded; main20260823 on
  bool mori_recv_bound = false;         // SGLANG_MORI_RECV_BOUND; pr35758 on
};

// The row of the predicate table that decided; the first match wins.
enum class GatherRow : std::uint8_t {
  no_dp_attention,           // false
  dp_size_is_1,              // AssertionError: dp_size must be greater than 1
  elastic_expanded_world,    // true
  dense_not_set,             // true: moe_dense_tp_size is None
  no_dp_lm_head,             // true
  backend_none,              // true: no all-to-all backend
  backend_flashinfer,        // true
  backend_mori_recv_bound,   // true
  dense_above_attention_tp,  // moe_dense_tp_size > tp_size / dp_size: with 1 always false, the collapse
};

// The value of a row. Errors: assertion_error for dp_size_is_1.
Result<bool> value(GatherRow row, const GatherInputs& in);

using AttnTpGatherRule = Result<bool> (*)(const GatherInputs&);
// pr14668 .. pr25907. Errors: assertion_error (kDenseTpSizeAssertion) unless moe_dense_tp_size is 1 or unset.
Result<bool> require_attn_tp_gather_pr14668(const GatherInputs& in);
// pr26643 and later: no assertion, --disable-attn-tp-gather, and any moe_dense_tp_size counts, not only 1.
Result<bool> require_attn_tp_gather_pr27945(const GatherInputs& in);

// SGLang's assertion has no text of its own; these are our words for it.
inline constexpr std::string_view kDenseTpSizeAssertion = "moe_dense_tp_size must be 1 or not set";

// Tests that gather, in SGLang's order; the last decides either way. They are asked where DP attention is on.
inline constexpr std::array kGatherTestsPr14668 = {  // pr14668 .. pr22394
    GatherRow::dense_not_set, GatherRow::no_dp_lm_head, GatherRow::backend_none, GatherRow::dense_above_attention_tp};
inline constexpr std::array kGatherTestsPr30450 = {  // flashinfer always gathers
    GatherRow::dense_not_set, GatherRow::no_dp_lm_head, GatherRow::backend_none, GatherRow::backend_flashinfer,
    GatherRow::dense_above_attention_tp};
inline constexpr std::array kGatherTestsMain20260823 = {  // an elastic world
    GatherRow::elastic_expanded_world, GatherRow::dense_not_set,      GatherRow::no_dp_lm_head,
    GatherRow::backend_none,           GatherRow::backend_flashinfer, GatherRow::dense_above_attention_tp};
inline constexpr std::array kGatherTestsPr35758 = {  // .. and mori
    GatherRow::elastic_expanded_world,  GatherRow::dense_not_set,
    GatherRow::no_dp_lm_head,           GatherRow::backend_none,
    GatherRow::backend_flashinfer,      GatherRow::backend_mori_recv_bound,
    GatherRow::dense_above_attention_tp};

// What a generation names. The other two predicates follow from these.
struct GatherRules {
  std::span<const GatherRow> mlp_tp_gather_tests;
  AttnTpGatherRule require_attn_tp_gather;
};
inline constexpr GatherRules kGatherRulesPr14668{kGatherTestsPr14668, require_attn_tp_gather_pr14668};
inline constexpr GatherRules kGatherRulesPr27945{kGatherTestsPr14668,
                                                 require_attn_tp_gather_pr27945};  // pr26643 .. pr22394
inline constexpr GatherRules kGatherRulesPr30450{kGatherTestsPr30450, require_attn_tp_gather_pr27945};
inline constexpr GatherRules kGatherRulesMain20260823{kGatherTestsMain20260823, require_attn_tp_gather_pr27945};
inline constexpr GatherRules kGatherRulesPr35758{kGatherTestsPr35758, require_attn_tp_gather_pr27945};

GatherRow mlp_tp_gather_row(const GatherRules& rules, const GatherInputs& in);
// Why, for a report: "--moe-dense-tp-size is not set"; where nothing gathers, every test with what it met instead.
std::string explain(const GatherRules& rules, const GatherInputs& in);
Result<bool> require_mlp_tp_gather(const GatherRules& rules, const GatherInputs& in);
// mlp gather or attention gather; as in Python, the second is not asked when the first is true.
Result<bool> require_gathered_buffer(const GatherRules& rules, const GatherInputs& in);
// DP attention or a gathered buffer. Never raises with DP attention on.
Result<bool> require_mlp_sync(const GatherRules& rules, const GatherInputs& in);

}  // namespace a2asim
