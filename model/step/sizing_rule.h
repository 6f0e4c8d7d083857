// What a sizing rule sees and what it answers: the view of one rank -> runtime_max_tokens_per_rank (R).
//
//   const SizingRule mine = [](const RankView& view) -> Result<SizingDecision> { return SizingDecision{view.rows,
//   view.rows}; };
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string_view>

#include "model/base/result.h"

namespace a2asim {

// require_mlp_tp_gather as the dispatcher would see it. The generations that ask it inside dispatch (pr27945 to
// pr22394) raise there when it raises ("dp_size must be greater than 1").
enum class GatherPredicate : std::uint8_t { no, yes, raises };

// Everything a rule may look at. The same fields, under the same names, go to an external rule (--rule-cmd).
struct RankView {
  int ep_size = 1;
  int ep_rank = 0;
  // get_dp_global_num_tokens(): the padded list last given to set_dp_buffer_len, or nothing.
  std::optional<std::span<const std::int64_t>> dp_global;
  std::int64_t rows = 0;  // hidden_states.shape[0] on this rank
  bool capture = false;   // get_is_capture_mode()
  bool extend = false;    // is_extend_in_batch: some rank of the step extends
  GatherPredicate require_mlp_tp_gather = GatherPredicate::no;
  bool enable_dp_attention = false;
  int attn_tp_size = 1;
  std::int64_t max_num_tokens = 0;  // the cap of the MoeAlltoAll object
};

// Which line of the rule answered; text(branch) says it in words for reports.
enum class SizingBranch : std::uint8_t {
  max_of_list,          // max(dp_global)
  max_of_list_scatter,  // ceil(max(dp_global) / attn_tp_size)
  static_cap,           // max_num_tokens (#27945's middle branch)
  local_rows,           // hidden_states.shape[0]
  allgather_prefill,    // no all-to-all in this step: all-gatherv + reduce-scatterv (#35758)
  external,             // a rule of the user's own
};
std::string_view text(SizingBranch branch);

struct SizingDecision {
  std::int64_t runtime_max_tokens_per_rank = 0;  // 0 with allgather_prefill
  std::int64_t dispatched_rows = 0;              // rows given to the kernel: 1 where an empty rank sends a dummy token
  bool has_dummy_token = false;
  SizingBranch branch = SizingBranch::local_rows;
};

// A rule: the view of one rank -> R, or the error that the engine's own text raises (FlashInfer's checks come after it
// and are check_flashinfer_dispatch in capacity.h). A user's own rule is one more of these.
using SizingRule = std::function<Result<SizingDecision>(const RankView&)>;

}  // namespace a2asim
