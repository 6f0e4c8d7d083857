// A model's shape from the config.json that Hugging Face models carry.
#pragma once

#include <optional>
#include <string>

#include "model/step/model_shapes.h"
#include "model/base/result.h"

namespace a2asim {

// text: the file's content; path: for messages. The fields may stand at the top or inside "text_config". Errors:
// bad_input, for text that is no JSON object (with line and column), a field that is no whole number, or missing.
Result<ModelShape> shape_from_config_json(const std::string& text, const std::string& path);

// What --quantization SGLang takes from this config: "modelopt_fp4" where it says NVFP4. Nothing for any other text.
std::optional<std::string> quantization_from_config_json(const std::string& text);

}  // namespace a2asim
