#include "model/engines/sglang/rules/gather_rules.h"

#include <doctest/doctest.h>

using namespace a2asim;

namespace {
// The collapse of sglang #27945: dense 1, DP language-model head, an all-to-all backend.
GatherInputs collapsing(std::string_view backend = "flashinfer") {
  return {.enable_dp_attention = true,
          .dp_size = 4,
          .tp_size = 4,
          .moe_dense_tp_size = 1,
          .enable_dp_lm_head = true,
          .moe_a2a_backend = backend};
}
}  // namespace

TEST_CASE("gather: the collapse up to pr22394: flashinfer always gathers from pr30450") {
  CHECK_FALSE(*require_mlp_tp_gather(kGatherRulesPr14668, collapsing()));
  CHECK_FALSE(*require_mlp_tp_gather(kGatherRulesPr27945, collapsing()));
  CHECK(*require_mlp_tp_gather(kGatherRulesPr30450, collapsing()));
  CHECK(*require_mlp_tp_gather(kGatherRulesMain20260823, collapsing()));
  CHECK_FALSE(*require_mlp_tp_gather(kGatherRulesPr30450, collapsing("deepep")));
  CHECK_FALSE(*require_mlp_tp_gather(kGatherRulesMain20260823, collapsing("deepep")));
}

TEST_CASE("gather: any of the missing flags avoids the collapse") {
  GatherInputs in = collapsing();
  in.moe_dense_tp_size.reset();
  CHECK(*require_mlp_tp_gather(kGatherRulesPr27945, in));
  in = collapsing();
  in.enable_dp_lm_head = false;
  CHECK(*require_mlp_tp_gather(kGatherRulesPr27945, in));
  CHECK(*require_mlp_tp_gather(kGatherRulesPr27945, collapsing("none")));
  in = collapsing();
  in.enable_dp_attention = false;
  CHECK_FALSE(*require_mlp_tp_gather(kGatherRulesPr27945, in));
}

TEST_CASE("gather: the last row compares with the attention tensor-parallel size, and 0 is a value") {
  GatherInputs in = collapsing("deepep");
  in.tp_size = 16;
  in.moe_dense_tp_size = 4;
  CHECK_FALSE(*require_mlp_tp_gather(kGatherRulesPr27945, in));
  in.moe_dense_tp_size = 5;
  CHECK(*require_mlp_tp_gather(kGatherRulesPr27945, in));
  in.moe_dense_tp_size = 0;
  CHECK_FALSE(*require_mlp_tp_gather(kGatherRulesPr27945, in));
}

TEST_CASE("gather: DP attention with dp_size 1 raises before any other row") {
  GatherInputs in = collapsing();
  in.dp_size = 1;
  in.elastic_expanded_world = true;
  for (const GatherRules& rules :
       {kGatherRulesPr14668, kGatherRulesPr27945, kGatherRulesPr30450, kGatherRulesMain20260823}) {
    const auto gather = require_mlp_tp_gather(rules, in);
    REQUIRE_FALSE(gather);
    CHECK(gather.error() == Error{ErrorKind::assertion_error, "dp_size must be greater than 1"});
    CHECK_FALSE(require_gathered_buffer(rules, in));
    CHECK(*require_mlp_sync(rules, in));  // DP attention is asked first and nothing raises
  }
}

TEST_CASE("gather: newest rows: an expanded elastic world, mori with its receive bound") {
  GatherInputs in = collapsing("deepep");
  in.elastic_expanded_world = true;
  CHECK(*require_mlp_tp_gather(kGatherRulesPr35758, in));
  CHECK_FALSE(*require_mlp_tp_gather(kGatherRulesPr30450, in));
  in = collapsing("mori");
  CHECK_FALSE(*require_mlp_tp_gather(kGatherRulesPr35758, in));
  in.mori_recv_bound = true;
  CHECK(*require_mlp_tp_gather(kGatherRulesPr35758, in));
  CHECK_FALSE(*require_mlp_tp_gather(kGatherRulesPr30450, in));
  in.moe_a2a_backend = "deepep";
  CHECK_FALSE(*require_mlp_tp_gather(kGatherRulesPr35758, in));
}

TEST_CASE("gather: attention gather in January asserts dense 1 or unset, later any dense size counts") {
  GatherInputs in = collapsing("none");
  in.tp_size = 8;
  in.moe_dense_tp_size = 2;
  REQUIRE_FALSE(require_attn_tp_gather_pr14668(in));
  CHECK(require_attn_tp_gather_pr14668(in).error().kind == ErrorKind::assertion_error);
  CHECK(*require_attn_tp_gather_pr27945(in));
  // The first predicate hides the assertion: Python does not ask the second.
  CHECK(*require_gathered_buffer(kGatherRulesPr14668, in));
  in.disable_attn_tp_gather = true;
  CHECK_FALSE(*require_attn_tp_gather_pr27945(in));
  in.moe_dense_tp_size.reset();
  CHECK_FALSE(*require_attn_tp_gather_pr14668(in));
  in.moe_dense_tp_size = 1;
  CHECK(*require_attn_tp_gather_pr14668(in));  // January does not know the opt-out
}

TEST_CASE("gather: attention gather needs dp < tp, or no DP attention at all") {
  CHECK_FALSE(*require_attn_tp_gather_pr27945(collapsing()));
  GatherInputs in = collapsing();
  in.tp_size = 8;
  CHECK(*require_attn_tp_gather_pr27945(in));
  in = collapsing();
  in.enable_dp_attention = false;
  CHECK(*require_attn_tp_gather_pr27945(in));
  CHECK(*require_mlp_sync(kGatherRulesPr27945, in));  // plain tensor parallelism runs the sync too
  CHECK_FALSE(*require_mlp_tp_gather(kGatherRulesPr27945, in));
  in.moe_a2a_backend = "none";
  in.moe_dense_tp_size.reset();
  CHECK_FALSE(*require_mlp_sync(kGatherRulesPr27945, in));
}

TEST_CASE(
    "gather: the deciding row is explained with its numbers, and that no condition holds where none gathers") {
  CHECK(explain(kGatherRulesPr27945, collapsing()) == "none of its conditions holds");  // check lists them
  CHECK(explain(kGatherRulesPr35758, collapsing("mori")) == "none of its conditions holds");
  CHECK(mlp_tp_gather_row(kGatherRulesPr30450, collapsing()) == GatherRow::backend_flashinfer);
  GatherInputs in = collapsing("deepep");
  in.moe_dense_tp_size = 2;
  CHECK(explain(kGatherRulesPr27945, in).starts_with("moe_dense_tp_size 2 > tp_size / dp_size = 1"));
  in.enable_dp_lm_head = false;
  CHECK(explain(kGatherRulesPr14668, in) == "no --enable-dp-lm-head");
  in.moe_dense_tp_size.reset();
  CHECK(explain(kGatherRulesPr14668, in) == "--moe-dense-tp-size is not set");
  in.dp_size = 1;
  CHECK(explain(kGatherRulesPr14668, in).find("dp_size 1") != std::string::npos);
}
