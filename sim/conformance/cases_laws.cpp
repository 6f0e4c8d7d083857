// The laws of laws.h over drawn worlds: shapes, batches and routings of every kind, the same for a seed.
#include "sim/conformance/laws.h"
#include "sim/conformance/suite.h"

namespace a2asim::conformance {
namespace {

struct World {
  AllToAllConfig config;
  std::vector<Round> rounds, others;  // others: the same sizes, other contents
};

World draw_world(Random& random) {
  const int ep_size = static_cast<int>(random.between(1, 6));
  const int top_ks[] = {1, 2, 4, 6, 8};  // of the published kernels
  const int top_k = top_ks[random.below(5)];
  World world;
  world.config = usual_config(ep_size, random.between(1, 9), 8 * random.between(1, 6), top_k,
                              std::max<std::int64_t>(ep_size, top_k) + random.between(0, 9));
  for (int i = 0; i < 3; ++i) {
    const auto routing = static_cast<RoutingPattern>(random.below(3));
    for (std::vector<Round>* rounds : {&world.rounds, &world.others}) {
      rounds->emplace_back();
      for (int rank = 0; rank < ep_size; ++rank) {
        const std::int64_t tokens = rounds == &world.others
                                        ? world.rounds.back()[static_cast<std::size_t>(rank)].batch.tokens()
                                        : random.between(1, world.config.max_num_tokens);
        TokenBatch batch(world.config, kUsualPayloads, tokens, routing, random);
        std::vector<std::int32_t> ids = batch.expert_ids();
        rounds->back().push_back({std::move(batch), std::move(ids)});
      }
    }
  }
  return world;
}

constexpr std::uint64_t kLawSeed = 29461;
constexpr int kWorlds = 12;

// A backend may be unable to take some of the worlds, but not all of them.
template <class Law>
void over_worlds(Trial& trial, const Law& law) {
  Random random(kLawSeed);
  std::optional<Skipped> skipped;
  int held = 0;
  for (int i = 0; i < kWorlds; ++i) {
    const World world = draw_world(random);
    const MakeBench make = [&trial](const AllToAllConfig& config) {
      Bench bench = trial.bench(std::vector<AllToAllConfig>(static_cast<std::size_t>(config.ep_size), config));
      trial.need(bench, Capability::changing_r);
      return bench;
    };
    try {
      const std::string wrong = law(make, world);
      trial.check(wrong.empty(), "world " + std::to_string(i) + ": " + wrong);
      ++held;
    } catch (const Skipped& one) {
      skipped = one;
    }
  }
  if (held == 0 && skipped) throw Skipped(*skipped);
}

void conservation(Trial& trial) {
  over_worlds(trial, [](const MakeBench& make, const World& world) {
    return conserves_tokens(make, world.config, world.rounds);
  });
}

void renamed_experts(Trial& trial) {
  over_worlds(trial, [](const MakeBench& make, const World& world) {
    return renaming_experts_changes_nothing(make, world.config, world.rounds);
  });
}

void permuted_ranks(Trial& trial) {
  over_worlds(trial, [](const MakeBench& make, const World& world) {
    return permuting_ranks_permutes_rows(make, world.config, world.rounds, 1);
  });
}

void graphs(Trial& trial) {
  over_worlds(trial, [&](const MakeBench& make, const World& world) {
    trial.need(make(world.config), Capability::graphs);
    return replay_equals_eager(make, world.config, world.others, world.rounds);
  });
}

}  // namespace

std::span<const Case> law_cases() {
  static const Case list[] = {{"law: every token arrives once, and its results come back", conservation},
                              {"law: renamed experts change nothing", renamed_experts},
                              {"law: permuted ranks permute rows", permuted_ranks},
                              {"law: replay of a capture equals the eager run", graphs}};
  return list;
}

}  // namespace a2asim::conformance
