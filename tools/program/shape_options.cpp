#include "tools/program/shape_options.h"

#include <fmt/format.h>

#include "tools/program/input.h"
#include "tools/program/model_config.h"

namespace a2asim {
namespace {

constexpr std::int64_t kMostExperts = 1 << 20;
constexpr std::int64_t kMostHidden = 1 << 20;

Result<std::optional<ModelShape>> shape_from_numbers(const ShapeOptions& options) {
  if (!options.num_experts && !options.top_k && !options.hidden_size) return std::nullopt;
  if (!options.num_experts || !options.top_k || !options.hidden_size) {
    return unusable("--num-experts, --top-k and --hidden-size belong together: give all three, or --model NAME");
  }
  const Result<std::int64_t> num_experts = parse_count("--num-experts", *options.num_experts, 1, kMostExperts);
  if (!num_experts) return tl::unexpected(num_experts.error());
  const Result<std::int64_t> hidden_size = parse_count("--hidden-size", *options.hidden_size, 1, kMostHidden);
  if (!hidden_size) return tl::unexpected(hidden_size.error());
  const Result<std::int64_t> top_k = parse_count("--top-k", *options.top_k, 1, kMostExperts);
  if (!top_k) return tl::unexpected(top_k.error());
  if (*top_k > *num_experts) {
    return unusable(
        fmt::format("--top-k {} is more than --num-experts {}: a token cannot have more experts than there are", *top_k,
                    *num_experts));
  }
  return ModelShape{*num_experts, *top_k, *hidden_size};
}

}  // namespace

void add_shape_options(CLI::App& command, ShapeOptions& options, const std::string& otherwise) {
  command.add_option("--model", options.model, "A known model's shape" + otherwise)->type_name("NAME");
  command.add_option("--model-config", options.model_config, "The shape from a Hugging Face config.json")
      ->type_name("FILE");
  command.add_option("--num-experts", options.num_experts, "The shape in numbers: routed experts")->type_name("N");
  command.add_option("--top-k", options.top_k, "..: experts of a token")->type_name("K");
  command.add_option("--hidden-size", options.hidden_size, "..: elements of a hidden state")->type_name("H");
}

Result<std::optional<ModelShape>> shape_from_options(const ShapeOptions& options) {
  const int sources = (options.model ? 1 : 0) + (options.model_config ? 1 : 0) +
                      (options.num_experts || options.top_k || options.hidden_size ? 1 : 0);
  if (sources > 1) {
    return unusable(
        "--model, --model-config and --num-experts/--top-k/--hidden-size exclude each other: give one of them");
  }
  if (options.model) {
    const Result<ModelPreset> preset = find_model(*options.model);
    if (!preset) return tl::unexpected(preset.error());
    return preset->shape;
  }
  if (options.model_config) {
    const Result<std::string> text = read_text_file(*options.model_config);
    if (!text) return unusable("--model-config: " + text.error().message);
    const Result<ModelShape> shape = shape_from_config_json(*text, *options.model_config);
    if (!shape) return tl::unexpected(shape.error());
    return *shape;
  }
  return shape_from_numbers(options);
}

}  // namespace a2asim
