#include "model/step/model_shapes.h"

#include <doctest/doctest.h>

#include <algorithm>

using namespace a2asim;

TEST_CASE("model shapes: presets are found by name, either case") {
  for (const ModelPreset& preset : model_presets()) {
    CHECK(find_model(preset.name)->shape == preset.shape);
    CHECK_FALSE(preset.source.empty());
    CHECK(preset.shape.top_k <= preset.shape.num_experts);
    CHECK(guess_model(preset.name)->name == preset.name);
  }
  CHECK(find_model("deepseek-v3")->shape == ModelShape{256, 8, 7168});
  const auto unknown = find_model("GPT-5");
  REQUIRE_FALSE(unknown.has_value());
  CHECK(unknown.error().kind == ErrorKind::bad_input);
  CHECK(unknown.error().message.find("Kimi-K2") != std::string::npos);
  CHECK(std::ranges::is_sorted(model_presets(), {}, &ModelPreset::name));
}

TEST_CASE("model shapes: guessed from the path") {
  const auto guessed = [](std::string_view path) {
    const auto preset = guess_model(path);
    return preset ? preset->name : std::string_view{};
  };
  CHECK(guessed("deepseek-ai/DeepSeek-R1-0528") == "DeepSeek-R1");
  CHECK(guessed("deepseek-ai/DeepSeek-V3.1") == "DeepSeek-V3");
  CHECK(guessed("nvidia/DeepSeek-V4-Pro-NVFP4") == "DeepSeek-V4-Pro");
  CHECK(guessed("/models/qwen3_30b_a3b/") == "Qwen3-30B-A3B");
  CHECK(guessed("Qwen/Qwen3-30B-A3B-Instruct-2507") == "Qwen3-30B-A3B");
  CHECK(guessed("moonshotai/Kimi-K2.5-NVFP4") == "Kimi-K2");
  CHECK(guessed("nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-NVFP4") == "Nemotron-3-Super-120B");
  CHECK(guessed("openai/gpt-oss-120b") == "GPT-OSS-120B");
  CHECK(guessed("openai/gpt-oss-20b").empty());
  CHECK(guessed("MODEL").empty());
  CHECK(guessed("").empty());
  CHECK(guessed("deepseek-ai/DeepSeek-R1-Distill-Llama-70B").empty());
  CHECK(guessed("deepseek-ai/DeepSeek-R1-0528-Qwen3-8B").empty());
}

TEST_CASE("model shapes: from the fields of a config.json") {
  HfConfigFields fields;
  fields.n_routed_experts = 256;
  fields.num_experts_per_tok = 8;
  fields.hidden_size = 7168;
  CHECK(shape_from_config(fields) == ModelShape{256, 8, 7168});
  fields.num_experts_per_tok.reset();
  CHECK(shape_from_config(fields).error().message.find("num_experts_per_tok") != std::string::npos);
  fields.num_experts_per_tok = 300;
  CHECK(shape_from_config(fields).error().kind == ErrorKind::bad_input);
  fields.num_experts_per_tok = 8;
  fields.hidden_size.reset();
  CHECK(shape_from_config(fields).error().message.find("hidden_size") != std::string::npos);
  fields.hidden_size = 0;
  CHECK_FALSE(shape_from_config(fields).has_value());
  CHECK(shape_from_config(HfConfigFields{}).error().message.find("n_routed_experts") != std::string::npos);
}
