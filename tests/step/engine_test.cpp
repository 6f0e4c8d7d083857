// The engine is found by the command that starts its server, and everything else through it.
#include "model/step/engine.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/launch.h"

namespace a2asim {

TEST_CASE("the engine is found from the command") {
  for (const std::string text : {"python3 -m sglang.launch_server --model-path M", "sglang serve --model-path M",
                                 "FOO=1 numactl -N 0 python3 -m sglang_router.launch_server --model-path M",
                                 "docker run -e A=1 image python3 -m dynamo.sglang --model-path M"}) {
    CAPTURE(text);
    const auto command = parse_launch_command(text);
    REQUIRE(command.has_value());
    CHECK(find_engine(*command).name == "sglang");
  }
}

TEST_CASE("an engine is found by its name, and its versions know it") {
  REQUIRE(engines().size() >= 1);
  for (const Engine* engine : engines()) {
    CAPTURE(engine->name);
    const auto named = find_engine(engine->name);
    REQUIRE(named.has_value());
    CHECK(*named == engine);
    const auto versions = engine->versions();
    REQUIRE_FALSE(versions.empty());
    CHECK(std::ranges::is_sorted(versions, {}, &Version::date));
    for (const Version* version : versions) {
      CHECK(&engine_of(*version) == engine);
      CHECK_FALSE(version->name.empty());
      CHECK_FALSE(version->changed.empty());
      CHECK(version->date.size() == std::string_view("2026-01-31").size());
      const auto match = engine->find_version(version->name);
      REQUIRE(match.has_value());
      CHECK(match->version == version);
      // vLLM picks the runner by itself: no option names it.
      CHECK(engine->alltoall_runner(*version).empty() == (engine->name == "vllm"));
    }
    CHECK(engine->find_version("newest")->version == versions.back());
  }
  CHECK(find_engine("nosuch").error().message.starts_with("'nosuch' is no engine known here; name one of sglang, "));
}

TEST_CASE("deploy_command says what came of a command") {
  const auto older = engines().front()->find_version("v0.5.8");
  REQUIRE(older.has_value());
  CHECK(older->is_older);

  DeployOptions options;
  options.env.set("SGLANG_FLASHINFER_NUM_MAX_DISPATCH_TOKENS_PER_RANK", "77");
  options.guesses_model = true;
  const auto deployed = deploy_command(
      "SGLANG_FLASHINFER_NUM_MAX_DISPATCH_TOKENS_PER_RANK=9 python3 -m sglang.launch_server --tp 8 --dp 8 "
      "--model-path deepseek-ai/DeepSeek-V3 --enable-dp-attention --moe-a2a-backend flashinfer --tp 8",
      options);
  REQUIRE(deployed.has_value());
  REQUIRE(deployed->deployment);
  CHECK(deployed->deployment->max_num_tokens == 77);  // what stands beside the command wins
  CHECK(deployed->deployment->generation == engines().front()->versions().back());
  REQUIRE(deployed->guessed.has_value());
  CHECK(deployed->model == deployed->guessed->shape);
  CHECK_FALSE(deployed->argument_notes.empty());

  DeployOptions release;
  release.version = *engines().front()->find_version("v0.5.18");
  const auto refused =
      deploy_command("python3 -m sglang.launch_server --model-path M --moe-a2a-backend deeep", release);
  REQUIRE(refused.has_value());
  CHECK_FALSE(refused->deployment);
  REQUIRE(refused->refused.has_value());
  const std::string fix = engines().front()->fix_for_refused(*release.version.version, refused->launch.argv);
  CHECK(fix.find("give --moe-a2a-backend deepep") != std::string::npos);

  CHECK_FALSE(deploy_command("python3 serve.py --tp 8", {}).has_value());
  CHECK_FALSE(deploy_command("python3 -m sglang.launch_server --model-path M --tp 99999", {}).has_value());
}

TEST_CASE("the schemas for editors name every engine") {
  for (const char* path : {"/sim/scenario/scenario.schema.json", "/tools/docs/a2asim.schema.json"}) {
    CAPTURE(path);
    std::ifstream file(std::string(A2ASIM_SOURCE_DIR) + path);
    const auto schema = nlohmann::json::parse(file);
    for (const Engine* engine : engines()) {
      CAPTURE(engine->name);
      const std::string name(engine->name);
      CHECK(schema["properties"].contains(name));
      if (schema["properties"].contains("engine"))
        CHECK(std::ranges::count(schema["properties"]["engine"]["enum"], nlohmann::json(name)) == 1);
      if (schema["properties"].contains("per-path"))
        CHECK(schema["properties"]["per-path"]["items"]["properties"].contains(name));
    }
  }
}

}  // namespace a2asim
