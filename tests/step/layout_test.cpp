// A layout becomes a command, and the command a deployment: what the layout says must come out of it.
#include <doctest/doctest.h>
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string>
#include <vector>

#include "model/step/engine.h"
#include "model/step/parallel.h"

namespace a2asim {
namespace {

Result<DeployedCommand> deployed(const Engine& engine, const Version& version, const Parallel& layout) {
  std::string text(engine.syntax->front_ends.front().command);
  for (const std::string& word : engine.launch_words(layout, version)) text += " '" + word + "'";
  CAPTURE(text);
  DeployOptions options;
  options.version = *engine.find_version(version.name);
  options.model = ModelShape{256, 8, 7168};
  return deploy_command(text, options);
}

Parallel layout_of(std::int64_t ranks, std::int64_t replicas) {
  Parallel out;
  out.tp_size = ranks;
  out.dp_size = replicas;
  out.enable_dp_attention = replicas > 1;
  out.max_running_requests = 16 * replicas;
  out.chunked_prefill_size = 1024 * replicas;
  return out;
}

template <class Check>
void for_each_layout(const Check& check) {
  for (const Engine* engine : engines()) {
    if (engine->launch_words == nullptr) continue;
    for (const Version* version : engine->versions())
      for (const auto& [ranks, replicas] : std::vector<std::pair<std::int64_t, std::int64_t>>{{4, 4}, {8, 8}, {8, 4}}) {
        if (engine->name == "trtllm" && ranks != replicas) continue;  // its replicas are single ranks
        CAPTURE(engine->name);
        CAPTURE(version->name);
        CAPTURE(replicas);
        check(*engine, *version, layout_of(ranks, replicas), ranks, replicas);
      }
  }
}

}  // namespace

TEST_CASE("layout: ranks, replicas, requests and tokens of a replica come out of the command, for every version") {
  int seen = 0;
  for_each_layout([&](const Engine& engine, const Version& version, const Parallel& layout, std::int64_t ranks,
                      std::int64_t replicas) {
    const auto made = deployed(engine, version, layout);
    REQUIRE_MESSAGE(made, (made ? "" : made.error().message));
    REQUIRE_MESSAGE(made->deployment, (made->refused ? made->refused->message : ""));
    const Deployment& deployment = *made->deployment;
    CHECK(deployment.topology.ep_size == ranks);
    CHECK(deployment.topology.attn_dp_size == replicas);
    CHECK(deployment.requests_per_dp_rank.value == 16);
    CHECK(deployment.requests_per_dp_rank.is_explicit);
    CHECK(deployment.prefill_tokens.value == 1024);
    CHECK(deployment.num_tokens_per_bs == 1);
    CHECK_FALSE(deployment.speculates);
    ++seen;
  });
  CHECK(seen > 40);
}

TEST_CASE("layout: the all-to-all is named wherever the version has an option for it") {
  const Engine& vllm = **find_engine("vllm");
  int named = 0;
  for (const Version* version : vllm.versions()) {
    CAPTURE(version->name);
    const std::vector<std::string> words = vllm.launch_words(layout_of(8, 8), *version);
    const bool has_option = !vllm.spellings(*version, "--all2all-backend").empty();
    CHECK((std::ranges::find(words, "--all2all-backend") != words.end()) == has_option);
    named += has_option ? 1 : 0;
  }
  CHECK(named > 5);
}

TEST_CASE("layout: a batch is never smaller than one token of each request, and never nothing") {
  for_each_layout(
      [&](const Engine& engine, const Version& version, Parallel layout, std::int64_t, std::int64_t replicas) {
        layout.chunked_prefill_size = 1;
        layout.speculative_algorithm = "EAGLE";
        layout.speculative_num_draft_tokens = 3;
        auto made = deployed(engine, version, layout);
        if (made && made->deployment && made->deployment->speculates) {
          CHECK(made->deployment->num_tokens_per_bs == 3);
          CHECK(made->deployment->prefill_tokens.value == 48);
        }
        layout.speculative_algorithm.reset();
        layout.max_running_requests = 1;
        made = deployed(engine, version, layout);
        REQUIRE_MESSAGE(made, (made ? "" : made.error().message));
        REQUIRE(made->deployment);
        CHECK(made->deployment->requests_per_dp_rank.value == 1);
        CHECK(made->deployment->prefill_tokens.value == 1);
        layout.max_running_requests = 2 * replicas;
        made = deployed(engine, version, layout);
        REQUIRE(made->deployment);
        CHECK(made->deployment->requests_per_dp_rank.value == 2);
      });
}

TEST_CASE("layout: sizes of graphs come out of the command, or none where they are disabled") {
  for_each_layout([&](const Engine& engine, const Version& version, Parallel layout, std::int64_t, std::int64_t) {
    layout.disable_cuda_graph = true;
    auto made = deployed(engine, version, layout);
    REQUIRE_MESSAGE(made, (made ? "" : made.error().message));
    REQUIRE(made->deployment);
    CHECK(made->deployment->capture_bs.empty());
    layout.disable_cuda_graph.reset();
    layout.cuda_graph_bs = {1, 2, 8};
    made = deployed(engine, version, layout);
    REQUIRE(made->deployment);
    const std::vector<std::int64_t>& sizes = made->deployment->capture_bs;
    CHECK_MESSAGE((sizes.empty() || sizes == std::vector<std::int64_t>{1, 2, 8}), fmt::format("{}", sizes));
  });
}

}  // namespace a2asim
