// What a release has besides the rules that it is named after: options, FlashInfer, start rules.
#include <fmt/format.h>

#include <algorithm>

#include "model/check/check.h"
#include "model/engines/sglang/deployment.h"
#include "model/engines/sglang/start/refused_argument.h"
#include "tests/launch.h"

using namespace a2asim;
using namespace a2asim::test;

namespace {

bool knows(std::string_view version, std::string_view option) {
  return option_set(find_generation(version)->generation->options).find(option) != nullptr;
}

// What deploy_command comes to: its error, what argparse says, or "".
std::string release_refusal(std::string_view version, const std::string& options) {
  DeployOptions how;
  how.version = *engines().front()->find_version(version);
  const auto deployed = deploy_command("python3 -m sglang.launch_server --model-path M " + options, how);
  if (!deployed) return "error: " + deployed.error().message;
  return deployed->refused ? deployed->refused->message : "";
}

const ServerArgs& started(const std::unique_ptr<Deployment>& deployment) { return sglang_part(*deployment).args; }

}  // namespace

TEST_CASE("every release has an option list and a FlashInfer of its own") {
  for (const Generation& version : generations())
    for (const Release& release : version.releases) {
      CAPTURE(release.name);
      const Generation& own = *find_generation(release.name)->generation;
      CHECK(own.name == version.name);
      CHECK((own.sizing == version.sizing));
      CHECK((own.options.name == release.name || release.name.find(".post") != std::string_view::npos));
      CHECK(own.options.until.empty());
      CHECK(&engine_of(own) == engines().front());
      CHECK(name_of_state(own) == release.name);
      CHECK(find_generation(release.name)->generation == &own);  // made once
    }
  CHECK(limits(find_generation("v0.5.9")->generation->capacity.flashinfer).tag == "v0.6.3");
  CHECK(limits(find_generation("v0.5.16")->generation->capacity.flashinfer).tag == "v0.6.14");
  CHECK(limits(find_generation("v0.5.18")->generation->capacity.flashinfer).tag == "v0.6.17");
}

TEST_CASE("an option is known from the release that brought it to the one that dropped it") {
  CHECK_FALSE(knows("pr14668", "--enable-return-indexer-topk"));
  CHECK(knows("v0.5.11", "--attn-cp-size"));
  CHECK(knows("v0.5.11", "--moe-dp-size"));
  CHECK(knows("v0.5.12", "--enable-deepep-waterfill"));
  CHECK_FALSE(knows("v0.5.11", "--enable-deepep-waterfill"));
  for (const char* release : {"v0.5.16", "v0.5.17", "v0.5.18"}) CHECK(knows(release, "--enable-waterfill"));
  CHECK_FALSE(knows("v0.5.15", "--enable-waterfill"));
  CHECK_FALSE(knows("pr30450", "--enable-waterfill"));
  CHECK(knows("v0.5.19", "--deepep-v2-mode"));
  CHECK_FALSE(knows("v0.5.19", "--flashinfer-a2a-dispatch-type"));
  for (const char* option : {"--flashinfer-a2a-dispatch-type", "--uno-lora-path", "--enable-response-store"})
    CHECK(knows("v0.5.20", option));
}

TEST_CASE("a day between two lists takes what either has") {
  CHECK(knows("2026-07-15", "--enable-waterfill"));  // came on 13 July; the lists are of 8 and 20 July
  CHECK(knows("2026-07-15", "--enable-deepep-waterfill"));
  CHECK_FALSE(knows("2026-07-04", "--enable-waterfill"));
  CHECK(find_generation("2026-07-08")->generation == find_generation("pr30450")->generation);
  CHECK(find_generation("2026-07-15")->generation->name == "pr30450");
  CHECK((find_generation("2026-04-20")->generation->graphs.decode_capture_sizes ==
         find_generation("v0.5.10")->generation->graphs.decode_capture_sizes));
  CHECK(find_generation("2026-04-20")->generation->release.empty());
  CHECK(description(options_at({"pr30450"}, "2026-07-15")) == "July 2026 (ca8f15cd70) to v0.5.16 (July 2026)");
  CHECK(options_at({"v0.5.20"}, "2027-01-01") == OptionList{"v0.5.20"});
}

TEST_CASE("an option of other releases is refused, with those that have it") {
  CHECK(release_refusal("v0.5.16", "--enable-waterfill --tp 4").empty());
  CHECK(release_refusal("v0.5.15", "--enable-waterfill --tp 4").find("unrecognized arguments: --enable-waterfill") !=
        std::string::npos);
  CHECK(release_refusal("pr22394", "--enable-waterfill --tp 4")
            .empty());  // a change and all that was built on it: a note
  const Generation& own = *find_generation("v0.5.15")->generation;
  const std::vector<std::string> words = {"--enable-waterfill"};
  CHECK(fix_for_unrecognized(own, words).find("use SGLang of v0.5.16 (July 2026) to v0.5.20") != std::string::npos);
}

TEST_CASE("what may be newer than all that is known is no rejection") {
  const std::string megamoe = release_refusal("2026-10-10", "--moe-a2a-backend flashinfer_megamoe");
  CHECK(megamoe.starts_with("error: --moe-a2a-backend flashinfer_megamoe: no version up to v0.5.20 (2026-09-18)"));
  CHECK(release_refusal("v0.5.19", "--not-an-option")
            .starts_with("error: --not-an-option is no option"));  // read in part
  CHECK(release_refusal("v0.5.18", "--moe-a2a-backend flashinfer_megamoe").find("invalid choice") != std::string::npos);
}

TEST_CASE("waterfill forces deepep, and later leaves megamoe alone") {
  const std::string base = "sglang serve --model-path M --tp 4 --dp 4 --enable-dp-attention ";
  CHECK(deploy("v0.5.17", base + "--enable-waterfill")->backend == "deepep");
  CHECK(deploy("v0.5.13", base + "--enable-deepep-waterfill --moe-a2a-backend megamoe")->backend == "deepep");
  CHECK(deploy("v0.5.16", base + "--enable-waterfill --moe-a2a-backend megamoe")->backend == "megamoe");
}

TEST_CASE("MXFP8 decides what the runner auto becomes") {
  const std::string base =
      "sglang serve --tp 4 --dp 4 --enable-dp-attention --moe-a2a-backend flashinfer --model-path org/";
  CHECK(deploy("2026-09-20", base + "Qwen3-30B-A3B-MXFP8")->rejections.empty());  // #39613
  CHECK_FALSE(deploy("2026-09-10", base + "Qwen3-30B-A3B-MXFP8")->rejections.empty());
  CHECK(deploy("2026-09-10", base + "M --quantization mxfp8")->rejections.empty());
  CHECK_FALSE(deploy("v0.5.16", base + "M --quantization mxfp8")->rejections.empty());  // becomes flashinfer_trtllm
}

TEST_CASE("prefill context parallelism forces what the model needs") {
  const std::string zigzag =
      "sglang serve --model deepseek-ai/DeepSeek-V3.2-Exp --tp 8 --dp 2 --enable-dp-attention "
      "--enable-nsa-prefill-context-parallel --nsa-prefill-cp-mode in-seq-split ";
  for (const char* version : {"v0.5.9", "v0.5.13", "2026-09-01"}) {
    CAPTURE(version);
    const auto deployment = deploy(version, zigzag);
    CHECK(deployment->backend == "deepep");
    CHECK(deployment->topology.attn_cp_size == 4);
    CHECK(deployment->topology.attn_tp_size == 1);
    CHECK(started(deployment).moe_dense_tp_size == 1);
    CHECK(deployment->rejections.empty());
  }
  const auto reject = [](std::string_view version, const std::string& options) {
    const auto deployment = deploy(version, "sglang serve --tp 8 " + options);
    return deployment->rejections.empty() ? "" : deployment->rejections.front().error.message;
  };
  const std::string dsa = "--model zai-org/GLM-5 --enable-nsa-prefill-context-parallel ";
  CHECK(reject("v0.5.13", dsa).empty());
  CHECK(reject("v0.5.13", dsa + "--dp 2").find("round-robin") != std::string::npos);
  CHECK(reject("v0.5.13", dsa + "--disaggregation-mode decode").find("prefill") != std::string::npos);
  CHECK(reject("v0.5.11", dsa + "--tp 4").find("tp_size 8") != std::string::npos);
  CHECK(reject("v0.5.13", dsa + "--tp 4").empty());
  CHECK(reject("v0.5.16", "--model M --enable-prefill-cp").find("--cp-strategy") != std::string::npos);
  CHECK(reject("v0.5.16", "--model deepseek-ai/DeepSeek-V4-Pro --enable-prefill-cp --cp-strategy zigzag")
            .find("interleave") != std::string::npos);

  const std::string mla = "sglang serve --tp 8 --model deepseek-ai/DeepSeek-R1 --enable-prefill-context-parallel";
  CHECK(deploy("v0.5.13", mla)->backend == "deepep");
  CHECK(deploy("v0.5.12", mla)->backend == "none");
  CHECK(deploy("v0.5.16", "sglang serve --tp 8 --model Qwen/Qwen3-235B-A22B --enable-prefill-cp --cp-strategy zigzag")
            ->backend == "none");
}

TEST_CASE("a prefill worker that never dispatches is not refused for what dispatch cannot do") {
  const std::string prefill = std::string(kGathered) + "--disaggregation-mode prefill ";
  const auto verdict = [](std::string_view version, const std::string& command) {
    return check_deployment(*deploy(version, command, ModelShape{288, 9, 7168})).verdict;
  };
  CHECK(verdict("pr35758", prefill) == Verdict::agrees);
  CHECK(verdict("pr35758", std::string(kGathered)) == Verdict::rejected);  // it decodes
  CHECK(verdict("pr30450", prefill) == Verdict::rejected);                 // prefill goes through dispatch
}

TEST_CASE("newest says its date and what has changed since") {
  const std::string note = find_generation("newest")->note;
  CHECK(note.find("v0.5.20 (2026-09-18)") != std::string::npos);
  CHECK(note.find("#39818") != std::string::npos);
}
