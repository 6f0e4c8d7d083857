// Random worlds: the fidelities see the same, and a seed decides everything.
#include <doctest/doctest.h>

#include "tests/sim/sim_world.h"

namespace a2asim {

using namespace test;

namespace {

// A small random world of one or two rounds, wrong in any way that integers can be.
struct RandomCase {
  std::vector<AllToAllConfig> configs;
  std::vector<std::vector<std::int64_t>> tokens, runtime_max;
};

RandomCase draw_case(Random& random) {
  RandomCase drawn;
  const int ep_size = static_cast<int>(random.between(1, 5));
  const std::int64_t cap = random.between(1, 12);
  const std::int64_t hidden = random.between(1, 12);  // one by one: the order of arguments is the compiler's
  const int top_k = static_cast<int>(random.between(1, 4));
  const AllToAllConfig config = config_of(ep_size, cap, hidden, top_k);
  drawn.configs.assign(static_cast<std::size_t>(ep_size), config);
  if (random.chance(1, 5)) drawn.configs.back().max_num_tokens += random.between(1, 5);
  for (int round = 0; round < 3; ++round) {
    const std::int64_t common = random.between(1, cap);
    std::vector<std::int64_t> tokens, runtime_max;
    for (int r = 0; r < ep_size; ++r) {
      runtime_max.push_back(random.chance(1, 4) ? random.between(1, cap + 2) : common);
      const std::int64_t extra = random.chance(1, 10) ? random.between(1, 3) : 0;
      tokens.push_back(random.between(0, runtime_max.back()) + extra);
    }
    drawn.tokens.push_back(tokens);
    drawn.runtime_max.push_back(runtime_max);
  }
  return drawn;
}

std::vector<std::int64_t> row_counts(const World& world) {
  std::vector<std::int64_t> counts;
  for (const FindingKind kind : {FindingKind::geometry_disagreement, FindingKind::misplaced, FindingKind::stale,
                                 FindingKind::unwritten, FindingKind::torn, FindingKind::over_capacity,
                                 FindingKind::receive_overflow, FindingKind::missing_rank, FindingKind::wasted}) {
    counts.push_back(count(world, kind));
  }
  return counts;
}

// Tokens with wrong numbers are among the tainted; the others equal the oracle.
void check_taint(const World& world, std::int64_t& wrong_tokens) {
  const FindingLog judged = world.judge();
  wrong_tokens += static_cast<std::int64_t>(judged.findings().size());
  for (const Finding& finding : judged.findings()) {
    CHECK(world.sim->tainted(finding.rank)[static_cast<std::size_t>(finding.token)] == 1);
  }
}

}  // namespace

TEST_CASE("sim: the fidelities agree, and what is not tainted is right") {
  Random random(2026);
  std::int64_t wrong_tokens = 0, tainted_tokens = 0, refused = 0, overflows = 0;
  for (int i = 0; i < 1000; ++i) {
    CAPTURE(i);
    const RandomCase drawn = draw_case(random);
    World numeric(drawn.configs, {Fidelity::numeric}), tags(drawn.configs, {Fidelity::provenance}),
        integers(drawn.configs, {Fidelity::geometry});
    for (std::size_t round = 0; round < drawn.tokens.size(); ++round) {
      for (World* world : {&numeric, &tags, &integers}) world->draw(drawn.tokens[round]);
      const auto result = numeric.round(drawn.runtime_max[round]);
      const auto same_result = [&](const Result<void>& other) {
        return result ? other.has_value() : !other && other.error() == result.error();
      };
      REQUIRE(same_result(tags.round(drawn.runtime_max[round])));
      REQUIRE(same_result(integers.round(drawn.runtime_max[round])));
      REQUIRE(row_counts(numeric) == row_counts(tags));
      CHECK(count(integers, FindingKind::geometry_disagreement) == count(tags, FindingKind::geometry_disagreement));
      CHECK(count(integers, FindingKind::missing_rank) == count(tags, FindingKind::missing_rank));
      for (int r = 0; r < drawn.configs[0].ep_size; ++r) {
        const auto a = numeric.sim->tainted(r), b = tags.sim->tainted(r);
        REQUIRE(std::equal(a.begin(), a.end(), b.begin(), b.end()));
        tainted_tokens += std::count(a.begin(), a.end(), 1);
      }
      refused += result ? 0 : 1;
      if (!result) break;
      check_taint(numeric, wrong_tokens);
    }
    overflows += count(numeric, FindingKind::receive_overflow);
    CHECK(numeric.sim->guards_intact());
  }
  // The drawn worlds reach what they are for.
  CHECK(wrong_tokens > 500);
  CHECK(tainted_tokens >= wrong_tokens);
  CHECK(overflows > 100);
  CHECK(refused > 10);
}

TEST_CASE("sim: one seed, one digest: another seed, another") {
  const auto run = [](std::uint64_t seed) {
    World world(std::vector<AllToAllConfig>(3, config_of(3, 8, 8, 2)));
    world.random = Random(seed);
    world.draw({3, 8, 1});
    static_cast<void>(world.round({8, 4, 8}));
    Digest digest;
    world.sim->add_to(digest);
    for (const auto& output : world.outputs) digest.add(std::span<const std::byte>(output));
    return digest.value();
  };
  CHECK(run(1) == run(1));
  CHECK(run(1) != run(2));
  CHECK(run(1) == 4897292182331643972U);  // the same with gcc and clang, debug and release
}

}  // namespace a2asim
