#include "model/step/model_shapes.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string>

namespace a2asim {
namespace {

// The values of the repositories' config.json at huggingface.co: num_experts, n_routed_experts or num_local_experts;
// num_experts_per_tok; hidden_size. Nemotron-3-Super projects to moe_latent_size = 1024 inside its experts; hidden_size
// is the width outside.
constexpr std::array<ModelPreset, 14> kPresets{{
    {"DeepSeek-R1", "deepseek-ai/DeepSeek-R1 config.json", {256, 8, 7168}, "deepseek-r1"},
    {"DeepSeek-V2-Lite", "deepseek-ai/DeepSeek-V2-Lite config.json", {64, 6, 2048}, "deepseek-v2-lite"},
    {"DeepSeek-V3", "deepseek-ai/DeepSeek-V3 config.json", {256, 8, 7168}, "deepseek-v3"},
    {"DeepSeek-V4-Flash", "deepseek-ai/DeepSeek-V4-Flash config.json", {256, 6, 4096}, "deepseek-v4-flash"},
    {"DeepSeek-V4-Pro", "deepseek-ai/DeepSeek-V4-Pro config.json", {384, 6, 7168}, "deepseek-v4-pro"},
    {"GLM-5", "zai-org/GLM-5 config.json", {256, 8, 6144}, "glm-5"},
    {"GPT-OSS-120B", "openai/gpt-oss-120b config.json", {128, 4, 2880}, "gpt-oss-120b"},
    {"Kimi-K2", "moonshotai/Kimi-K2-Instruct config.json", {384, 8, 7168}, "kimi-k2"},
    {"Mixtral-8x7B", "mistralai/Mixtral-8x7B-v0.1 config.json", {8, 2, 4096}, "mixtral-8x7b"},
    {"Nemotron-3-Super-120B",
     "nvidia/NVIDIA-Nemotron-3-Super-120B-A12B-BF16 config.json",
     {512, 22, 4096},
     "nemotron-3-super-120b"},
    {"Qwen3-235B-A22B", "Qwen/Qwen3-235B-A22B config.json", {128, 8, 4096}, "qwen3-235b-a22b"},
    {"Qwen3-30B-A3B", "Qwen/Qwen3-30B-A3B config.json", {128, 8, 2048}, "qwen3-30b-a3b"},
    {"Qwen3-Next-80B-A3B", "Qwen/Qwen3-Next-80B-A3B-Instruct config.json", {512, 10, 2048}, "qwen3-next-80b-a3b"},
    {"Qwen3.5-397B-A17B", "Qwen/Qwen3.5-397B-A17B config.json (text_config)", {512, 10, 4096}, "qwen3.5-397b-a17b"},
}};

// Not the family's shape although the family's name is contained: distilled dense models.
constexpr std::array<std::string_view, 2> kNotThese{"distill", "qwen3-8b"};

std::string normalized(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (c == '_') c = '-';
  }
  return out;
}

template <std::size_t N>
std::optional<std::int64_t> first_of(const std::array<std::optional<std::int64_t>, N>& candidates) {
  for (const auto& candidate : candidates)
    if (candidate) return candidate;
  return std::nullopt;
}

}  // namespace

std::span<const ModelPreset> model_presets() { return kPresets; }

Result<ModelPreset> find_model(std::string_view name) {
  const std::string wanted = normalized(name);
  std::string known;
  for (const ModelPreset& preset : kPresets) {
    if (normalized(preset.name) == wanted) return preset;
    known += known.empty() ? "" : ", ";
    known += preset.name;
  }
  return fail(ErrorKind::bad_input,
              fmt::format("--model: no preset is named '{}'; there are {}; or give --num-experts, --top-k and "
                          "--hidden-size",
                          name, known));
}

std::optional<ModelPreset> guess_model(std::string_view model_path) {
  const std::string path = normalized(model_path);
  for (const std::string_view other : kNotThese)
    if (path.find(other) != std::string::npos) return std::nullopt;
  std::optional<ModelPreset> best;
  for (const ModelPreset& preset : kPresets)
    if (path.find(preset.path_contains) != std::string::npos &&
        (!best || preset.path_contains.size() > best->path_contains.size()))
      best = preset;
  return best;
}

// NVIDIA's older repositories end in FP4 alone; MXFP4 is another format.
std::optional<std::string_view> guess_quantization(std::string_view model_path) {
  const std::string path = normalized(model_path);
  const bool nvidia_fp4 = path.starts_with("nvidia/") && path.find("-fp4") != std::string::npos;
  if (path.find("nvfp4") != std::string::npos || nvidia_fp4) return "modelopt_fp4";
  if (path.find("mxfp8") != std::string::npos) return "mxfp8";
  return std::nullopt;
}

Result<ModelShape> shape_from_config(const HfConfigFields& fields) {
  const auto num_experts = first_of(std::array{fields.num_experts, fields.n_routed_experts, fields.num_local_experts});
  const auto top_k = first_of(std::array{fields.num_experts_per_tok, fields.top_k_experts, fields.moe_topk});
  if (!num_experts)
    return fail(ErrorKind::bad_input,
                "the model config has none of num_experts, n_routed_experts, num_local_experts: is it a "
                "mixture-of-experts model? Else give --num-experts");
  if (!top_k)
    return fail(ErrorKind::bad_input,
                "the model config has none of num_experts_per_tok, top_k_experts, moe_topk: give --top-k");
  if (!fields.hidden_size) return fail(ErrorKind::bad_input, "the model config has no hidden_size: give --hidden-size");
  if (*num_experts < 1 || *top_k < 1 || *fields.hidden_size < 1 || *top_k > *num_experts)
    return fail(ErrorKind::bad_input,
                fmt::format("the model config cannot be right: {} experts, {} of them per token, hidden_size {}",
                            *num_experts, *top_k, *fields.hidden_size));
  return ModelShape{*num_experts, *top_k, *fields.hidden_size};
}

}  // namespace a2asim
