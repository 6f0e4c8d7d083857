#include "model/engines/sglang/rules/graph_buckets.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace a2asim;

namespace {
using List = std::vector<std::int64_t>;

struct Step {
  List capture_bs = {1, 2, 4, 8};
  List tokens;
  List requests = {};
  std::int64_t width = 1;
  bool divides = false;
};

ReplayDecision gathered(ReplayRule rule, const Step& step) {
  return rule({.capture_bs = step.capture_bs,
               .require_mlp_tp_gather = true,
               .global_num_tokens = step.tokens,
               .original_global_num_tokens = step.requests.empty() ? step.tokens : step.requests,
               .batch_size = 1,
               .num_tokens_per_bs = step.width,
               .divides_by_width = step.divides,
               .require_mlp_sync = true,
               .can_run_dp_cuda_graph = true});
}
}  // namespace

TEST_CASE("buckets: January does not append the limit, later versions do") {
  CHECK(*decode_capture_sizes_pr14668(10, false, false) == List{1, 2, 4, 8});
  CHECK(*decode_capture_sizes_pr27945(10, false, false) == List{1, 2, 4, 8, 10});
  CHECK(*decode_capture_sizes_pr27945(8, false, false) == List{1, 2, 4, 8});
  CHECK(decode_capture_sizes_pr14668(0, false, false)->empty());
}

TEST_CASE("buckets: steps grow with the size, finer with speculation, one without padding") {
  const auto plain = *decode_capture_sizes_pr27945(600, false, false);
  for (const std::int64_t size : {12, 16, 24, 256, 272, 496, 512, 544, 600})
    CHECK(std::ranges::count(plain, size) == 1);
  for (const std::int64_t size : {3, 20, 264, 280, 511, 528}) CHECK(std::ranges::count(plain, size) == 0);
  const auto speculative = *decode_capture_sizes_pr27945(600, true, false);
  for (const std::int64_t size : {3, 8, 10, 32, 40, 44, 64, 72, 256, 272, 528, 592})
    CHECK(std::ranges::count(speculative, size) == 1);
  for (const std::int64_t size : {9, 34, 68, 264, 520}) CHECK(std::ranges::count(speculative, size) == 0);
  CHECK(*decode_capture_sizes_pr14668(5, true, true) == List{1, 2, 3, 4, 5});
}

TEST_CASE("buckets: prefill sizes: January has no 576") {
  const auto january = *prefill_capture_sizes_pr14668(600), june = *prefill_capture_sizes_pr27945(5000);
  CHECK(january.back() == 512);
  for (const std::int64_t size : {4, 32, 48, 256, 288, 512, 576, 1024, 1280, 4096, 4608})
    CHECK(std::ranges::count(june, size) == 1);
  for (const std::int64_t size : {36, 272, 544, 1088, 4352, 5000}) CHECK(std::ranges::count(june, size) == 0);
  CHECK(prefill_capture_sizes_pr27945(3)->empty());
}

TEST_CASE("buckets: an absurd limit is refused instead of filling the memory") {
  REQUIRE_FALSE(decode_capture_sizes_pr27945(std::int64_t{1} << 62, false, true));
  CHECK(decode_capture_sizes_pr27945(std::int64_t{1} << 62, false, true).error().kind == ErrorKind::bad_input);
  CHECK_FALSE(prefill_capture_sizes_pr14668(std::int64_t{1} << 40));
}

TEST_CASE("capture: sizes above the request pool are dropped and the pool is added, rounded up after January") {
  const List sizes = {1, 2, 4, 8, 16, 24, 32, 40};
  CaptureFilter in{.decode_bs = sizes, .req_to_token_pool_size = 31};
  CHECK(*batch_sizes_to_capture_pr14668(in) == List{1, 2, 4, 8, 16, 24, 31});
  CHECK(*batch_sizes_to_capture_pr27945(in) == List{1, 2, 4, 8, 16, 24, 31});
  in.require_gathered_buffer = true;
  in.attn_tp_size = 8;
  CHECK(*batch_sizes_to_capture_pr14668(in) == List{8, 16, 24});
  CHECK(*batch_sizes_to_capture_pr27945(in) == List{8, 16, 24, 32});
}

TEST_CASE("capture: the pool is added only when the largest size exceeds it after rounding") {
  const List sizes = {1, 2, 4, 5};
  const CaptureFilter in{.decode_bs = sizes,
                         .req_to_token_pool_size = 2,
                         .require_gathered_buffer = true,
                         .attn_tp_size = 8,
                         .enable_two_batch_overlap = true};
  const auto none = batch_sizes_to_capture_pr27945(in);
  REQUIRE_FALSE(none);
  CHECK(none.error() == Error{ErrorKind::assertion_error, "capture_bs=[]"});
}

TEST_CASE("capture: tokens must be divisible: two-batch overlap divides the batch size itself") {
  const List sizes = {1, 2, 3, 4};
  CaptureFilter in{.decode_bs = sizes,
                   .req_to_token_pool_size = 100,
                   .num_tokens_per_bs = 2,
                   .require_gathered_buffer = true,
                   .attn_tp_size = 2};
  CHECK(*batch_sizes_to_capture_pr27945(in) == sizes);
  in.enable_two_batch_overlap = true;
  CHECK(*batch_sizes_to_capture_pr27945(in) == List{4});
  in.enable_two_batch_overlap = false;
  in.attn_cp_size = 2;  // contained in attn_tp_size already
  CHECK(*batch_sizes_to_capture_pr27945(in) == sizes);
  in.attn_cp_size = 3;
  CHECK(*batch_sizes_to_capture_pr27945(in) == List{3});
  in.require_gathered_buffer = false;
  CHECK(*batch_sizes_to_capture_pr27945(in) == List{3});
}

TEST_CASE("capture: nothing left, or nothing given, is the error that a log shows") {
  const List one = {1};
  CHECK(batch_sizes_to_capture_pr14668(
            {.decode_bs = one, .req_to_token_pool_size = 64, .require_gathered_buffer = true, .attn_tp_size = 4})
            .error()
            .message == "capture_bs=[]");
  CHECK(batch_sizes_to_capture_pr14668({}).error().kind == ErrorKind::value_error);
}

TEST_CASE("capture: what the model sees of the list while capturing") {
  for (const CaptureTokenListRule rule : {capture_token_list_pr14668, capture_token_list_pr26643}) {
    const bool passes = rule == capture_token_list_pr26643;
    const CaptureTokenList gather = rule(true, false, 4, 8, 3);
    CHECK(gather.num_tokens == 24);
    CHECK(gather.entries == 4);
    CHECK(gather.global_dp_buffer_len_tokens() == 96);
    CHECK(gather.dispatch_sees_it == passes);
    CHECK(rule(false, true, 4, 8, 3).entries == 1);
    CHECK(rule(false, true, 4, 8, 3).dispatch_sees_it == passes);
    CHECK(rule(false, false, 4, 8, 3).entries == 0);
    CHECK_FALSE(rule(false, false, 4, 8, 3).dispatch_sees_it);
  }
}

TEST_CASE("replay: with the gather predicate every rank takes the bucket of the largest: else its own") {
  for (const ReplayRule rule : {replay_bucket_pr14668, replay_bucket_pr27945, replay_bucket_main20260823}) {
    const ReplayDecision common = gathered(rule, {.tokens = {1, 5, 0}});
    CHECK(common.bs == 8);
    CHECK(common.can_run);
    const List capture_bs = {1, 2, 4, 8};
    ReplayInputs own{.capture_bs = capture_bs, .batch_size = 3};
    CHECK(rule(own).bs == 4);
    own.batch_size = 0;  // an idle rank takes the smallest
    CHECK(rule(own).bs == 1);
    CHECK(rule(own).can_run);
    own.require_mlp_sync = true;  // the vote counts where there is a sync
    CHECK_FALSE(rule(own).can_run);
    CHECK(rule(own).bs == 1);
  }
}

TEST_CASE("replay: January looks for max / width as a fraction while can_run rounds down") {
  const Step nine{.tokens = {9, 4}, .requests = {2, 1}, .width = 4, .divides = true};
  CHECK(gathered(replay_bucket_pr14668, nine).cuda_graph_bs == 2);
  CHECK(gathered(replay_bucket_pr14668, nine).bs == 4);
  CHECK(gathered(replay_bucket_pr27945, nine).bs == 2);
  // At the largest bucket the test passes and the search fails.
  const Step edge{.tokens = {33}, .requests = {8}, .width = 4, .divides = true};
  CHECK(gathered(replay_bucket_pr14668, edge).can_run);
  CHECK_FALSE(gathered(replay_bucket_pr14668, edge).bs);
  CHECK(gathered(replay_bucket_pr27945, edge).bs == 8);
}

TEST_CASE("replay: NGRAM is not divided by the width until the newest version counts requests") {
  CHECK_FALSE(divides_by_width("NGRAM"));
  CHECK(divides_by_width("EAGLE"));
  CHECK(divides_by_width("STANDALONE"));
  const Step ngram{.tokens = {16}, .requests = {2}, .width = 8, .divides = divides_by_width("NGRAM")};
  CHECK_FALSE(gathered(replay_bucket_pr14668, ngram).can_run);
  CHECK_FALSE(gathered(replay_bucket_pr27945, ngram).can_run);
  CHECK(gathered(replay_bucket_main20260823, ngram).bs == 2);
}

TEST_CASE("replay: above the largest bucket nothing replays, and each version says so in its own words") {
  const Step big{.tokens = {26, 1}};
  const List capture_bs = {1, 2, 4, 8};
  const ReplayInputs in{.capture_bs = capture_bs};
  const ReplayDecision decision = gathered(replay_bucket_pr27945, big);
  CHECK_FALSE(decision.can_run);
  CHECK_FALSE(decision.bs);
  CHECK(replay_above_largest_pr14668(in, decision) == Error{ErrorKind::index_error, "list index out of range"});
  CHECK(replay_above_largest_pr27945(in, decision).message ==
        "size 26 exceeds max captured bucket 8; can_run should have rejected this batch");
  CHECK(replay_above_largest_pr30450(in, decision).message ==
        "size 26 exceeds max captured bucket 8; can_run_graph should have rejected this batch");
}

TEST_CASE("replay: after a skipped all-gather there is no list and the test itself raises") {
  const List capture_bs = {1, 2};
  const ReplayInputs in{.capture_bs = capture_bs, .require_mlp_tp_gather = true};
  CHECK(replay_bucket_pr14668(in).raised == ErrorKind::type_error);
  CHECK(replay_bucket_pr27945(in).raised == ErrorKind::type_error);
  CHECK(replay_bucket_main20260823(in).raised == ErrorKind::runtime_error);
}
