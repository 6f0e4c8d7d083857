// The options that give a model's shape, the same in every command that needs one.
#pragma once

#include <CLI/App.hpp>
#include <optional>
#include <string>

#include "model/step/model_shapes.h"
#include "model/base/result.h"

namespace a2asim {

struct ShapeOptions {
  std::optional<std::string> model, model_config, num_experts, top_k, hidden_size;
};

// `otherwise` ends the help of --model: what happens without any of them.
void add_shape_options(CLI::App& command, ShapeOptions& options, const std::string& otherwise);

// The shape that the options give, or nothing where none is given. Errors: bad_input.
Result<std::optional<ModelShape>> shape_from_options(const ShapeOptions& options);

}  // namespace a2asim
