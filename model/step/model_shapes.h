// The three numbers of a mixture-of-experts model that the all-to-all needs, for models that people name.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string_view>

#include "model/base/result.h"

namespace a2asim {

struct ModelShape {
  std::int64_t num_experts = 0;  // routed experts, redundant copies and shared experts not counted
  std::int64_t top_k = 0;        // routed experts per token
  std::int64_t hidden_size = 0;
  bool operator==(const ModelShape&) const = default;
};

struct ModelPreset {
  std::string_view name;    // what --model takes
  std::string_view source;  // where the numbers come from
  ModelShape shape;
  // Text that, in --model-path, means this model; several presets may share a shape.
  std::string_view path_contains;
};

std::span<const ModelPreset> model_presets();  // sorted by name

// --model NAME, either case. Errors: bad_input with the names that there are.
Result<ModelPreset> find_model(std::string_view name);

// From --model-path, e.g. "nvidia/DeepSeek-V4-Pro-NVFP4": the preset whose text is contained, either case, with '_'
// read as '-'; of several the longest text. Nothing when no name is known.
std::optional<ModelPreset> guess_model(std::string_view model_path);

// What --quantization would be for this --model-path, where its name says so: "nvidia/DeepSeek-R1-0528-NVFP4" ->
// modelopt_fp4. Nothing for all other names.
std::optional<std::string_view> guess_quantization(std::string_view model_path);

// The fields of a HF config.json as far as they were found, at the top or inside "text_config" (reading the file is the
// caller's). The keys differ between families; the first one present counts.
struct HfConfigFields {
  std::optional<std::int64_t> num_experts;          // Qwen
  std::optional<std::int64_t> n_routed_experts;     // DeepSeek, Kimi, Nemotron
  std::optional<std::int64_t> num_local_experts;    // Mixtral, GPT-OSS
  std::optional<std::int64_t> num_experts_per_tok;  // nearly all
  std::optional<std::int64_t> top_k_experts;
  std::optional<std::int64_t> moe_topk;
  std::optional<std::int64_t> hidden_size;
};
// Errors: bad_input that names the missing key, or the number that cannot be (top_k > num_experts, not positive).
Result<ModelShape> shape_from_config(const HfConfigFields& fields);

}  // namespace a2asim
