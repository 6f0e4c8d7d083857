#include "model/step/decider.h"
#include "tests/launch.h"

using namespace a2asim;
using test::deploy;

namespace {

std::vector<std::int64_t> sizes(std::span<const RankDecision> decisions) {
  std::vector<std::int64_t> r;
  for (const RankDecision& decision : decisions) r.push_back(decision.sizing.runtime_max_tokens_per_rank);
  return r;
}

std::vector<RankBatch> decode(std::initializer_list<std::int64_t> counts) {
  std::vector<RankBatch> batches;
  for (const std::int64_t count : counts) batches.push_back({ForwardMode::decode, count});
  return batches;
}

using Sizes = std::vector<std::int64_t>;
const std::string kEagerOnly = "--disable-cuda-graph";

}  // namespace

TEST_CASE("collapsed eager decode: every rank sizes by its own rows until #27945, by the cap after it") {
  const auto batches = decode({3, 1, 2, 4});
  const auto at = [&](std::string_view generation) {
    const auto deployment = deploy(generation, std::string(test::kCollapsed) + kEagerOnly);
    return sizes(deployment->make_decider()->decide(batches));
  };
  CHECK(at("pr14668") == Sizes{3, 1, 2, 4});
  CHECK(at("pr25685") == Sizes{3, 1, 2, 4});
  CHECK(at("pr26643") == Sizes{4, 2, 2, 4});  // rounded up to even
  CHECK(at("pr27945") == Sizes{4096, 4096, 4096, 4096});
  CHECK(at("pr29461") == Sizes{4096, 4096, 4096, 4096});
  CHECK(at("pr30450") == Sizes{4, 4, 4, 4});
}

TEST_CASE("collapsed replay: local buckets differ before #30450, except where the cap is baked") {
  const auto batches = decode({9, 1, 0, 4});
  const auto at = [&](std::string_view generation) {
    const auto deployment = deploy(generation, std::string(test::kCollapsed) + "--cuda-graph-bs 1 4 12");
    const auto decider = deployment->make_decider();
    const auto decisions = decider->decide(batches);
    for (const RankDecision& decision : decisions) CHECK(decision.replay);
    return sizes(decisions);
  };
  CHECK(at("pr26643") == Sizes{12, 1, 1, 4});
  CHECK(at("pr27945") == Sizes{4096, 4096, 4096, 4096});
  CHECK(at("pr29461") == Sizes{12, 1, 1, 4});
  CHECK(at("pr30450") == Sizes{12, 12, 12, 12});
}

TEST_CASE("a rank above its graph bound runs eagerly while the others replay, if the counts are collapsed") {
  const auto deployment = deploy("pr29461", std::string(test::kCollapsed) + "--cuda-graph-bs 4");
  const auto decider = deployment->make_decider();
  const auto decisions = decider->decide(decode({5, 4, 4, 4}));
  CHECK_FALSE(decisions[0].replay);
  CHECK(decisions[1].replay);
  CHECK(sizes(decisions) == Sizes{4096, 4, 4, 4});
}

TEST_CASE("one prefilling rank vetoes replay on all of them") {
  const auto deployment = deploy("pr30450", std::string(test::kGathered));
  const auto decider = deployment->make_decider();
  auto batches = decode({2, 2, 2, 2});
  batches[1] = {ForwardMode::extend, 100};
  const auto decisions = decider->decide(batches);
  for (const RankDecision& decision : decisions) CHECK_FALSE(decision.replay);
  CHECK(sizes(decisions) == Sizes{100, 100, 100, 100});
}

TEST_CASE("an idle rank takes part, and a step without work is nobody's") {
  const auto deployment = deploy("pr30450", std::string(test::kGathered) + kEagerOnly);
  const auto decider = deployment->make_decider();
  const auto decisions = decider->decide(decode({8, 0, 0, 0}));
  CHECK(decisions[3].participates);
  CHECK(decisions[3].real_rows == 0);
  CHECK(decisions[3].sizing.runtime_max_tokens_per_rank == 8);
  for (const RankDecision& decision : decider->decide(decode({0, 0, 0, 0}))) CHECK_FALSE(decision.participates);
}

TEST_CASE("without DP attention the rows are scattered: over-sized before #25685, exact after") {
  const std::string command =
      "python3 -m sglang.launch_server --model-path M --tp 8 --moe-a2a-backend flashinfer --moe-runner-backend "
      "flashinfer_cutlass --disable-cuda-graph";
  const std::vector<RankBatch> batch = {{ForwardMode::extend, 1000}};
  const auto before = deploy("pr14668", command);
  CHECK(sizes(before->make_decider()->decide(batch)) == Sizes(8, 1000));
  const auto after = deploy("pr25685", command);
  const auto decider = after->make_decider();
  const auto decisions = decider->decide(batch);
  CHECK(sizes(decisions) == Sizes(8, 125));
  CHECK(decisions[7].rows == 125);
}

TEST_CASE("speculative verify multiplies by the draft tokens, in the graph and beside it") {
  const auto deployment =
      deploy("pr30450", std::string(test::kGathered) +
                            "--cuda-graph-bs 2 4 --speculative-algorithm EAGLE --speculative-num-steps "
                            "3 --speculative-eagle-topk 1 --speculative-num-draft-tokens 9");
  CHECK(deployment->num_tokens_per_bs == 4);  // num_steps + 1, because topk is 1
  const auto decider = deployment->make_decider();
  const std::vector<RankBatch> small(4, {ForwardMode::target_verify, 3});
  CHECK(sizes(decider->decide(small)) == Sizes(4, 16));
  const std::vector<RankBatch> large(4, {ForwardMode::target_verify, 5});
  const auto decisions = decider->decide(large);
  CHECK_FALSE(decisions[0].replay);
  CHECK(sizes(decisions) == Sizes(4, 20));
}

TEST_CASE("collapsed replay of drafts in pr27945: R is the cap that capture baked, whatever rows the bucket has") {
  const auto deployment =
      deploy("pr27945", "SGLANG_FLASHINFER_NUM_MAX_DISPATCH_TOKENS_PER_RANK=16 " + std::string(test::kCollapsed) +
                            "--cuda-graph-bs 2 8 --speculative-algorithm EAGLE --speculative-num-steps 3 "
                            "--speculative-eagle-topk 1");
  const auto decider = deployment->make_decider();
  const std::vector<RankBatch> batches = {{ForwardMode::target_verify, 7},
                                          {ForwardMode::target_verify, 2},
                                          {ForwardMode::target_verify, 1},
                                          {ForwardMode::idle, 0}};
  const auto decisions = decider->decide(batches);
  CHECK(sizes(decisions) == Sizes(4, 16));
  for (const RankDecision& decision : decisions) CHECK(decision.replay);
  CHECK(decisions[0].bucket == 8);
  CHECK(decisions[0].rows == 32);
  CHECK(decisions[0].real_rows == 28);
  CHECK(decisions[1].rows == 8);
  CHECK_FALSE(decisions[0].exceeds_cap);
  CHECK_FALSE(decisions[0].raised.has_value());
}

TEST_CASE("an idle rank replays no graph beside peers that draft, since nobody does") {
  const auto deployment =
      deploy("pr30450", std::string(test::kGathered) +
                            "--cuda-graph-bs 8 --speculative-algorithm EAGLE --speculative-num-steps 1 "
                            "--speculative-eagle-topk 1 --speculative-num-draft-tokens 2");
  const auto decider = deployment->make_decider();
  for (const GraphChoice graph : {GraphChoice::engine, GraphChoice::replay}) {
    const std::vector<RankBatch> batches = {{ForwardMode::idle, 0},
                                            {ForwardMode::draft_extend, 1},
                                            {ForwardMode::decode, 0},
                                            {ForwardMode::draft_extend, 1}};
    const auto decisions = decider->decide(batches, graph);
    for (const RankDecision& decision : decisions) CHECK_FALSE(decision.replay);
    CHECK(sizes(decisions) == Sizes{2, 2, 2, 2});
  }
}

TEST_CASE("#35758: an extend step leaves the all-to-all, and R above the cap is an assertion that names both") {
  const auto deployment = deploy(
      "pr35758", "SGLANG_FLASHINFER_NUM_MAX_DISPATCH_TOKENS_PER_RANK=8 " + std::string(test::kGathered) + kEagerOnly);
  const auto decider = deployment->make_decider();
  std::vector<RankBatch> batches(4, {ForwardMode::extend, 100});
  CHECK(decider->decide(batches)[0].sizing.branch == SizingBranch::allgather_prefill);
  const auto decisions = decider->decide(decode({9, 1, 1, 1}));
  CHECK(decisions[2].exceeds_cap);
  CHECK(decisions[2].sizing.runtime_max_tokens_per_rank == 9);
  REQUIRE(decisions[2].raised.has_value());
  CHECK(decisions[2].raised->kind == ErrorKind::assertion_error);
}

TEST_CASE("faults change what one rank knows, and nothing else") {
  const auto deployment = deploy("pr30450", std::string(test::kGathered) + kEagerOnly);
  std::vector<RankFault> faults(4);

  SUBCASE("stale counts: the list of the step before") {
    const auto decider = deployment->make_decider();
    decider->decide(decode({7, 7, 7, 7}));
    faults[2].stale_counts = true;
    CHECK(sizes(decider->decide(decode({3, 3, 3, 3}), GraphChoice::engine, faults)) == Sizes{3, 3, 7, 3});
  }
  SUBCASE("a corrupted count") {
    const auto decider = deployment->make_decider();
    faults[1].corrupt_counts = {{3, 50}};
    CHECK(sizes(decider->decide(decode({3, 3, 3, 3}), GraphChoice::engine, faults)) == Sizes{3, 50, 3, 3});
  }
  SUBCASE("an absent rank takes no part") {
    const auto decider = deployment->make_decider();
    faults[0].absent = true;
    const auto decisions = decider->decide(decode({3, 3, 3, 3}), GraphChoice::engine, faults);
    CHECK_FALSE(decisions[0].participates);
    CHECK(decisions[1].participates);
  }
  SUBCASE("a rank that skips the all-gather falls to the rows, which #30450 asserts") {
    const auto decider = deployment->make_decider();
    faults[3].skip_all_gather = true;
    const auto decisions = decider->decide(decode({3, 3, 3, 3}), GraphChoice::engine, faults);
    REQUIRE(decisions[3].raised.has_value());
    CHECK(decisions[3].raised->kind == ErrorKind::assertion_error);
    CHECK_FALSE(decisions[0].raised.has_value());
  }
}

TEST_CASE("the same step twice gives the same decisions") {
  const auto deployment = deploy("pr29461", std::string(test::kCollapsed));
  const auto decider = deployment->make_decider();
  const Sizes first = sizes(decider->decide(decode({9, 200, 0, 33})));
  CHECK(sizes(decider->decide(decode({9, 200, 0, 33}))) == first);
}

// tp 8: two replicas of two context ranks times two attention ranks. #24850 aligns counts to the context ranks, #26643
// to two chunks of each, #27945 and later to two with the zigzag split and to one otherwise; a prefill is scattered
// over both kinds of ranks, a decode over attention ranks.
TEST_CASE("context parallelism: counts are aligned to it, and only a prefill is scattered over it") {
  struct Seen {
    Sizes rows, sizes, real;
    bool operator==(const Seen&) const = default;
  };
  const auto at = [](std::string_view generation, ForwardMode mode, const std::string& flags = "") {
    const auto deployment = deploy(generation,
                                   "python3 -m sglang.launch_server --model-path M --tp 8 --dp 2 --ep-size 8 "
                                   "--enable-dp-attention --attn-cp-size 2 --moe-a2a-backend flashinfer "
                                   "--moe-runner-backend flashinfer_cutlass --disable-cuda-graph " +
                                       flags);
    CHECK(deployment->topology.attn_cp_size == 2);
    CHECK(deployment->topology.attn_tp_size == 2);
    const auto decider = deployment->make_decider();
    Seen seen;
    for (const RankDecision& decision : decider->decide(std::vector<RankBatch>{{mode, 9}, {mode, 3}})) {
      seen.rows.push_back(decision.rows);
      seen.sizes.push_back(decision.raised ? -1 : decision.sizing.runtime_max_tokens_per_rank);
      seen.real.push_back(decision.real_rows);
    }
    return seen;
  };
  // 9 and 3 become 10 and 4, or 12 and 4.
  const Seen decode_by_2{Sizes(8, 5), Sizes(8, 10), {5, 4, 0, 0, 3, 0, 0, 0}};
  const Seen decode_by_4{Sizes(8, 6), Sizes(8, 12), {6, 3, 0, 0, 3, 0, 0, 0}};
  const Seen prefill_by_2{{3, 3, 3, 3, 1, 1, 1, 1}, Sizes(8, 10), {3, 3, 3, 0, 1, 1, 1, 0}};
  const Seen prefill_by_4{prefill_by_2.rows, Sizes(8, 12), prefill_by_2.real};
  for (const char* generation : {"pr24850", "pr25685", "pr25907"}) {
    CAPTURE(generation);
    CHECK(at(generation, ForwardMode::decode) == decode_by_2);
    CHECK(at(generation, ForwardMode::extend) == prefill_by_2);
  }
  for (const char* generation : {"pr26643", "pr27945", "pr29461", "pr22394", "pr30450", "main20260823"}) {
    CAPTURE(generation);
    CHECK(at(generation, ForwardMode::decode) == decode_by_4);
    CHECK(at(generation, ForwardMode::extend) == prefill_by_4);
  }
  for (const char* generation : {"pr27945", "pr29461", "pr22394", "pr30450", "main20260823"}) {
    CAPTURE(generation);
    CHECK(at(generation, ForwardMode::decode, "--cp-strategy interleave") == decode_by_2);
    CHECK(at(generation, ForwardMode::extend, "--cp-strategy interleave") == prefill_by_2);
  }
  // #35758 divides the list by the attention ranks, and its all-gatherv counts no context ranks: it raises.
  const Seen divided{decode_by_4.rows, Sizes(8, 6), decode_by_4.real};
  CHECK(at("pr35758", ForwardMode::decode) == divided);
  CHECK(at("pr35758", ForwardMode::extend).sizes == Sizes(8, -1));
}
