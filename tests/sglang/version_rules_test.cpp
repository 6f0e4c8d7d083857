// Which version has which rule, where the golden tables have no row of the version: as its own text has it.
#include <doctest/doctest.h>

#include <array>
#include <map>

#include "model/engines/sglang/generation.h"
#include "tests/launch.h"

namespace a2asim {
namespace {

const Generation& version(std::string_view name) { return *find_generation(name)->generation; }

TEST_CASE("up to pr25907 a dense size other than 1 raises, from pr26643 on it does not") {
  const GatherInputs in{.enable_dp_attention = true, .dp_size = 2, .tp_size = 8, .moe_dense_tp_size = 2};
  for (const char* name : {"pr24850", "pr25685", "pr25907"})
    CHECK_FALSE(version(name).gather.require_attn_tp_gather(in).has_value());
  CHECK(version("pr26643").gather.require_attn_tp_gather(in).has_value());
}

TEST_CASE("the receive bound of mori gathers from pr35758 on") {
  const GatherInputs in{.enable_dp_attention = true,
                        .dp_size = 2,
                        .tp_size = 8,
                        .moe_dense_tp_size = 2,
                        .enable_dp_lm_head = true,
                        .moe_a2a_backend = "mori",
                        .mori_recv_bound = true};
  CHECK_FALSE(*require_mlp_tp_gather(version("main20260823").gather, in));
  CHECK(*require_mlp_tp_gather(version("pr35758").gather, in));
}

TEST_CASE("votes for a prefill graph begin with pr27945, an idle batch for one skipping rank ends with pr26643") {
  for (const char* name : {"pr24850", "pr25685", "pr25907", "pr26643"})
    CHECK_FALSE(static_cast<bool>(version(name).sync.prefill_graph_vote));
  CHECK(static_cast<bool>(version("pr27945").sync.prefill_graph_vote));
  CHECK(version("pr25907").sync.needs_idle_batch_on_skip_alone);
  CHECK_FALSE(version("pr26643").sync.needs_idle_batch_on_skip_alone);
}

TEST_CASE("up to pr26643 the bucket is looked up by a fraction") {
  const std::array<std::int64_t, 3> buckets = {1, 2, 3};
  const std::array<std::int64_t, 2> tokens = {9, 0};
  ReplayInputs in;
  in.capture_bs = buckets;
  in.require_mlp_tp_gather = true;
  in.global_num_tokens = tokens;
  in.num_tokens_per_bs = 4;
  in.divides_by_width = true;
  for (const char* name : {"pr24850", "pr25907", "pr26643"}) CHECK(version(name).graphs.replay_bucket(in).bs == 3);
  CHECK(version("pr27945").graphs.replay_bucket(in).bs == 2);
}

// resolve_max_num_reqs: from #24850 to #26643 an explicit --max-running-requests // dp is clamped to what the tokens
// hold, at most 4096; January's request pool, which cuts the capture sizes, is not divided by dp.
TEST_CASE("the request bound of every version") {
  const std::map<std::string_view, RequestBoundRules> bounds = {
      {"pr14668", {.clamps_explicit_limit = false, .pool_is_not_divided = true}},
      {"pr24850", {.clamps_explicit_limit = true, .pool_is_not_divided = false}},
      {"pr25685", {.clamps_explicit_limit = true, .pool_is_not_divided = false}},
      {"pr25907", {.clamps_explicit_limit = true, .pool_is_not_divided = false}},
      {"pr26643", {.clamps_explicit_limit = true, .pool_is_not_divided = false}},
      {"pr27945", {}},
      {"pr29461", {}},
      {"pr22394", {}},
      {"pr30450", {}},
      {"main20260823", {}},
      {"pr35758", {}},
      {"v0.5.20", {}}};
  CHECK(bounds.size() == generations().size());
  for (const Generation& own : generations()) {
    CAPTURE(own.name);
    REQUIRE(bounds.contains(own.name));
    const RequestBoundRules& wanted = bounds.at(own.name);
    CHECK(own.requests.clamps_explicit_limit == wanted.clamps_explicit_limit);
    CHECK(own.requests.pool_is_not_divided == wanted.pool_is_not_divided);
    const auto bound = [&](const std::string& flags) {
      return test::deploy(own.name, std::string(test::kGathered) + "--disable-cuda-graph " + flags)
          ->requests_per_dp_rank;
    };
    CHECK(bound("--max-running-requests 16384").value == 4096);
    CHECK(bound("--max-running-requests 16388").value == (wanted.clamps_explicit_limit ? 4096 : 4097));
    CHECK(bound("--max-running-requests 8003").value == 2000);
    CHECK(bound("--max-running-requests 8003").is_explicit);
    CHECK(bound("").value == 2048);
    CHECK_FALSE(bound("").is_explicit);
    CHECK(bound("--max-total-tokens 1001").value == 500);
    CHECK(bound("--max-total-tokens 1001 --max-running-requests 2004").value == 500);
    CHECK(bound("--max-total-tokens 1001 --max-running-requests 1996").value == 499);
    const auto captured =
        test::deploy(own.name, std::string(test::kGathered) + "--max-running-requests 64 --cuda-graph-max-bs 64")
            ->capture_bs;
    REQUIRE_FALSE(captured.empty());
    CHECK(captured.back() == (wanted.pool_is_not_divided ? 64 : 16));
  }
}

TEST_CASE("ep_size is written before the flashinfer backend is checked from pr30450 on") {
  CHECK_FALSE(version("pr29461").start.ep_size_comes_first);
  CHECK_FALSE(version("pr22394").start.ep_size_comes_first);
  CHECK(version("pr30450").start.ep_size_comes_first);
}

}  // namespace
}  // namespace a2asim
