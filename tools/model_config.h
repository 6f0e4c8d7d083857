// A model's shape from the config.json that Hugging Face models carry.
#pragma once

#include <string>

#include "model/model_shapes.h"
#include "model/result.h"

namespace a2asim {

// text: the file's content; path: for messages. The fields may stand at the top or inside "text_config". Errors:
// bad_input, for text that is no JSON object (with line and column), a field that is no whole number, or missing.
Result<ModelShape> shape_from_config_json(const std::string& text, const std::string& path);

}  // namespace a2asim
