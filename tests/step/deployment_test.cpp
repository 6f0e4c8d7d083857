// A deployment is a value: a copy decides by itself, whatever becomes of the first.
#include "model/step/deployment.h"

#include <doctest/doctest.h>

#include <memory>
#include <vector>

#include "tests/launch.h"

namespace a2asim {
namespace {

std::vector<std::int64_t> sizes_of(std::span<const RankDecision> decisions) {
  std::vector<std::int64_t> out;
  for (const RankDecision& decision : decisions) out.push_back(decision.sizing.runtime_max_tokens_per_rank);
  return out;
}

}  // namespace

TEST_CASE("a copied deployment outlives the first and decides as it did") {
  const std::vector<RankBatch> batches = {
      {ForwardMode::decode, 9}, {ForwardMode::decode, 1}, {ForwardMode::idle, 0}, {ForwardMode::decode, 2}};
  std::unique_ptr<Deployment> first = test::deploy("pr26643", test::kCollapsed);
  const auto before = sizes_of(first->make_decider()->decide(batches, GraphChoice::eager));
  CHECK(before == std::vector<std::int64_t>{10, 2, 1, 2});  // this version rounds eager counts up to even ones
  const Deployment copy = *first;
  first.reset();
  const auto decider = copy.make_decider();
  CHECK(sizes_of(decider->decide(batches, GraphChoice::eager)) == before);
  CHECK(copy.part != nullptr);
}

TEST_CASE("what is changed in a copied deployment is what its decider sees") {
  const std::vector<RankBatch> batches(4, {ForwardMode::decode, 100});
  const std::unique_ptr<Deployment> first = test::deploy("pr30450", test::kGathered);
  Deployment narrow = *first;
  narrow.max_num_tokens = 64;
  CHECK(narrow.make_decider()->decide(batches, GraphChoice::eager)[0].exceeds_cap);
  CHECK_FALSE(first->make_decider()->decide(batches, GraphChoice::eager)[0].exceeds_cap);
  Deployment ruled = *first;
  ruled.rule = [](const RankView& view) -> Result<SizingDecision> {
    return SizingDecision{view.rows + view.ep_rank, view.rows, false, SizingBranch::external};
  };
  const auto decider = ruled.make_decider();
  CHECK(sizes_of(decider->decide(batches, GraphChoice::eager)) == std::vector<std::int64_t>{100, 101, 102, 103});
}

TEST_CASE("a deployment says in neutral numbers what the engine made of its arguments") {
  const auto deployment = test::deploy("pr22394", std::string(test::kGathered) +
                                                      "--ep-num-redundant-experts 32 "
                                                      "--disable-cuda-graph --enable-mixed-chunk");
  CHECK(deployment->backend == "flashinfer");
  CHECK(deployment->num_experts == 288);
  CHECK(deployment->invalid_expert_id == 288);
  CHECK(deployment->graphs_are_disabled);
  CHECK(deployment->mixes_prefill_and_decode);
  REQUIRE(deployment->flashinfer != nullptr);
  CHECK(deployment->flashinfer->tag == "v0.6.12");
  CHECK_FALSE(test::deploy("pr14668", test::kGathered)->invalid_expert_id.has_value());
}

}  // namespace a2asim
