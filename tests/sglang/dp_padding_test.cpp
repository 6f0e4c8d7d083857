#include "model/engines/sglang/rules/dp_padding.h"

#include <doctest/doctest.h>

#include <vector>

using namespace a2asim;

namespace {
using List = std::vector<std::int64_t>;
constexpr auto kMax = DpPaddingMode::max_len;
constexpr auto kSum = DpPaddingMode::sum_len;

DpPaddingMode mode(DpPaddingModeRule rule, const List& counts, DpPaddingInputs in = {}) {
  if (in.attn_dp_size == 1) in.attn_dp_size = static_cast<std::int64_t>(counts.size());
  return rule(counts, in);
}

List padded(const DpPaddingRules& rules, List counts, DpPaddingInputs in) {
  if (in.attn_dp_size == 1) in.attn_dp_size = static_cast<std::int64_t>(counts.size());
  const DpPadding padding = pad_global_num_tokens(rules, in, counts);
  std::int64_t sum = 0;
  for (const std::int64_t count : counts) sum += count;
  CHECK(padding.global_dp_buffer_len_tokens == sum);
  return counts;
}
}  // namespace

TEST_CASE("padding: a tie, and so an all-zero list, gives SUM_LEN in January and MAX_LEN later") {
  for (const List& tie : {List{0, 0}, List{0, 100}, List{4, 4, 0, 0}}) {
    CHECK(mode(dp_padding_mode_pr14668, tie) == kSum);
    CHECK(mode(dp_padding_mode_pr27945, tie) == kMax);
  }
  CHECK(mode(dp_padding_mode_pr14668, {4, 4, 1, 0}) == kMax);
  CHECK(mode(dp_padding_mode_pr27945, {4, 3, 0, 0}) == kSum);  // a very skewed load
}

TEST_CASE("padding: an extend step sums: later versions only with more than one DP rank") {
  const DpPaddingInputs extend{.attn_dp_size = 2, .is_extend_in_batch = true};
  CHECK(mode(dp_padding_mode_pr14668, {5, 5}, extend) == kSum);
  CHECK(mode(dp_padding_mode_pr27945, {5, 5}, extend) == kSum);
  const List one = {5};
  CHECK(dp_padding_mode_pr14668(one, {.is_extend_in_batch = true}) == kSum);
  CHECK(dp_padding_mode_pr27945(one, {.is_extend_in_batch = true}) == kMax);
}

TEST_CASE("padding: a hybrid-SSM model with an idle rank takes MAX_LEN in an extend step") {
  const DpPaddingInputs hybrid{.is_extend_in_batch = true, .max_len_with_idle = true};
  CHECK(mode(dp_padding_mode_pr27945, {500, 0}, hybrid) == kMax);
  CHECK(mode(dp_padding_mode_pr27945, {500, 1}, hybrid) == kSum);
}

TEST_CASE("padding: pplx forces MAX_LEN in the newest version, deepep_v2 with its switch") {
  CHECK(backend_forces_max_len("pplx"));
  CHECK_FALSE(backend_forces_max_len("deepep_v2"));
  CHECK(backend_forces_max_len("deepep_v2", true));
  CHECK_FALSE(backend_forces_max_len("flashinfer", true));
  const DpPaddingInputs in{.is_extend_in_batch = true, .force_max_len = true};
  CHECK(mode(dp_padding_mode_main20260823, {500, 1}, in) == kMax);
  CHECK(mode(dp_padding_mode_pr27945, {500, 1}, in) == kSum);
}

TEST_CASE("padding: the mode of a collapsed list is asked with the real DP size") {
  const List one = {5};
  CHECK(dp_padding_mode_pr27945(one, {.attn_dp_size = 2}) == kMax);
  CHECK(dp_padding_mode_pr27945(one, {.attn_dp_size = 4}) == kSum);
  CHECK(local_padded_num_tokens(one, 3) == 5);  // its only entry is the rank's own
  CHECK(local_padded_num_tokens(List{5, 6}, 1) == 6);
}

TEST_CASE("padding: counts are aligned to attention TP, then to context parallelism") {
  CHECK(padded(kDpPaddingPr27945, {5, 1, 0}, {.attn_tp_size = 4, .is_extend_in_batch = true}) == List{8, 4, 0});
  CHECK(padded(kDpPaddingPr27945, {5, 1, 0}, {.attn_tp_size = 4, .cp_align_size = 3, .is_extend_in_batch = true}) ==
        List{9, 6, 0});
  CHECK(padded(kDpPaddingPr27945, {5, 3}, {.attn_tp_size = 2}) == List{6, 6});
}

TEST_CASE("padding: pr26643 makes every eager count even although context parallelism is off") {
  CHECK(kDpPaddingPr26643.cp_padding_align_size(1, false) == 2);
  CHECK(kDpPaddingPr24850.cp_padding_align_size(1, false) == 1);
  CHECK(kDpPaddingPr27945.cp_padding_align_size(1, true) == 1);
  const DpPaddingInputs in{.cp_align_size = kDpPaddingPr26643.cp_padding_align_size(1, false)};
  CHECK(padded(kDpPaddingPr26643, {4, 4, 3, 4}, in) == List{4, 4, 4, 4});
  CHECK(padded(kDpPaddingPr26643, {1}, in) == List{2});
  CHECK(padded(kDpPaddingPr26643, {0}, in) == List{0});
}

TEST_CASE("padding: context parallelism from pr27945: two chunks a rank with zigzag, one otherwise") {
  CHECK(cp_padding_align_size_pr27945(4, true) == 8);
  CHECK(cp_padding_align_size_pr27945(4, false) == 4);
  CHECK(cp_padding_align_size_pr26643(4, false) == 8);
  CHECK(cp_padding_align_size_pr14668(4, true) == 1);
}

TEST_CASE("padding: a prefill step that fits a captured graph is MAX_LEN in the newest version") {
  DpPaddingInputs in{
      .is_extend_in_batch = true, .can_run_dp_breakable_cuda_graph = true, .max_prefill_cuda_graph_num_tokens = 256};
  CHECK(padded(kDpPaddingMain20260823, {8, 256}, in) == List{256, 256});
  CHECK(padded(kDpPaddingMain20260823, {8, 257}, in) == List{8, 257});
  CHECK(padded(kDpPaddingPr27945, {8, 256}, in) == List{8, 256});
  in.is_extend_in_batch = false;  // a decode step is not a prefill graph's
  CHECK(padded(kDpPaddingMain20260823, {8, 0, 0, 0, 0}, in) == List{8, 0, 0, 0, 0});
  in.is_extend_in_batch = true;
  in.attn_tp_size = 4;  // the aligned count is compared
  in.max_prefill_cuda_graph_num_tokens = 255;
  CHECK(padded(kDpPaddingMain20260823, {8, 253}, in) == List{8, 256});
  in.can_run_dp_breakable_cuda_graph = false;
  in.max_prefill_cuda_graph_num_tokens = 256;
  CHECK(padded(kDpPaddingMain20260823, {8, 256}, in) == List{8, 256});
  in.can_run_dp_breakable_cuda_graph = true;
  in.max_prefill_cuda_graph_num_tokens = 0;  // nothing captured
  CHECK(padded(kDpPaddingMain20260823, {0, 0}, in) == List{0, 0});
}

TEST_CASE("padding: decode-like batches take their padded size, divided by the speculative width") {
  const DpPadding max{kMax, 0};
  const auto shape = [&](ForwardMode mode, std::int64_t width) {
    return pad_forward_batch(kDpPaddingPr27945, max, false, 9, width, {mode, 1, 4});
  };
  CHECK(shape(ForwardMode::decode, 0) == ForwardBatchShape{ForwardMode::decode, 9, 4});
  CHECK(shape(ForwardMode::idle, 0) == ForwardBatchShape{ForwardMode::idle, 9, 4});
  CHECK(shape(ForwardMode::target_verify, 4) == ForwardBatchShape{ForwardMode::target_verify, 2, 4});
  CHECK(shape(ForwardMode::draft_extend_v2, 3) == ForwardBatchShape{ForwardMode::draft_extend_v2, 3, 4});
  CHECK(shape(ForwardMode::extend, 0) == ForwardBatchShape{ForwardMode::extend, 1, 9});
  CHECK(shape(ForwardMode::mixed, 0) == ForwardBatchShape{ForwardMode::mixed, 1, 9});
  CHECK(shape(ForwardMode::prebuilt, 0) == ForwardBatchShape{ForwardMode::prebuilt, 1, 4});
}

TEST_CASE("padding: in a MAX_LEN extend step a decode batch becomes an extend of one token a request") {
  const ForwardBatchShape batch{ForwardMode::decode, 5, 5};
  CHECK(pad_forward_batch(kDpPaddingPr27945, {kMax, 0}, true, 8, 0, batch) ==
        ForwardBatchShape{ForwardMode::extend, 5, 5});
  CHECK(pad_forward_batch(kDpPaddingPr27945, {kSum, 0}, true, 8, 0, batch) ==
        ForwardBatchShape{ForwardMode::decode, 8, 5});
}

TEST_CASE("padding: the newest version fabricates a request for an empty rank of such a step") {
  const ForwardBatchShape empty{ForwardMode::idle, 0, 0};
  CHECK(pad_forward_batch(kDpPaddingMain20260823, {kMax, 0}, true, 8, 0, empty) ==
        ForwardBatchShape{ForwardMode::extend, 1, 8});
  CHECK(pad_forward_batch(kDpPaddingPr27945, {kMax, 0}, true, 8, 0, empty) ==
        ForwardBatchShape{ForwardMode::extend, 0, 0});
}
