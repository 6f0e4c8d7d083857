// Which version has which rule, where the golden tables have no row of the version: as its own text has it.
#include <doctest/doctest.h>

#include <array>

#include "model/engines/sglang/generation.h"

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

TEST_CASE("ep_size is written before the flashinfer backend is checked from pr30450 on") {
  CHECK_FALSE(version("pr29461").start.ep_size_comes_first);
  CHECK_FALSE(version("pr22394").start.ep_size_comes_first);
  CHECK(version("pr30450").start.ep_size_comes_first);
}

}  // namespace
}  // namespace a2asim
