// What the simulated all-to-all refuses, in one line each; the fields of what it reports about ids and sizes; and which
// steps a witness of check becomes.
#include <doctest/doctest.h>

#include "sim/scenario/witness_steps.h"
#include "tests/sim/sim_world.h"

namespace a2asim {
namespace {

using test::config_of;
using test::World;

template <class T>
std::string message_of(const Result<T>& result) {
  return result ? "" : result.error().message;
}

TEST_CASE("sim: calls that cannot be are refused, each in a line with its numbers") {
  World world({config_of(2, 8), config_of(2, 8)});
  world.draw({2, 1});
  for (const int rank : {-1, 2})
    CHECK(message_of(world.sim->read_slice(rank)) ==
          "read_slice: there is no rank " + std::to_string(rank) + "; give 0..1");
  CHECK(world.sim->read_slice(1).has_value());
  const auto inputs = world.inputs({2, 2});
  const std::vector<GraphId> one(1, kEager), two(2, kEager);
  CHECK(message_of(world.sim->replay(one, inputs, world.outputs)) ==
        "replay: 1 graphs and 2 inputs for 2 ranks; give one each a rank");
  CHECK(message_of(world.sim->replay(two, std::span(inputs).first(1), world.outputs)) ==
        "replay: 2 graphs and 1 inputs for 2 ranks; give one each a rank");
  REQUIRE(world.sim->dispatch(inputs).has_value());
  CHECK(message_of(world.sim->combine(std::vector<std::int64_t>{2}, world.outputs)) ==
        "combine: 1 sizes for 2 ranks; give one a rank");
  const std::int64_t rows = world.sim->AllToAll::received(0)->num_rows();
  REQUIRE(rows > 0);
  std::vector<std::byte> results(static_cast<std::size_t>(rows * world.configs[0].combine_bytes_per_token()));
  CHECK(world.sim->give_results(0, results).has_value());
  CHECK(message_of(world.sim->give_results(0, std::span(results).first(results.size() - 1))) ==
        "give_results: rank 0 has fewer results than rows");
}

TEST_CASE("sim: payloads that sanitize and experts cannot read") {
  AllToAllConfig no_ids = config_of(1, 4);
  no_ids.expert_id_payload = -1;
  World plain({no_ids});
  plain.draw({2});
  REQUIRE(plain.sim->dispatch(plain.inputs({2})).has_value());
  CHECK(message_of(plain.sim->sanitize(-1)) ==
        "sanitize: rank 0 has no payload of int32 expert ids; set expert_id_payload");
}

TEST_CASE("sim: ids of no expert, with their token, the id and the number of experts") {
  World world({config_of(2, 8), config_of(2, 8)});
  world.draw({3, 1}, 0);
  world.batches[0].expert_ids() = {4, 0, -1};  // 4 experts: 4 leaves the tables, -1 truncates to rank 0
  REQUIRE(world.round({3, 3}).has_value());
  std::vector<Finding> stray;
  for (const Finding& found : world.sim->findings())
    if (found.kind == FindingKind::expert_id_out_of_range && found.operation == Operation::dispatch)
      stray.push_back(found);
  REQUIRE(stray.size() == 2);
  CHECK(stray[0].severity == Severity::error);
  CHECK(stray[0].token == 0);
  CHECK(stray[0].value == 4);
  CHECK(stray[1].severity == Severity::warning);
  CHECK(stray[1].token == 2);
  CHECK(stray[1].value == -1);
  for (const Finding& found : stray) {
    CHECK(found.rank == 0);
    CHECK(found.limit == 4);
  }
}

// Combine's region begins behind dispatch's rows; its own R may be another, as long as the slice holds it.
TEST_CASE("sim: combine takes an R whose rows fit behind those of dispatch, and no larger one") {
  const AllToAllConfig config = config_of(2, 8);
  const std::int64_t room = config.workspace_bytes() - config.regions(2).combine_region();
  const std::int64_t most = room / config.combine_bytes_per_token() / 2;
  for (const auto& [size, fits] :
       {std::pair<std::int64_t, bool>{most, true}, {most + 1, false}, {0, true}, {-1, false}}) {
    CAPTURE(size);
    World world({config, config});
    world.draw({2, 1});
    REQUIRE(world.sim->dispatch(world.inputs({2, 2})).has_value());
    REQUIRE(world.sim->experts(world.payloads).has_value());
    const auto ran = world.sim->combine(std::vector<std::int64_t>(2, size), world.outputs);
    CHECK(ran.has_value() == fits);
    const Finding* found = test::find(world, FindingKind::over_capacity);
    CHECK((found == nullptr) == fits);
    if (found == nullptr) continue;
    CHECK(ran.error().message == "combine: no rank takes part (all absent, masked or refusing)");
    CHECK(found->operation == Operation::combine);
    CHECK(found->rank == 0);
    CHECK(found->value == size);
    CHECK(found->limit == 8);
    CHECK(found->severity == Severity::error);
  }
}

TEST_CASE("sim: the oracle judges outputs of its own size only") {
  World world({config_of(1, 4)});
  world.draw({2});
  REQUIRE(world.round({2}).has_value());
  const auto oracle = world.batches[0].reference(world.configs[0], world.payloads, ClosedFormExperts());
  REQUIRE(oracle.has_value());
  FindingLog log(4);
  const auto judged = [&](std::size_t bytes, std::int64_t hidden) {
    return judge_output(DataType::bfloat16, std::span(world.outputs[0]).first(bytes), *oracle, hidden,
                        Tolerance::one_rounding, {}, log);
  };
  CHECK(judged(32, 8).value_or(-1) == 0);
  CHECK(message_of(judged(30, 8)) == "judge: 15 output elements against 16 of the oracle, rows of 8");
  CHECK(message_of(judged(32, 5)) == "judge: 16 output elements against 16 of the oracle, rows of 5");
  CHECK(message_of(judged(32, 0)) == "judge: 16 output elements against 16 of the oracle, rows of 0");
}

TEST_CASE("witness: a batch of check becomes a step, and what it needs ahead of it comes in turn") {
  CheckFinding finding;
  CHECK(witness_steps(finding, 2).empty());
  finding.witness = CheckWitness{{3, 0}, {"DECODE", "IDLE"}, {}, {}};
  const auto one = witness_steps(finding, 2);
  REQUIRE(one.size() == 1);
  CHECK(one[0].tokens == std::vector<std::int64_t>{3, 0});
  CHECK(one[0].mode == std::vector<ForwardMode>{ForwardMode::decode, ForwardMode::idle});
  finding.before = CheckWitness{{5, 7}, {"EXTEND", "EXTEND"}, {}, {}};
  for (const int turns : {0, 1, 2}) {
    const auto steps = witness_steps(finding, turns);
    REQUIRE(steps.size() == static_cast<std::size_t>(2 * turns));
    for (std::size_t i = 0; i < steps.size(); ++i)
      CHECK(steps[i].tokens == (i % 2 == 0 ? std::vector<std::int64_t>{5, 7} : std::vector<std::int64_t>{3, 0}));
  }
  finding.before->modes.pop_back();  // of a rank nothing is known
  CHECK(witness_steps(finding, 2).empty());
  finding.before.reset();
  for (const auto& [tokens, fits] : {std::pair{kMaxScenarioTokens, true}, {kMaxScenarioTokens + 1, false}}) {
    finding.witness->tokens_per_dp_rank[0] = tokens;
    CHECK(witness_steps(finding, 1).size() == (fits ? 1 : 0));
  }
  finding.witness = CheckWitness{{3}, {"SLEEP"}, {}, {}};
  CHECK(witness_steps(finding, 1).empty());
}

}  // namespace
}  // namespace a2asim
