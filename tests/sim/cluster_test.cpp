// The simulated cluster, step by step: who takes part, what is left in memory, and the fidelities against each other.
#include "sim/cluster/cluster.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "sim/cluster/replay_setup.h"
#include "sim/scenario/scenario_reader.h"

namespace a2asim {
namespace {

constexpr std::string_view kCollapsing = "--enable-dp-lm-head --moe-dense-tp-size 1 ";

struct Setup {
  std::string sglang = "pr30450";
  std::string flags = "--disable-cuda-graph";
  int ranks = 4;
  int cap = 64;
  std::string model = "{num_experts: 8, top_k: 2, hidden_size: 16}";
};

// A deployment of FlashInfer under DP attention, and a cluster on it.
struct ClusterWorld {
  ScenarioDeployment deployed;
  std::unique_ptr<Cluster> cluster;

  explicit ClusterWorld(const Setup& setup, ClusterOptions options = {}) {
    std::string tokens;
    for (int r = 0; r < setup.ranks; ++r) tokens += r == 0 ? "1" : ", 1";
    const std::string ranks = std::to_string(setup.ranks);
    const std::string text =
        "name: test\nsglang: " + setup.sglang + "\nlaunch: python3 -m sglang.launch_server --model-path M --tp-size " +
        ranks + " --dp-size " + ranks +
        " --enable-dp-attention --moe-a2a-backend flashinfer --moe-runner-backend "
        "flashinfer_cutlass " +
        setup.flags + "\nenv: {SGLANG_FLASHINFER_NUM_MAX_DISPATCH_TOKENS_PER_RANK: \"" + std::to_string(setup.cap) +
        "\"}\nmodel: " + setup.model + "\nsteps: [{mode: decode, tokens: [" + tokens + "]}]\n";
    const auto scenario = parse_scenario(text, "test");
    REQUIRE_MESSAGE(scenario.has_value(), scenario.error().message);
    auto made = deploy(*scenario, "test", {});
    REQUIRE_MESSAGE(made.has_value(), made.error().message);
    deployed = std::move(*made);
    REQUIRE_MESSAGE(deployed.verdict == Verdict::agrees, deployed.why);
    auto built = Cluster::create(*deployed.deployment, std::move(options));
    REQUIRE_MESSAGE(built.has_value(), built.error().message);
    cluster = std::move(*built);
  }

  StepOutcome step(const std::vector<std::int64_t>& tokens, StepInput input = {},
                   ForwardMode mode = ForwardMode::decode) {
    std::vector<RankBatch> batches;
    for (const std::int64_t count : tokens) batches.push_back({mode, count});
    input.batches = batches;
    const auto outcome = cluster->step(input);
    REQUIRE_MESSAGE(outcome.has_value(), outcome.error().message);
    findings = step_findings(*cluster, input, *outcome);
    return *outcome;
  }
  std::int64_t count(FindingKind kind) const { return cluster->log().count_of(kind); }
  const Finding* find(FindingKind kind) const {
    const auto found = std::ranges::find(findings, kind, &Finding::kind);
    return found == findings.end() ? nullptr : &*found;
  }
  std::vector<Finding> findings;  // of the sizes of the last step
};

ClusterOptions at(Fidelity fidelity, std::int64_t layers = 1) {
  ClusterOptions options;
  options.fidelity = fidelity;
  options.layers = layers;
  options.seed = 17;
  return options;
}

}  // namespace

TEST_CASE("cluster: ranks that agree give the oracle's outputs, whatever the step") {
  for (const ExpertsKind experts : {ExpertsKind::exact, ExpertsKind::ffn}) {
    for (const DataType dtype : {DataType::bfloat16, DataType::float16, DataType::float32}) {
      ClusterOptions options = at(Fidelity::numeric, 2);
      options.experts = experts;
      options.dtype = dtype;
      ClusterWorld world({}, options);
      for (const std::vector<std::int64_t>& tokens :
           std::vector<std::vector<std::int64_t>>{{4, 4, 4, 4}, {9, 0, 1, 3}, {0, 0, 0, 40}, {1, 2, 3, 4}}) {
        const StepOutcome outcome = world.step(tokens);
        CHECK(outcome.verdict == Verdict::agrees);
        CHECK(outcome.bad_tokens == 0);
        CHECK(outcome.traffic.rows_sent > 0);
        CHECK(world.cluster->log().findings().empty());
      }
    }
  }
}

TEST_CASE("cluster: routing of every kind, and a hot rank receives every token") {
  for (const Routing::Kind kind : {Routing::Kind::uniform, Routing::Kind::hot_rank, Routing::Kind::round_robin}) {
    ClusterOptions options = at(Fidelity::numeric);
    options.routing = {kind, kind == Routing::Kind::hot_rank ? 2 : 0, {}};
    ClusterWorld world({}, options);
    CHECK(world.step({8, 8, 8, 8}).bad_tokens == 0);
    if (kind != Routing::Kind::hot_rank) continue;
    for (int source = 0; source < 4; ++source) {
      CHECK(world.cluster->alltoall()->recv_counter(2, source) == 8);  // two experts a rank, top_k 2
      CHECK(world.cluster->alltoall()->recv_counter(1, source) == 0);
    }
  }
}

TEST_CASE("cluster: the collapse goes wrong before #27945, and stale rows of earlier steps are really there") {
  ClusterWorld world({.sglang = "pr26643", .flags = "--disable-cuda-graph " + std::string(kCollapsing)},
                     at(Fidelity::numeric));
  CHECK(world.step({4, 4, 4, 4}).verdict == Verdict::agrees);  // equal counts hide it
  CHECK(world.count(FindingKind::stale) == 0);
  const StepOutcome outcome = world.step({8, 2, 4, 6});
  CHECK(outcome.verdict == Verdict::disagrees);
  CHECK_FALSE(outcome.stopped);  // nothing complains: the run goes on
  CHECK(outcome.bad_tokens > 0);
  CHECK(world.count(FindingKind::stale) > 0);
  CHECK(world.count(FindingKind::nan_output) + world.count(FindingKind::wrong_output) == outcome.bad_tokens);
  const Finding* cause = world.find(FindingKind::geometry_disagreement);
  REQUIRE(cause != nullptr);
  CHECK(cause->witness->tokens_per_dp_rank == std::vector<std::int64_t>{8, 2, 4, 6});
  CHECK(cause->witness->runtime_max_tokens_per_rank == std::vector<std::int64_t>{8, 2, 4, 6});
  CHECK(cause->fix.find("--enable-dp-lm-head") != std::string::npos);
  for (const Finding& found : world.cluster->log().findings()) {
    CHECK(found.root == FindingKind::geometry_disagreement);
    if (found.kind == FindingKind::stale) CHECK(found.row->found_step == 0);
  }
}

TEST_CASE("cluster: R above the cap stops all ranks, or hangs the ones below it") {
  ClusterWorld all({.cap = 8}, at(Fidelity::numeric));
  const StepOutcome refused = all.step({9, 1, 1, 1});
  CHECK(refused.verdict == Verdict::over_capacity);
  CHECK(refused.stopped);
  CHECK(refused.over_capacity == RankMask::all(4));
  CHECK(all.find(FindingKind::missing_rank) == nullptr);

  ClusterWorld some({.sglang = "pr26643", .flags = "--disable-cuda-graph " + std::string(kCollapsing), .cap = 8},
                    at(Fidelity::numeric));
  const StepOutcome hang = some.step({10, 2, 2, 2});
  CHECK(hang.verdict == Verdict::disagrees);
  CHECK(hang.stopped);
  CHECK(hang.over_capacity == RankMask::of(0));
  const Finding* missing = some.find(FindingKind::missing_rank);
  REQUIRE(missing != nullptr);
  CHECK(missing->peer == 0);
  CHECK(missing->rank == 1);
  CHECK(missing->root == FindingKind::over_capacity);
}

TEST_CASE("cluster: a dummy token up to #29461, zero rows from #22394 on") {
  for (const auto& [sglang, sends_dummy] : {std::pair{"pr26643", true}, {"pr29461", true}, {"pr22394", false}}) {
    CAPTURE(sglang);
    ClusterWorld world({.sglang = sglang}, at(Fidelity::numeric));
    const StepOutcome outcome = world.step({40, 0, 0, 0});
    CHECK(outcome.verdict == Verdict::agrees);
    CHECK(outcome.bad_tokens == 0);
    CHECK(world.cluster->decisions()[1].sizing.has_dummy_token == sends_dummy);
    // It goes to this rank's own first expert and nowhere else.
    CHECK(world.cluster->alltoall()->recv_counter(1, 1) == (sends_dummy ? 1 : 0));
    CHECK(world.cluster->alltoall()->recv_counter(0, 1) == 0);
  }
}

TEST_CASE("cluster: absent ranks are waited for, masked ones are not") {
  ClusterWorld world({}, at(Fidelity::numeric));
  const StepOutcome healthy = world.step({4, 4, 4, 0}, {.absent = RankMask::of(3), .masked = RankMask::of(3)});
  CHECK(healthy.verdict == Verdict::agrees);
  CHECK_FALSE(healthy.stopped);
  CHECK(healthy.bad_tokens == 0);  // against an oracle without the dead rank's experts
  CHECK(healthy.taking_part == RankMask(0b0111));
  const StepOutcome hang = world.step({4, 4, 4, 4}, {.absent = RankMask::of(2)});
  CHECK(hang.verdict == Verdict::disagrees);
  CHECK(hang.stopped);
  CHECK(world.find(FindingKind::missing_rank)->peer == 2);
}

TEST_CASE("cluster: a step without work is no step") {
  ClusterWorld world({}, at(Fidelity::numeric));
  const StepOutcome outcome = world.step({0, 0, 0, 0});
  CHECK(outcome.verdict == Verdict::agrees);
  CHECK(outcome.taking_part.empty());
  CHECK(world.findings.empty());
}

TEST_CASE("cluster: #35758 gathers prefill: no size, no cap, and its bytes are counted") {
  ClusterWorld world({.sglang = "pr35758", .cap = 16}, at(Fidelity::provenance));
  const StepOutcome outcome = world.step({40, 3, 0, 9}, {}, ForwardMode::extend);
  CHECK(outcome.verdict == Verdict::agrees);
  CHECK(outcome.phase == Phase::prefill);
  CHECK(outcome.gathering == RankMask::all(4));
  CHECK(outcome.taking_part.empty());
  CHECK(outcome.traffic.rows_sent == (40 + 3 + 0 + 9) * 4);
  CHECK(outcome.traffic.wasted_rows() == 0);
}

TEST_CASE("cluster: what does not fit is said before anything is allocated") {
  ClusterWorld small({});
  ClusterOptions numeric = at(Fidelity::numeric);
  const ClusterWorld large({.cap = 4'000'000, .model = "{num_experts: 8, top_k: 2, hidden_size: 7168}"});
  const auto refused = Cluster::create(*large.deployed.deployment, numeric);
  REQUIRE_FALSE(refused.has_value());
  CHECK(refused.error().kind == ErrorKind::bad_input);
  CHECK(refused.error().message.find("--fidelity provenance") != std::string::npos);
}

TEST_CASE("cluster: the fidelities agree on what they can all see") {
  Random random(5);
  const std::string graphs = "--cuda-graph-bs 1 2 4 8 16 ";
  for (const char* sglang : {"pr24850", "pr26643", "pr27945", "pr29461", "pr30450", "pr35758"}) {
    for (const std::string& flags : {std::string("--disable-cuda-graph "), graphs, graphs + std::string(kCollapsing)}) {
      CAPTURE(sglang);
      CAPTURE(flags);
      const Setup setup{.sglang = sglang, .flags = flags, .cap = 24};
      ClusterWorld integers(setup, at(Fidelity::geometry, 2));
      ClusterWorld tags(setup, at(Fidelity::provenance, 2));
      ClusterWorld bytes(setup, at(Fidelity::numeric, 2));
      for (int i = 0; i < 6; ++i) {
        std::vector<std::int64_t> tokens;
        for (int r = 0; r < 4; ++r) tokens.push_back(random.chance(1, 4) ? 0 : random.between(1, 24));
        const ForwardMode mode = random.chance(1, 3) ? ForwardMode::extend : ForwardMode::decode;
        const StepOutcome a = integers.step(tokens, {}, mode);
        const StepOutcome b = tags.step(tokens, {}, mode);
        const StepOutcome c = bytes.step(tokens, {}, mode);
        CHECK(a.verdict == b.verdict);
        CHECK(b.verdict == c.verdict);
        CHECK(a.traffic.rows_reserved == c.traffic.rows_reserved);
        CHECK(b.traffic.rows_sent == c.traffic.rows_sent);
        CHECK(integers.findings == bytes.findings);
        CHECK(tags.findings == bytes.findings);
        for (const FindingKind kind :
             {FindingKind::misplaced, FindingKind::stale, FindingKind::unwritten, FindingKind::torn})
          CHECK(tags.count(kind) == bytes.count(kind));
        // An output is wrong only where a tag says that a row was.
        for (const Finding& found : bytes.cluster->log().findings()) {
          if ((found.kind != FindingKind::nan_output && found.kind != FindingKind::wrong_output) || found.layer != 1)
            continue;
          CHECK(tags.cluster->tainted(found.rank)[static_cast<std::size_t>(found.token)] == 1);
        }
        if (c.verdict == Verdict::agrees) CHECK(c.bad_tokens == 0);
        if (a.stopped) break;
      }
      CHECK(bytes.cluster->alltoall()->guards_intact());
    }
  }
}

TEST_CASE("cluster: the same steps give the same digest, also after reset") {
  const auto run = [](ClusterWorld& world) {
    Digest digest;
    for (const std::vector<std::int64_t>& tokens : std::vector<std::vector<std::int64_t>>{{4, 1, 2, 8}, {3, 3, 0, 6}})
      world.cluster->add_to(digest, world.step(tokens));
    return digest.value();
  };
  const Setup setup{.sglang = "pr26643", .flags = "--disable-cuda-graph " + std::string(kCollapsing)};
  ClusterWorld one(setup, at(Fidelity::numeric)), other(setup, at(Fidelity::numeric));
  const std::uint64_t first = run(one);
  CHECK(first == run(other));
  one.cluster->reset();
  CHECK(first == run(one));
}

}  // namespace a2asim
