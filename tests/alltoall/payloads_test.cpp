// As which payloads a token travels, and that every version's deployment says so.
#include "model/alltoall/payloads.h"

#include <doctest/doctest.h>

#include <string>

#include "model/flashinfer/capacity.h"
#include "model/step/engine.h"
#include "sim/cluster/replay_setup.h"
#include "sim/scenario/scenario_reader.h"

namespace a2asim {
namespace {

using Bytes = std::vector<std::int64_t>;

DispatchType sent(const std::string& version, const std::string& launch) {
  const auto scenario =
      parse_scenario("name: x\n" + version + "\nlaunch: " + launch +
                         "\nmodel: {num_experts: 8, top_k: 2, hidden_size: 64}\n"
                         "steps: [{mode: decode, tokens: [1, 1]}]\n",
                     "x");
  REQUIRE_MESSAGE(scenario.has_value(), scenario.error().message);
  const auto deployed = deploy(*scenario, "x", {});
  REQUIRE_MESSAGE(deployed.has_value(), deployed.error().message);
  REQUIRE(deployed->deployment != nullptr);
  return deployed->deployment->dispatch_type;
}

DispatchType sglang(const std::string& version, const std::string& words) {
  return sent("sglang: " + version,
              "python3 -m sglang.launch_server --tp-size 2 --dp-size 2 --enable-dp-attention "
              "--moe-a2a-backend flashinfer --moe-runner-backend flashinfer_trtllm_routed --model-path M " + words);
}

DispatchType vllm(const std::string& version, const std::string& model) {
  return sent("vllm: " + version, "vllm serve " + model +
                                      " -dp 2 --enable-expert-parallel --all2all-backend flashinfer_nvlink_one_sided");
}

}  // namespace

TEST_CASE("payloads: hidden states, scales where they are quantised, expert ids, weights") {
  const TokenPayloads plain = token_payloads(DispatchType::bf16, 64, 2);
  CHECK(plain.bytes == Bytes{128, 8, 8});
  CHECK(token_payloads(DispatchType::bf16, 64, 2, 4).bytes == Bytes{256, 8, 8});
  CHECK(plain.id_payload == 1);
  CHECK(plain.experts.weight_payload == 2);
  CHECK_FALSE(plain.experts.is_quantised());
  for (const auto& [type, bytes] :
       {std::pair{DispatchType::nvfp4, Bytes{32, 4, 8, 8}}, std::pair{DispatchType::mxfp8, Bytes{64, 2, 8, 8}}}) {
    CAPTURE(name(type));
    const TokenPayloads payloads = token_payloads(type, 64, 2);
    CHECK(payloads.bytes == bytes);
    CHECK(payload_bytes_per_token(type, 64, 2) == bytes);
    CHECK(payloads.id_payload == 2);
    CHECK(payloads.experts.hidden_payload == 0);
    CHECK(payloads.experts.scale_payload == 1);
    CHECK(payloads.experts.weight_payload == 3);
    CHECK(payloads.experts.type == type);
  }
}

TEST_CASE("payloads: their names") {
  CHECK(payload_words(DispatchType::bf16, 0) == "hidden states");
  CHECK(payload_words(DispatchType::bf16, 1) == "expert ids");
  CHECK(payload_words(DispatchType::bf16, 2) == "weights");
  CHECK(payload_words(DispatchType::bf16, 3) == "payload");
  CHECK(payload_words(DispatchType::bf16, -1) == "payload");
  CHECK(payload_words(DispatchType::nvfp4, 0) == "hidden states (NVFP4)");
  CHECK(payload_words(DispatchType::mxfp8, 0) == "hidden states (MXFP8)");
  CHECK(payload_words(DispatchType::mxfp8, 1) == "scales");
  CHECK(payload_words(DispatchType::mxfp8, 2) == "expert ids");
  CHECK(payload_words(DispatchType::nvfp4, 3) == "weights");
}

TEST_CASE("payloads: SGLang sends NVFP4 where the experts are, and the variable or the flag asks for it") {
  const std::string speculates = " --speculative-algorithm EAGLE --speculative-num-steps 1 --speculative-eagle-topk 1 "
                                 "--speculative-num-draft-tokens 2";
  for (const std::string version : {"pr26643", "pr30450", "pr35758"}) {
    CAPTURE(version);
    CHECK(sglang(version, "") == DispatchType::bf16);
    CHECK(sglang(version, "--quantization modelopt_fp4") == DispatchType::nvfp4);
    CHECK(sglang(version, "--quantization modelopt_fp4" + speculates) == DispatchType::nvfp4);  // the target's layers
    CHECK(sglang(version, "--quantization fp8") == DispatchType::bf16);
  }
  // Turned on for modelopt_fp4 only, from some version on.
  CHECK(sglang("pr30450", "--quantization nvfp4_online") == DispatchType::bf16);
  CHECK(sglang("pr30450\nenv: {SGLANG_MOE_NVFP4_DISPATCH: \"1\"}", "--quantization nvfp4_online") ==
        DispatchType::nvfp4);
  CHECK(sglang("pr30450\nenv: {SGLANG_MOE_NVFP4_DISPATCH: \"0\"}", "--quantization modelopt_fp4") ==
        DispatchType::bf16);
  CHECK(sglang("pr35758", "--quantization modelopt_fp4 --flashinfer-a2a-dispatch-type bf16") == DispatchType::bf16);
  CHECK(sglang("pr35758", "--flashinfer-a2a-dispatch-type nvfp4") == DispatchType::bf16);  // no layer has its scale
}

TEST_CASE("payloads: SGLang sends MXFP8 from the version on that has the flag") {
  CHECK(sglang("pr30450", "--quantization mxfp8") == DispatchType::bf16);
  for (const std::string flag : {"", " --flashinfer-a2a-dispatch-type auto", " --flashinfer-a2a-dispatch-type mxfp8"})
    CHECK(sglang("pr35758", "--quantization mxfp8" + flag) == DispatchType::mxfp8);
  CHECK(sglang("pr35758", "--quantization mxfp8 --flashinfer-a2a-dispatch-type bf16") == DispatchType::bf16);
  CHECK(sglang("pr35758", "--flashinfer-a2a-dispatch-type mxfp8") == DispatchType::bf16);
}

TEST_CASE("payloads: vLLM's and TensorRT-LLM's follow the model") {
  CHECK(vllm("v0.20.1", "M-NVFP4") == DispatchType::nvfp4);
  CHECK(vllm("v0.20.1", "M-MXFP8") == DispatchType::mxfp8);
  CHECK(vllm("v0.20.1", "M-bf16") == DispatchType::bf16);
}

}  // namespace a2asim
