// Any bytes as a config.json give a shape that can be, or one line.
#include "tests/fuzz/input.h"
#include "tools/program/model_config.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace a2asim;
  const std::string text = fuzz::text_of(data, size);
  const Result<ModelShape> shape = shape_from_config_json(text, "fuzz.json");
  if (!shape)
    fuzz::require_bad_input(shape.error());
  else
    fuzz::require(shape->num_experts >= 1 && shape->top_k >= 1 && shape->hidden_size >= 1);
  static_cast<void>(quantization_from_config_json(text));
  return 0;
}
