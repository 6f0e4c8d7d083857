#include "model/engines/sglang/rules/sizing.h"

#include <doctest/doctest.h>

#include <array>
#include <string>
#include <vector>

using namespace a2asim;

namespace {

using Rule = Result<SizingDecision> (*)(const RankView&);
constexpr std::array kWithDummy{sizing_pr14668, sizing_pr25685, sizing_pr25907, sizing_pr27945, sizing_pr29461};
constexpr std::array kWithoutDummy{sizing_pr22394, sizing_pr30450, sizing_pr35758};

struct View : RankView {
  std::vector<std::int64_t> list;
  explicit View(std::vector<std::int64_t> tokens, std::int64_t local_rows = 1) : list(std::move(tokens)) {
    dp_global = list;
    fill(local_rows);
  }
  explicit View(std::int64_t local_rows) { fill(local_rows); }

 private:
  void fill(std::int64_t local_rows) {
    rows = local_rows;
    ep_size = 4;
    max_num_tokens = 4096;
  }
};

std::int64_t tokens(const Result<SizingDecision>& decision) {
  REQUIRE(decision.has_value());
  return decision->runtime_max_tokens_per_rank;
}

}  // namespace

TEST_CASE("sizing: every rule takes the maximum of a list with several entries") {
  const View view({3, 9, 0, 5});
  for (const Rule rule : {sizing_pr14668, sizing_pr25685, sizing_pr25907, sizing_pr27945, sizing_pr29461,
                          sizing_pr22394, sizing_pr30450}) {
    CHECK(tokens(rule(view)) == 9);
    CHECK(rule(view)->branch == SizingBranch::max_of_list);
  }
  CHECK(sizing_pr35758(view)->branch == SizingBranch::max_of_list_scatter);
}

TEST_CASE("sizing: without a list the rows count, the dummy row included") {
  for (const Rule rule : kWithDummy) {
    View view(7);
    view.require_mlp_tp_gather = GatherPredicate::yes;  // keeps pr27945 and pr29461 from the cap
    CHECK(tokens(rule(view)) == 7);
    view.rows = 0;
    CHECK(tokens(rule(view)) == 1);
    CHECK(rule(view)->has_dummy_token);
    CHECK(rule(view)->dispatched_rows == 1);
  }
  for (const Rule rule : kWithoutDummy) {
    View view(0);
    view.require_mlp_tp_gather = GatherPredicate::yes;
    CHECK(tokens(rule(view)) == 0);
    CHECK_FALSE(rule(view)->has_dummy_token);
    CHECK(rule(view)->dispatched_rows == 0);
  }
}

TEST_CASE("sizing: R is raised to 1 for a dummy row from pr25907 on, and no longer from pr22394 on") {
  const View idle({0, 0, 0, 0}, 0);
  CHECK(tokens(sizing_pr14668(idle)) == 0);
  CHECK(tokens(sizing_pr25685(idle)) == 0);
  CHECK(tokens(sizing_pr25907(idle)) == 1);
  CHECK(tokens(sizing_pr27945(idle)) == 1);
  CHECK(tokens(sizing_pr29461(idle)) == 1);
  CHECK(tokens(sizing_pr22394(idle)) == 0);
  CHECK(tokens(sizing_pr30450(idle)) == 0);
  CHECK(tokens(sizing_pr35758(idle)) == 0);
  const View busy({0, 0, 0, 0}, 1);  // only the dummy row raises it
  CHECK(tokens(sizing_pr25907(busy)) == 0);
}

TEST_CASE("sizing: an empty list raises until pr24850, a one-entry list counts until then") {
  const auto empty = sizing_pr14668(View(std::vector<std::int64_t>{}, 5));
  REQUIRE_FALSE(empty.has_value());
  CHECK(empty.error() == Error{ErrorKind::value_error, "max() arg is an empty sequence"});
  CHECK(tokens(sizing_pr25685(View(std::vector<std::int64_t>{}, 5))) == 5);
  CHECK(tokens(sizing_pr14668(View({40}, 5))) == 40);
  CHECK(tokens(sizing_pr25685(View({40}, 5))) == 5);
  CHECK(tokens(sizing_pr25907(View({40}, 5))) == 5);
}

TEST_CASE("sizing: #27945's middle branch takes the cap where nobody gathers: #29461 skips it while capturing") {
  View view({40}, 5);
  view.max_num_tokens = 777;
  for (const Rule rule : {sizing_pr27945, sizing_pr29461, sizing_pr22394}) {
    CHECK(tokens(rule(view)) == 777);
    CHECK(rule(view)->branch == SizingBranch::static_cap);
    View gathers = view;
    gathers.require_mlp_tp_gather = GatherPredicate::yes;
    CHECK(tokens(rule(gathers)) == 5);
    View alone = view;
    alone.ep_size = 1;
    CHECK(tokens(rule(alone)) == 5);
  }
  view.capture = true;
  CHECK(tokens(sizing_pr27945(view)) == 777);
  CHECK(tokens(sizing_pr29461(view)) == 5);
  CHECK(tokens(sizing_pr22394(view)) == 5);
  view.capture = false;
  view.rows = 5000;  // more local rows than the cap: nothing rejects it before pr30450
  CHECK(tokens(sizing_pr29461(view)) == 777);
}

TEST_CASE("sizing: pr27945 to pr22394 raise where the gather predicate raises, and only where they ask it") {
  View view({40}, 5);
  view.require_mlp_tp_gather = GatherPredicate::raises;
  for (const Rule rule : {sizing_pr27945, sizing_pr29461, sizing_pr22394}) {
    const auto answer = rule(view);
    REQUIRE_FALSE(answer.has_value());
    CHECK(answer.error() == Error{ErrorKind::assertion_error, "dp_size must be greater than 1"});
    View listed({1, 2});
    listed.require_mlp_tp_gather = GatherPredicate::raises;
    CHECK(tokens(rule(listed)) == 2);
    View alone = view;
    alone.ep_size = 1;
    CHECK(tokens(rule(alone)) == 5);
  }
  view.capture = true;
  CHECK_FALSE(sizing_pr27945(view).has_value());
  CHECK(tokens(sizing_pr29461(view)) == 5);
}

TEST_CASE("sizing: local rows above R are rejected from pr30450 on, and by nobody before") {
  const View view({3, 2}, 8);
  CHECK(tokens(sizing_pr14668(view)) == 3);
  CHECK(tokens(sizing_pr22394(view)) == 3);
  for (const Rule rule : {sizing_pr30450, sizing_pr35758}) {
    const auto answer = rule(view);
    REQUIRE_FALSE(answer.has_value());
    CHECK(answer.error() ==
          Error{ErrorKind::assertion_error,
                "runtime_max_tokens_per_rank=3 < x.shape[0]=8: MoeAlltoAll recv buffer would overflow."});
  }
}

TEST_CASE("sizing: from pr30450 on DP attention must not fall to the rows") {
  for (const Rule rule : {sizing_pr30450, sizing_pr35758}) {
    View view({40}, 5);
    view.enable_dp_attention = true;
    const auto answer = rule(view);
    REQUIRE_FALSE(answer.has_value());
    CHECK(answer.error().kind == ErrorKind::assertion_error);
    CHECK(answer.error().message ==
          "FlashInfer A2A: DP attention reached the x.shape[0] fallback with ep_size=4 > 1 (dp_global=[40]); "
          "runtime_max_tokens_per_rank would not be rank-invariant.");
    view.dp_global.reset();
    CHECK(rule(view).error().message.find("dp_global=None") != std::string::npos);
    view.ep_size = 1;
    CHECK(tokens(rule(view)) == 5);
    view.ep_size = 4;
    view.enable_dp_attention = false;
    CHECK(tokens(rule(view)) == 5);
  }
}

TEST_CASE("sizing: pr35758 divides by attn_tp_size, rounding up, and asserts against the cap before the rows") {
  View view({9, 8}, 3);
  view.attn_tp_size = 4;
  CHECK(tokens(sizing_pr35758(view)) == 3);
  CHECK(tokens(sizing_pr30450(view)) == 9);
  view.max_num_tokens = 2;
  view.rows = 100;
  const auto answer = sizing_pr35758(view);
  REQUIRE_FALSE(answer.has_value());
  CHECK(answer.error().kind == ErrorKind::assertion_error);
  CHECK(answer.error().message.find("runtime_max_tokens_per_rank=3 > max_num_tokens=2") != std::string::npos);
  CHECK(tokens(sizing_pr30450(View({5000, 1}, 1))) == 5000);  // earlier: left to FlashInfer
}

TEST_CASE("sizing: pr35758 sends extend steps through all-gatherv") {
  View view({255, 1024}, 64);
  view.ep_size = 8;
  view.ep_rank = 1;
  view.attn_tp_size = 4;
  view.extend = true;
  view.max_num_tokens = 1;  // this path knows no cap
  const auto answer = sizing_pr35758(view);
  REQUIRE(answer.has_value());
  CHECK(answer->branch == SizingBranch::allgather_prefill);
  CHECK(answer->runtime_max_tokens_per_rank == 0);
  CHECK(allgather_source_sizes(view) == std::vector<std::int64_t>{64, 64, 64, 63, 256, 256, 256, 256});

  View wrong_rows = view;
  wrong_rows.ep_rank = 3;  // its share is 63
  REQUIRE_FALSE(sizing_pr35758(wrong_rows).has_value());
  CHECK(sizing_pr35758(wrong_rows).error() ==
        Error{ErrorKind::runtime_error,
              "FlashInfer WideEP prefill AG local source geometry mismatch: source_sizes[3]=63 != "
              "hidden_states.shape[0]=64."});
  View wrong_count = view;
  wrong_count.ep_size = 4;
  REQUIRE_FALSE(sizing_pr35758(wrong_count).has_value());
  CHECK(sizing_pr35758(wrong_count).error() ==
        Error{ErrorKind::runtime_error,
              "FlashInfer WideEP prefill AG source geometry does not match EP: len(source_sizes)=8, ep_size=4."});
  View no_list = view;
  no_list.dp_global.reset();
  CHECK(sizing_pr35758(no_list).has_value());
  CHECK(allgather_source_sizes(no_list) == std::vector<std::int64_t>(8, 64));
  CHECK(tokens(sizing_pr30450(View({255, 1024}, 64))) == 1024);  // earlier rules do not look at extend
}

TEST_CASE("sizing: the padding ids of each generation") {
  using enum SanitizeRule;
  const auto id = [](SanitizeRule rule, std::string_view runner) { return invalid_token_expert_id(rule, runner, 256); };
  CHECK_FALSE(id(none, "flashinfer_cutlass").has_value());
  CHECK(id(minus_one, "flashinfer_cutlass") == -1);
  CHECK(id(num_experts, "flashinfer_trtllm_routed") == 256);
  CHECK(id(minus_one_if_routed, "flashinfer_trtllm_routed") == -1);
  CHECK(id(minus_one_if_routed, "flashinfer_trtllm") == 256);
  CHECK(id(minus_one_if_native, "flashinfer_trtllm") == -1);
  CHECK(id(minus_one_if_native, "deep_gemm") == -1);
  CHECK(id(minus_one_if_native, "flashinfer_cutedsl") == 256);
}
