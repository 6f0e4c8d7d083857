// Every finding of the simulated all-to-all has a test that produces it.
#include <doctest/doctest.h>

#include <limits>

#include "tests/sim/sim_world.h"

namespace a2asim {

using namespace test;

TEST_CASE("sim: agreeing ranks find nothing, over many rounds, in bounded memory") {
  World world(std::vector<AllToAllConfig>(4, config_of(4, 9, 8, 3)));
  for (int round = 0; round < 200; ++round) {
    std::vector<std::int64_t> tokens;
    for (int r = 0; r < 4; ++r) tokens.push_back(world.random.between(0, 9));
    const std::int64_t largest = std::max<std::int64_t>(1, *std::max_element(tokens.begin(), tokens.end()));
    world.draw(tokens);
    REQUIRE(world.round(std::vector<std::int64_t>(4, largest)).has_value());
    CHECK(world.judge().findings().empty());
    for (int r = 0; r < 4; ++r) {
      const auto tainted = world.sim->tainted(r);
      CHECK(std::count(tainted.begin(), tainted.end(), 1) == 0);
    }
  }
  CHECK(world.sim->findings().empty());
  CHECK(world.sim->guards_intact());
}

TEST_CASE("sim: misplaced rows and the race that caused them") {
  World world({config_of(2, 8), config_of(2, 8)});
  world.draw({4, 2}, 0);
  REQUIRE(world.round({4, 2}).has_value());
  const Finding* root = find(world, FindingKind::geometry_disagreement);
  REQUIRE(root != nullptr);
  CHECK(root->rank == 1);
  CHECK(root->peer == 0);
  CHECK(root->value == 2);
  CHECK(root->limit == 4);
  // Rank 1's rows for rank 0 lie on rows 2 and 3: there rank 0 looks for its own tokens 2 and 3.
  const Finding* found = find_row(world, FindingKind::misplaced, 0);
  REQUIRE(found != nullptr);
  CHECK(found->root == FindingKind::geometry_disagreement);
  CHECK(found->rank == 0);
  CHECK(found->row->source == 0);
  CHECK(found->row->token == 2);
  CHECK(found->row->found_writer == 1);
  CHECK(found->row->found_token == 0);
  CHECK(found->row->found_round == found->row->expected_round);
  CHECK(found->row->race);
  CHECK(found->row->found_slot == 0);
  // Rank 0 had put its own token 2 there: of a race the loser is told too.
  CHECK(found->row->lost_writer == 0);
  CHECK(found->row->lost_token == 2);
  CHECK(found->row->lost_slot == 2);
  CHECK(found->row->lost_payload == 0);
  CHECK(found->row->expected_offset == world.configs[0].layout().payload_data + 2 * 16);
}

TEST_CASE("sim: the wrong row of a token is found, however few findings are kept") {
  SimOptions options;
  options.findings_per_kind = 1;
  World world({config_of(2, 8), config_of(2, 8)}, options);
  world.draw({4, 2}, 0);
  REQUIRE(world.round({4, 2}).has_value());
  std::size_t followed = 0;
  for (int rank = 0; rank < 2; ++rank) {
    const auto tainted = world.sim->tainted(rank);
    for (std::size_t token = 0; token < tainted.size(); ++token) {
      const auto row = world.sim->wrong_row_of(rank, static_cast<std::int64_t>(token));
      CHECK(row.has_value() == (tainted[token] != 0));
      if (!row) continue;
      ++followed;
      CHECK(row->row->source == rank);
      CHECK(row->row->token == static_cast<std::int64_t>(token));
    }
  }
  CHECK(followed > world.sim->findings().size() / 2);
  CHECK(followed >= 3);
}

TEST_CASE("sim: stale rows of the step before: the output is wrong and finite") {
  World world({config_of(2, 8), config_of(2, 8)});
  world.sim->set_context({0, 0, Phase::eager_decode});
  world.draw({4, 4}, 0);
  REQUIRE(world.round({4, 4}).has_value());
  CHECK(world.sim->findings().empty());
  world.sim->set_context({1, 0, Phase::graph_decode});
  world.draw({1, 2}, 0);
  REQUIRE(world.round({4, 2}).has_value());
  const std::int64_t payload_data = world.configs[0].layout().payload_data;
  const Finding* found = nullptr;
  for (const Finding& finding : world.sim->findings()) {
    if (finding.kind == FindingKind::stale && finding.operation == Operation::combine) found = &finding;
  }
  // Rank 1 combines from its own C, which is below rank 0's: old rows of the first step, or the payload rows in front.
  CHECK(count(world, FindingKind::stale) + count(world, FindingKind::torn) + count(world, FindingKind::misplaced) > 0);
  if (found != nullptr) CHECK(found->row->found_step == 0);
  const Finding* receive = find_row(world, FindingKind::torn, 0);
  REQUIRE(receive != nullptr);
  CHECK(receive->row->expected_offset == payload_data + 4 * 16);
  CHECK(receive->row->written_offset == payload_data + 2 * 16);
  CHECK(receive->step == 1);
  CHECK(receive->phase == Phase::graph_decode);
}

TEST_CASE("sim: a stale row names its writer, token, round and step") {
  World world({config_of(2, 64), config_of(2, 64)});
  world.sim->set_context({0, 0, Phase::prefill});
  world.draw({0, 40}, 0);
  REQUIRE(world.round({40, 40}).has_value());
  world.sim->set_context({1, 0, Phase::eager_decode});
  world.draw({0, 1}, 0);
  REQUIRE(world.round({40, 1}).has_value());
  const Finding* found = find_row(world, FindingKind::stale, 0);
  REQUIRE(found != nullptr);
  CHECK(found->row->found_writer == 1);
  CHECK(found->row->found_token == 0);
  CHECK(found->row->found_round == 1);
  CHECK(found->row->expected_round == 3);
  CHECK(found->row->found_step == 0);
  CHECK(describe(*found).find("which rank 1 wrote in step") != std::string::npos);
}

TEST_CASE("sim: unwritten rows: the output is NaN") {
  World world({config_of(2, 8, 64), config_of(2, 8, 64)});
  world.draw({0, 1}, 0);
  REQUIRE(world.round({8, 1}).has_value());
  const Finding* found = find_row(world, FindingKind::unwritten, 0);
  REQUIRE(found != nullptr);
  CHECK(found->row->found_writer == -1);
  CHECK(found->token == 0);
  const FindingLog judged = world.judge();
  REQUIRE(judged.findings().size() == 1);
  CHECK(judged.findings()[0].kind == FindingKind::nan_output);
  CHECK(judged.findings()[0].rank == 1);
  CHECK(world.sim->tainted(1)[0] == 1);
}

TEST_CASE("sim: wrong but finite output") {
  SimOptions options;
  options.poison = std::byte{0};
  World world({config_of(2, 8, 64), config_of(2, 8, 64)}, options);
  world.draw({0, 1}, 0);
  REQUIRE(world.round({8, 1}).has_value());
  const FindingLog judged = world.judge();
  REQUIRE(judged.findings().size() == 1);
  CHECK(judged.findings()[0].kind == FindingKind::wrong_output);
}

TEST_CASE("sim: torn rows, a mixture of two payloads") {
  World world({config_of(2, 8), config_of(2, 8)});
  world.draw({1, 2}, 0);
  REQUIRE(world.round({4, 2}).has_value());
  const Finding* found = find_row(world, FindingKind::torn, 0);
  REQUIRE(found != nullptr);
  CHECK(found->row->found_payload == 1);  // rank 1's ids begin inside the row
}

TEST_CASE("sim: garbage expert ids") {
  SUBCASE("read from another rank's hidden states") {
    World world({config_of(2, 8, 64), config_of(2, 8, 64)});
    world.draw({0, 8}, 0);
    REQUIRE(world.round({4, 8}).has_value());
    const Finding* found = find(world, FindingKind::expert_id_out_of_range);
    REQUIRE(found != nullptr);
    CHECK(found->operation == Operation::experts);
    CHECK(found->root == FindingKind::geometry_disagreement);
  }
  SUBCASE("given to dispatch") {
    World world({config_of(2, 8), config_of(2, 8)});
    world.draw({2, 1}, 0);
    world.batches[0].expert_ids() = {4, -1};  // 4 experts: the first leaves the tables, the second truncates to rank 0
    REQUIRE(world.round({2, 2}).has_value());
    CHECK(count(world, FindingKind::expert_id_out_of_range) == 2);
    CHECK(world.sim->findings()[0].severity == Severity::error);
    CHECK(world.sim->findings()[1].severity == Severity::warning);
    CHECK(world.sim->recv_counter(0, 0) == 1);
  }
}

TEST_CASE("sim: over capacity, refused by one rank or by all") {
  World world(std::vector<AllToAllConfig>(3, config_of(3, 16)));
  world.draw({1, 1, 1});
  const auto one = world.round({16, 300, 16});
  REQUIRE(!one.has_value());
  CHECK(one.error().message.find("rank 0 waits for rank 1") != std::string::npos);
  CHECK(find(world, FindingKind::over_capacity)->rank == 1);
  CHECK(count(world, FindingKind::missing_rank) == 2);
  world.sim->reset();
  world.sim->clear_findings();
  REQUIRE(!world.round({300, 300, 300}).has_value());
  CHECK(count(world, FindingKind::over_capacity) == 3);
  REQUIRE(!world.round({0, 0, 0}).has_value());  // runtime_max must be positive
}

TEST_CASE("sim: receive overflow runs into the neighbour's slots") {
  World world(std::vector<AllToAllConfig>(3, config_of(3, 16)));
  world.draw({6, 4, 4}, 1);
  REQUIRE(world.round({4, 4, 4}).has_value());
  REQUIRE(count(world, FindingKind::receive_overflow) == 2);  // T > R, and the rows that did overflow, by destination
  const Finding* overflow = find(world, FindingKind::receive_overflow);
  CHECK(overflow->rank == 0);
  CHECK(overflow->value == 6);
  CHECK(overflow->limit == 4);
  CHECK(world.sim->guards_intact());
  // Rank 0's tokens 4 and 5 lie where tokens 0 and 1 of rank 1 belong, until rank 1 writes them: a race.
  CHECK(count(world, FindingKind::torn) > 0);
  CHECK(find_row(world, FindingKind::torn, 0)->row->race);
  CHECK(find_row(world, FindingKind::torn, 0)->row->found_writer == 1);
  CHECK(find_row(world, FindingKind::torn, 0)->row->lost_writer == 0);
  CHECK(find_row(world, FindingKind::torn, 0)->row->lost_token == 4);
  CHECK(find_row(world, FindingKind::torn, 0)->root == FindingKind::receive_overflow);
}

TEST_CASE("sim: a write past the slice is reported, not performed") {
  AllToAllConfig config = config_of(2, 4, 64);
  config.payload_bytes_per_token = {4, 4, 128};
  config.expert_id_payload = 0;
  World world({config, config});
  world.batches.clear();
  for (const std::int64_t tokens : {0, 60}) {
    world.batches.emplace_back(config, ExpertPayloads{2, 1}, tokens, RoutingPattern::one_rank, world.random);
  }
  REQUIRE(world.sim->dispatch(world.inputs({4, 4})).has_value());
  bool past_the_end = false;
  for (const Finding& finding : world.sim->findings()) {
    past_the_end = past_the_end || finding.subject.find("past the end of the slice") != std::string::npos;
  }
  CHECK(past_the_end);
  CHECK(world.sim->guards_intact());
}

TEST_CASE("sim: an absent rank: who waits for whom, and a mask") {
  World world(std::vector<AllToAllConfig>(4, config_of(4, 8)));
  world.draw({1, 2, 3, 4});
  world.sim->set_absent(RankMask::of(2));
  const auto stuck = world.round({8, 8, 8, 8});
  REQUIRE(!stuck.has_value());
  CHECK(stuck.error().kind == ErrorKind::runtime_error);
  CHECK(count(world, FindingKind::missing_rank) == 3);
  const Finding* missing = find(world, FindingKind::missing_rank);
  CHECK(missing->rank == 0);
  CHECK(missing->peer == 2);
  CHECK(!world.sim->dispatch(world.inputs({8, 8, 8, 8})).has_value());  // stuck until reset
  world.sim->set_absent({});
  world.sim->reset();
  CHECK(world.round({8, 8, 8, 8}).has_value());

  std::vector<AllToAllConfig> masked = world.configs;
  for (AllToAllConfig& config : masked) config.active_rank_mask = 0b1011;
  World alive(masked);
  alive.draw({1, 2, 3, 4});
  alive.sim->set_absent(RankMask::of(2));
  REQUIRE(alive.round({8, 8, 8, 8}).has_value());
  CHECK(count(alive, FindingKind::missing_rank) == 0);
  CHECK(alive.outputs[2].empty());
}

TEST_CASE("sim: a rank that goes missing between dispatch and combine") {
  World world({config_of(2, 8), config_of(2, 8)});
  world.draw({1, 2});
  REQUIRE(world.sim->dispatch(world.inputs({8, 8})).has_value());
  world.sim->set_absent(RankMask::of(1));
  REQUIRE(!world.sim->combine(std::vector<std::int64_t>{8, 8}, world.outputs).has_value());
  REQUIRE(find(world, FindingKind::missing_rank) != nullptr);
  CHECK(find(world, FindingKind::missing_rank)->operation == Operation::combine);
}

TEST_CASE("sim: waste is counted") {
  World world({config_of(2, 64), config_of(2, 64)});
  world.draw({3, 5});
  REQUIRE(world.round({64, 64}).has_value());
  const Finding* wasted = find(world, FindingKind::wasted);
  REQUIRE(wasted != nullptr);
  CHECK(wasted->severity == Severity::note);
  CHECK(wasted->value == 2 * (64 - 5));
  CHECK(wasted->limit == 2 * 64);
  CHECK(world.sim->traffic().rows_sent == 8);
  CHECK(world.sim->traffic().rows_reserved == 2 * 2 * 64);
}

TEST_CASE("sim: ranks constructed differently disagree although R is equal") {
  SUBCASE("max_num_tokens") {
    World world({config_of(2, 8), config_of(2, 64)});
    world.draw({2, 2});
    REQUIRE(world.round({4, 4}).has_value());
    CHECK(find(world, FindingKind::geometry_disagreement)->subject == "max_num_tokens");
    CHECK(!world.judge().findings().empty());
  }
  SUBCASE("payload bytes") {
    AllToAllConfig other = config_of(2, 8);
    other.payload_bytes_per_token = {16, 8, 4};
    World world({config_of(2, 8), other});
    world.draw({2, 2});
    REQUIRE(world.sim->dispatch(world.inputs({4, 4})).has_value());
    CHECK(find(world, FindingKind::geometry_disagreement)->subject == "payload bytes per token");
  }
}

TEST_CASE("sim: graphs bake R: ranks that replay different captures disagree") {
  World world({config_of(2, 8), config_of(2, 8)});
  world.draw({2, 2});
  const auto small = world.sim->capture(world.inputs({2, 2}), -1, kPayloads);
  world.draw({4, 4});
  const auto large = world.sim->capture(world.inputs({4, 4}), -1, kPayloads);
  REQUIRE(small.has_value());
  REQUIRE(large.has_value());
  REQUIRE(world.sim->replay(std::vector<GraphId>{*large, *large}, world.inputs({1, 1}), world.outputs).has_value());
  CHECK(count(world, FindingKind::geometry_disagreement) == 0);
  CHECK(world.judge().findings().empty());

  world.draw({2, 4});
  REQUIRE(world.sim->replay(std::vector<GraphId>{*small, *large}, world.inputs({9, 9}), world.outputs).has_value());
  CHECK(count(world, FindingKind::geometry_disagreement) == 1);
  CHECK(!world.judge().findings().empty());
  // One replays, the other runs eagerly with the same R: right.
  world.draw({2, 1});
  world.sim->clear_findings();
  REQUIRE(world.sim->replay(std::vector<GraphId>{*small, kEager}, world.inputs({9, 2}), world.outputs).has_value());
  CHECK(count(world, FindingKind::geometry_disagreement) == 0);
  CHECK(world.judge().findings().empty());
  // Rows are the bucket's.
  CHECK(!world.sim->replay(std::vector<GraphId>{*large, *large}, world.inputs({4, 4}), world.outputs).has_value());
  CHECK(!world.sim->replay(std::vector<GraphId>{7, 7}, world.inputs({4, 4}), world.outputs).has_value());
}

TEST_CASE("sim: combine with another R than dispatch reads other rows") {
  World world({config_of(2, 8), config_of(2, 8)});
  world.draw({3, 3});
  REQUIRE(world.sim->dispatch(world.inputs({4, 4})).has_value());
  REQUIRE(world.sim->sanitize(-1).has_value());
  REQUIRE(world.sim->experts(kPayloads).has_value());
  REQUIRE(world.sim->combine(std::vector<std::int64_t>{3, 3}, world.outputs).has_value());
  // Rank 0's rows begin at 0 for any R; rank 1's are displaced.
  const FindingLog judged = world.judge();
  REQUIRE(!judged.findings().empty());
  for (const Finding& finding : judged.findings()) CHECK(finding.rank == 1);
}

TEST_CASE("sim: feed-forward experts against the oracle") {
  for (const DataType type : {DataType::bfloat16, DataType::float32}) {
    AllToAllConfig config = config_of(3, 8, 16, 2);
    config.combine_type = type;
    config.payload_bytes_per_token[0] = 16 * element_bytes(type);
    World world(std::vector<AllToAllConfig>(3, config));
    const FeedForwardExperts experts(config.num_experts, 16, 8, 3);
    world.sim->use_network(&experts);
    world.draw({8, 0, 5});
    REQUIRE(world.round({8, 8, 8}).has_value());
    FindingLog log(64);
    for (std::size_t r = 0; r < 3; ++r) {
      const auto oracle = world.batches[r].reference(config, kPayloads, experts);
      const auto kind = type == DataType::float32 ? Tolerance::one_rounding : Tolerance::accumulated;
      REQUIRE(judge_output(type, world.outputs[r], *oracle, 16, kind, {}, log).has_value());
    }
    CHECK(log.findings().empty());
  }
}

TEST_CASE("sim: calls out of turn and inputs that do not fit are errors") {
  World world({config_of(2, 8), config_of(2, 8)});
  world.draw({1, 1});
  CHECK(!world.sim->combine(std::vector<std::int64_t>{1, 1}, world.outputs).has_value());
  CHECK(!world.sim->sanitize(-1).has_value());
  auto inputs = world.inputs({1, 1});
  CHECK(!world.sim->dispatch(std::span(inputs).first(1)).has_value());
  inputs[1].payloads[0] = inputs[1].payloads[0].first(3);
  CHECK(!world.sim->dispatch(inputs).has_value());
  inputs = world.inputs({std::int64_t{1} << 40, 1});
  CHECK(!world.sim->dispatch(inputs).has_value());
  for (const std::int64_t far : {std::numeric_limits<std::int64_t>::min(), -(std::int64_t{1} << 40)}) {
    inputs = world.inputs({1, 1});
    inputs[1].runtime_max_tokens_per_rank = far;
    const auto refused = world.sim->dispatch(inputs);
    REQUIRE_FALSE(refused.has_value());
    CHECK(refused.error().kind == ErrorKind::bad_input);
  }
  inputs = world.inputs({1, 1});
  inputs[0].token_selected_experts = {};
  CHECK(!world.sim->dispatch(inputs).has_value());
  REQUIRE(world.sim->dispatch(world.inputs({1, 1})).has_value());
  CHECK(world.sim->dispatch(world.inputs({1, 1})).error().kind == ErrorKind::assertion_error);
  CHECK(!world.sim->experts({1, 2}).has_value());
  CHECK(!SimAllToAll::create({config_of(3, 8)}, {}).has_value());
  AllToAllConfig opaque = config_of(1, 8);
  opaque.combine_type = DataType::opaque;
  CHECK(!SimAllToAll::create({opaque}, {}).has_value());
  AllToAllConfig huge = config_of(1, std::int64_t{1} << 50);
  CHECK(!SimAllToAll::create({huge}, {}).has_value());
}

}  // namespace a2asim
