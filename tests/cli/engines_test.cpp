// plan, upgrade, versions and check of vLLM and TensorRT-LLM, as a person calls them.
#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <set>

#include "model/step/engine.h"
#include "tests/cli/run.h"

namespace a2asim {
namespace {

using nlohmann::json;
using Args = std::vector<std::string>;

const Args kLargeShape = {"--num-experts", "256", "--top-k", "8", "--hidden-size", "7168"};

Outcome run_shaped(Args args, const Args& more, const std::string& input = "") {
  args.insert(args.end(), more.begin(), more.end());
  return run(args, input);
}

json json_of(Args args, const Args& more, const std::string& input = "") {
  args.insert(args.end(), {"--format", "json"});
  const Outcome outcome = run_shaped(args, more, input);
  REQUIRE_MESSAGE(json::accept(outcome.out), outcome.err);
  return json::parse(outcome.out);
}

std::string fact(const json& server, std::string_view what, const char* when) {
  for (const json& one : server.at("facts"))
    if (one.at("what") == what) return one.at(when);
  FAIL("no fact ", what);
  return "";
}

json upgrade(const std::string& from, const std::string& to, const std::string& command, Args more = {}) {
  more.insert(more.end(), kLargeShape.begin(), kLargeShape.end());
  return json_of({"upgrade", "--from", from, "--to", to}, more, command).at("servers");
}

}  // namespace

TEST_CASE("plan: every all-to-all of every version of vLLM, and check says the same of its command") {
  const Engine& engine = **find_engine("vllm");
  std::set<std::string> backends;
  for (const Version* version : engine.versions())
    for (const std::string& backend : engine.plan_backends(*version)) {
      CAPTURE(version->name);
      CAPTURE(backend);
      backends.insert(backend);
      const Args named = {"--vllm", std::string(version->name)};
      Args args = {"plan", "--backend", backend, "--ep", "8", "--tokens", "64"};
      args.insert(args.end(), named.begin(), named.end());
      const json point = json_of(args, kLargeShape).at("points").at(0);
      CHECK(point.at("backend") == backend);
      const json checked = json_of({"check", "--vllm", named[1]}, kLargeShape, point.at("launch"));
      for (const char* key : {"max_num_tokens", "workspace_bytes_per_rank"})
        CHECK(checked.at("capacity").at(key) == point.at("capacity").at(key));
      CHECK((point.at("can_run") == "no") ==
            (checked.at("verdict") != "agrees" && checked.at("verdict") != "out_of_scope"));
    }
  CHECK(backends.size() >= 12);
}

TEST_CASE("plan: vLLM without a backend takes FlashInfer's, or what the version has in its place") {
  const auto backend = [](const char* version) {
    const json plan = json_of({"plan", "--vllm", version, "--ep", "8", "--tokens", "64"}, kLargeShape);
    return plan.at("points").at(0).at("backend").get<std::string>();
  };
  CHECK(backend("v0.9.1") == "naive");
  CHECK(backend("v0.12.0") == "allgather_reducescatter");
  CHECK(backend("v0.18.0") == "flashinfer_nvlink_one_sided");
  CHECK(backend("v0.21.0") == "flashinfer_nvlink_one_sided");
  const Outcome unknown =
      run_shaped({"plan", "--vllm", "v0.12.0", "--backend", "nixl_ep", "--ep", "8", "--tokens", "64"}, kLargeShape);
  CHECK(unknown.exit_code == 2);
  CHECK(contains(unknown.err, "deepep_low_latency"));
}

TEST_CASE("trtllm: the workspace of ep 32, 8192 tokens, hidden 7168, top_k 8 is 7.0 GiB in check, plan and upgrade") {
  const std::string command = "trtllm-serve M --tp_size 32 --ep_size 32 --enable_attention_dp --max_num_tokens 8192";
  constexpr std::int64_t kBytes = 7'534'413'312;
  const json checked = json_of({"check", "--nvlink-domain", "72"}, kLargeShape, command);
  const json planned =
      json_of({"plan", "--engine", "trtllm", "--ep", "32", "--tokens", "512", "--max-num-tokens", "8192"}, kLargeShape);
  const std::int64_t bytes = checked.at("capacity").at("workspace_bytes_per_rank");
  CHECK(bytes / 1024 / 1024 / 1024 == kBytes / 1024 / 1024 / 1024);
  CHECK(planned.at("points").at(0).at("capacity").at("workspace_bytes_per_rank") == bytes);
  CHECK(planned.at("points").at(0).at("can_run") == "yes");
  const json moved = upgrade("1.2.0rc8", "1.3.0rc24", command, {"--nvlink-domain", "72"});
  CHECK(fact(moved.at(0), "workspace per rank", "after") == "7.0 GiB");
}

TEST_CASE("upgrade: TensorRT-LLM 1.1 to 1.2.0rc3 to 1.3.0rc24 changes method, workspace and variables") {
  const std::string command =
      "TRTLLM_FORCE_ALLTOALL_METHOD=MNNVL TRTLLM_MOE_ALLTOALL_BACKEND=mnnvllatency trtllm-serve M --tp_size 8 "
      "--ep_size 8 "
      "--enable_attention_dp --max_num_tokens 8192 --moe_config.backend=TRTLLM";
  const Args rack = {"--nvlink-domain", "72"};
  const json first = upgrade("1.1", "1.2.0rc3", command, rack);
  REQUIRE(first.size() == 1);
  CHECK(contains(fact(first[0], "why this one", "before"), "top_k"));
  CHECK(fact(first[0], "all-to-all", "before") != fact(first[0], "all-to-all", "after"));
  const std::string plain = command.substr(command.find("trtllm-serve"));
  const json sized = upgrade("1.1", "1.2.0rc3", plain, rack), later = upgrade("1.2.0rc3", "1.3.0rc24", plain, rack);
  CHECK(fact(sized[0], "workspace per rank", "before") == "-");
  CHECK(fact(sized[0], "workspace per rank", "after") == "2.0 GiB");
  CHECK(fact(later[0], "workspace per rank", "after") == "1.8 GiB");
  const json second = upgrade("1.2.0rc3", "1.3.0rc24", command, rack);
  const std::string appeared = second[0].at("findings_appeared").dump();
  CHECK(contains(appeared, "not_read: TRTLLM_FORCE_ALLTOALL_METHOD"));
}

TEST_CASE("upgrade: a launch that leaves the machine open is answered for each") {
  const std::string command = "trtllm-serve M --tp_size 16 --ep_size 16 --enable_attention_dp --max_num_tokens 8192";
  const json open = upgrade("1.2.0rc3", "1.3.0rc24", command);
  REQUIRE(open.size() == 2);
  CHECK(contains(open[0].at("machine").get<std::string>(), "--nvlink-domain 8"));
  CHECK(contains(open[1].at("machine").get<std::string>(), "--nvlink-domain 72"));
  CHECK(fact(open[0], "all-to-all", "after") != fact(open[1], "all-to-all", "after"));
  const std::string vllm = "vllm serve M -dp 16 --enable-expert-parallel --all2all-backend deepep_low_latency";
  const json settled = upgrade("v0.12.0", "v0.20.0", vllm + " --max-num-seqs 128 --max-num-batched-tokens 256");
  REQUIRE(settled.size() == 1);
  CHECK(settled[0].at("machine").is_null());
  CHECK(contains(run({"upgrade", "--from", "v0.12.0", "--to", "v0.20.0"}, vllm).out, "1 server"));
}

TEST_CASE("versions: of each engine") {
  for (const Engine* engine : engines()) {
    const json list = json_of({"versions", "--engine", std::string(engine->name)}, {});
    CHECK(list.at("engine") == engine->name);
    CHECK(list.at("generations").size() == engine->versions().size());
    CHECK(contains(run({"versions", "--engine", std::string(engine->name)}).out, engine->versions().back()->name));
    for (const Version* version : engine->versions()) {  // as check says it of the same release
      const json& rows = list["generations"];
      const auto row = std::ranges::find_if(rows, [&](const json& one) { return one["name"] == version->name; });
      REQUIRE(row != rows.end());
      for (const Release& release : version->releases) {
        const auto match = find_version(*engine, release.name);
        REQUIRE(match);
        CHECK(contains((*row)["flashinfer"].get<std::string>(), std::string(engine->flashinfer(*match->version).tag)));
      }
    }
  }
  CHECK(run({"versions", "--engine", "nothing"}).exit_code == 2);
}

TEST_CASE("check: vLLM's start rules name both numbers and both flags") {
  const Outcome deepep =
      run({"check", "--vllm", "v0.20.0", "--", "vllm", "serve", "deepseek-ai/DeepSeek-R1", "--data-parallel-size", "16",
           "--enable-expert-parallel", "--all2all-backend", "deepep_low_latency", "--max-num-seqs", "512"});
  CHECK(deepep.exit_code == 1);
  for (const char* words : {"REJECTED", "256", "512", "--max-num-batched-tokens", "--max-num-seqs"})
    CHECK(contains(deepep.out, words));
  const Outcome eplb = run({"check", "--vllm", "v0.12.0", "--", "vllm", "serve", "deepseek-ai/DeepSeek-V3-0324",
                            "--tensor-parallel-size", "8", "--enable-expert-parallel", "--enable-eplb", "--eplb-config",
                            "{\"num_redundant_experts\": 2}"});
  CHECK(eplb.exit_code == 1);
  for (const char* words : {"REJECTED", "258", "258 on 8", "num_redundant_experts"}) CHECK(contains(eplb.out, words));
}

}  // namespace a2asim
