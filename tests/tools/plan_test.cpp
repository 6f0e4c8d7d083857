// What a plan adds to the model: expected copies, traffic, regions, and the rules of all versions side by side.
#include "tools/plan/plan.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <set>

#include "model/alltoall/routing.h"
#include "model/engines/sglang/generation.h"
#include "tools/plan/plan_formats.h"
#include "tools/plan/plan_rules.h"

namespace a2asim {
namespace {

PlanInputs inputs_of(std::int64_t ep_size, std::int64_t tokens, std::string_view generation = "newest") {
  PlanInputs inputs;
  inputs.generation = find_generation(generation)->generation;
  inputs.model = {256, 8, 7168};
  inputs.ep_sizes = {ep_size};
  inputs.tokens = {tokens};
  return inputs;
}

PlanPoint point_of(const PlanInputs& inputs) {
  const Result<Plan> plan = make_plan(inputs);
  REQUIRE_MESSAGE(plan.has_value(), (plan ? "" : plan.error().message));
  return plan->points.at(0);
}

// Destination ranks of a token, averaged over every choice of top_k distinct experts.
double copies_by_counting(int num_experts, int top_k, int ep_size) {
  std::int64_t choices = 0, copies = 0;
  for (unsigned chosen = 0; chosen < 1U << num_experts; ++chosen) {
    if (std::popcount(chosen) != top_k) continue;
    std::set<int> ranks;
    for (int expert = 0; expert < num_experts; ++expert)
      if ((chosen >> expert & 1U) != 0) ranks.insert(target_rank(expert, num_experts, ep_size));
    ++choices;
    copies += static_cast<std::int64_t>(ranks.size());
  }
  return static_cast<double>(copies) / static_cast<double>(choices);
}

const PlanRule& rule_of(const PlanPoint& point, PlanPath path, bool own_count_only, std::string_view generation) {
  for (const PlanRule& rule : point.rules)
    if (rule.path == path && rule.own_count_only == own_count_only &&
        std::ranges::find(rule.generations, generation) != rule.generations.end())
      return rule;
  FAIL("no such rule");
  return point.rules.front();
}

}  // namespace

TEST_CASE("plan: expected copies are the average over all choices of experts") {
  for (const auto& [num_experts, top_k, ep_size] :
       {std::array{8, 2, 4}, std::array{12, 3, 4}, std::array{9, 4, 3}, std::array{8, 8, 2}, std::array{6, 5, 6}}) {
    PlanInputs inputs = inputs_of(ep_size, 16, "main20260823");
    inputs.model = {num_experts, top_k, 64};
    CHECK(point_of(inputs).expected_copies == doctest::Approx(copies_by_counting(num_experts, top_k, ep_size)));
  }
  // Uneven experts: 7 over 3 ranks are 3, 2 and 2.
  PlanInputs uneven = inputs_of(3, 16, "main20260823");
  uneven.model = {7, 2, 64};
  CHECK(point_of(uneven).expected_copies == doctest::Approx(copies_by_counting(7, 2, 3)));
}

TEST_CASE("plan: regions follow each other and end where the workspace ends") {
  for (const DispatchType type : {DispatchType::bf16, DispatchType::nvfp4, DispatchType::mxfp8}) {
    for (const std::string_view generation : {"pr14668", "pr27945", "pr35758"}) {
      if (type == DispatchType::mxfp8 && generation != "pr35758") continue;
      PlanInputs inputs = inputs_of(8, 64, generation);
      inputs.dispatch_type = type;
      const PlanPoint point = point_of(inputs);
      std::int64_t at = 0;
      for (const PlanRegion& region : point.regions) {
        CHECK(region.offset_bytes == at);
        CHECK(region.size_bytes >= 0);
        at += region.size_bytes;
      }
      CHECK(at == point.capacity.workspace_bytes_per_rank);
    }
  }
}

TEST_CASE("plan: the workspace of FlashInfer's own formula") {
  PlanInputs inputs = inputs_of(8, 64, "pr30450");
  inputs.max_num_tokens = 128;
  const PlanPoint point = point_of(inputs);
  CHECK(point.capacity.workspace_bytes_per_rank == 29448576);
  const auto payload = std::ranges::find(point.regions, "receive: hidden states", &PlanRegion::name);
  REQUIRE(payload != point.regions.end());
  CHECK(payload->offset_bytes == 22912);  // aux_data_size
  CHECK(payload->size_bytes == 8 * 128 * 2 * 7168);
}

TEST_CASE("plan: a token's bytes by type, and the reservation of #35758 for the larger one") {
  PlanInputs inputs = inputs_of(8, 64);
  for (const auto& [type, bytes] :
       {std::pair{DispatchType::bf16, 2 * 7168 + 64}, std::pair{DispatchType::mxfp8, 7168 + 224 + 64},
        std::pair{DispatchType::nvfp4, 3584 + 448 + 64}}) {
    inputs.dispatch_type = type;
    const PlanPoint point = point_of(inputs);
    CHECK(point.worst.dispatch.local_bytes == 64 * bytes);
    CHECK(point.capacity.dispatch_bytes_per_token == 2 * 7168 + 64);
    CHECK((point.regions.back().name == "reserved for a larger dispatch type") == (type != DispatchType::bf16));
  }
}

TEST_CASE("plan: the worst case sends to as many other ranks as top_k allows, and everybody may send to one") {
  const PlanPoint wide = point_of(inputs_of(32, 100));
  const std::int64_t row = 2 * 7168 + 64;
  CHECK(wide.worst.dispatch.sent_remote_bytes == 100 * 8 * row);
  CHECK(wide.worst.dispatch.received_remote_bytes == 100 * 31 * row);
  CHECK(wide.worst.combine.sent_remote_bytes == 100 * 31 * 2 * 7168);
  CHECK(wide.worst.combine.received_remote_bytes == 100 * 8 * 2 * 7168);
  const PlanPoint narrow = point_of(inputs_of(4, 100));
  CHECK(narrow.worst.dispatch.sent_remote_bytes == 100 * 3 * row);
  CHECK(narrow.expected.dispatch.sent_remote_bytes < narrow.worst.dispatch.sent_remote_bytes);
  CHECK(wide.expected.dispatch.sent_remote_bytes ==
        doctest::Approx(static_cast<double>(100 * row) * wide.expected_copies * 31 / 32));
}

// By every choice of experts, rank by rank: what the busiest rank sends to others, receives of others, keeps.
TEST_CASE("plan: traffic of uneven experts, counted rank by rank") {
  for (const auto& [num_experts, top_k, ep_size] :
       {std::array{7, 2, 3}, std::array{5, 3, 4}, std::array{6, 1, 4}, std::array{9, 4, 2}, std::array{8, 2, 4}}) {
    CAPTURE(num_experts);
    PlanInputs inputs = inputs_of(ep_size, 16, "main20260823");
    inputs.model = {num_experts, top_k, 64};
    const PlanPoint point = point_of(inputs);
    const auto ranks = static_cast<std::size_t>(ep_size);
    std::vector<double> arrive(ranks, 0);  // how likely a token goes to this rank
    double choices = 0;
    std::size_t most = 0;  // ranks of one token, but for a sender that it spares
    for (unsigned chosen = 0; chosen < 1U << num_experts; ++chosen) {
      if (std::popcount(chosen) != top_k) continue;
      ++choices;
      std::set<std::size_t> to;
      for (int expert = 0; expert < num_experts; ++expert)
        if ((chosen >> expert & 1U) != 0)
          to.insert(static_cast<std::size_t>(target_rank(expert, num_experts, ep_size)));
      for (const std::size_t rank : to) ++arrive[rank];
      most = std::max(most, std::min(to.size(), ranks - 1));
    }
    double sent = 0, received = 0, local = 0;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      double to_others = 0;
      for (std::size_t other = 0; other < ranks; ++other) to_others += other == rank ? 0 : 16 * arrive[other] / choices;
      sent = std::max(sent, to_others);
      received = std::max(received, static_cast<double>(16 * (ep_size - 1)) * arrive[rank] / choices);
      local = std::max(local, 16 * arrive[rank] / choices);
    }
    const auto is = [](std::int64_t bytes, double rows, double row_bytes) {
      CHECK(std::abs(static_cast<double>(bytes) - rows * row_bytes) < 1);
    };
    const double row = 2 * 64 + 8 * top_k, result = 2 * 64;
    is(point.expected.dispatch.sent_remote_bytes, sent, row);
    is(point.expected.dispatch.received_remote_bytes, received, row);
    is(point.expected.dispatch.local_bytes, local, row);
    is(point.expected.combine.sent_remote_bytes, received, result);
    is(point.expected.combine.received_remote_bytes, sent, result);
    is(point.expected.combine.local_bytes, local, result);
    is(point.worst.dispatch.sent_remote_bytes, 16 * static_cast<double>(most), row);
    is(point.worst.combine.received_remote_bytes, 16 * static_cast<double>(most), result);
    is(point.worst.dispatch.received_remote_bytes, 16 * (ep_size - 1), row);
  }
}

TEST_CASE("plan: the least time is the busier direction's bytes over the rate in bits") {
  PlanInputs inputs = inputs_of(16, 128);
  inputs.link_gbps = 400;
  inputs.layers = 58;
  const PlanPoint point = point_of(inputs);
  const auto microseconds = [](std::int64_t bytes) { return static_cast<double>(bytes) * 8 / 400e9 * 1e6; };
  CHECK(point.worst.dispatch_us == doctest::Approx(microseconds(point.worst.dispatch.received_remote_bytes)));
  CHECK(point.worst.combine_us == doctest::Approx(microseconds(point.worst.combine.sent_remote_bytes)));
  CHECK(point.expected.dispatch_us == doctest::Approx(microseconds(point.expected.dispatch.sent_remote_bytes)));
  inputs.combine_type = CombineType::fp8;
  CHECK(point_of(inputs).worst.combine_us == doctest::Approx(point.worst.combine_us / 2));
  inputs.layers = 29;
  CHECK(point_of(inputs).worst.dispatch_us == doctest::Approx(point.worst.dispatch_us / 2));
}

TEST_CASE("plan: slots by rule") {
  const PlanPoint point = point_of(inputs_of(16, 64, "pr27945"));
  const PlanRule& exact = rule_of(point, PlanPath::eager_decode, false, "pr30450");
  CHECK(exact.runtime_max_tokens == 64);
  CHECK(exact.wasted_slots() == 0);
  CHECK(exact.agrees);
  // The cure of #27945: the cap, 16 x 4096 slots where 16 x 64 are needed.
  const PlanRule& cap = rule_of(point, PlanPath::eager_decode, true, "pr27945");
  CHECK(cap.is_chosen);
  CHECK(cap.computed_slots == 65536);
  CHECK(cap.needed_slots == 1024);
  CHECK(cap.wasted_slots() == 64512);
  CHECK(cap.agrees);
  // Own rows waste nothing when all are equal, and disagree as soon as they are not.
  const PlanRule& own = rule_of(point, PlanPath::eager_decode, true, "pr25907");
  CHECK(own.runtime_max_tokens == 64);
  CHECK_FALSE(own.agrees);
  const PlanRule& bucket = rule_of(point, PlanPath::graph_decode, true, "pr29461");
  CHECK_FALSE(bucket.agrees);
  CHECK(rule_of(point, PlanPath::graph_decode, true, "pr30450").agrees);
  CHECK_FALSE(rule_of(point, PlanPath::prefill, false, "pr35758").runtime_max_tokens.has_value());
}

TEST_CASE("plan: with attention TP the list is divided from #35758 on, and over-sized before") {
  PlanInputs inputs = inputs_of(8, 64);
  inputs.attn_tp_size = 2;
  const PlanPoint point = point_of(inputs);
  CHECK(point.rows_per_rank == 32);
  CHECK(rule_of(point, PlanPath::eager_decode, false, "pr35758").runtime_max_tokens == 32);
  const PlanRule& before = rule_of(point, PlanPath::eager_decode, false, "pr30450");
  CHECK(before.runtime_max_tokens == 64);
  CHECK(before.wasted_slots() == 8 * 32);
  // Most versions refuse the layout at their start; their rules are asked for all eight ranks all the same.
  for (const PlanRule& rule : point.rules) {
    if (!rule.runtime_max_tokens) continue;
    CHECK(rule.computed_slots == 8 * *rule.runtime_max_tokens);
    CHECK(rule.needed_slots == 8 * 32);
  }
  CHECK(rule_of(point, PlanPath::eager_decode, true, "pr27945").runtime_max_tokens == 4096);
}

TEST_CASE("plan: every version appears once a path and launch") {
  const PlanPoint point = point_of(inputs_of(8, 32));
  for (const PlanPath path : {PlanPath::eager_decode, PlanPath::graph_decode, PlanPath::prefill})
    for (const bool own_count_only : {false, true}) {
      std::size_t count = 0;
      for (const PlanRule& rule : point.rules)
        if (rule.path == path && rule.own_count_only == own_count_only) count += rule.generations.size();
      CHECK(count == generations().size());
    }
}

TEST_CASE("plan: neighbouring versions are joined in words") {
  CHECK(generations_in_words({"pr14668", "pr24850", "pr25685"}) == "v0.5.9 to v0.5.12.post1");
  CHECK(generations_in_words({"pr14668", "pr25685", "pr35758"}) == "v0.5.9 to v0.5.11, pr25685 (main), v0.5.19");
  CHECK(generations_in_words({"pr30450", "main20260823"}) == "v0.5.16 to v0.5.18");
}

}  // namespace a2asim
