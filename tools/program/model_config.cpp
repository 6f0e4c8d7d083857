#include "tools/program/model_config.h"

#include <fmt/format.h>

#include <array>
#include <utility>

#include "model/base/json_reader.h"
#include "tools/program/text.h"

namespace a2asim {
namespace {

using nlohmann::json;

constexpr std::array<std::pair<const char*, std::optional<std::int64_t> HfConfigFields::*>, 7> kFields = {{
    {"num_experts", &HfConfigFields::num_experts},
    {"n_routed_experts", &HfConfigFields::n_routed_experts},
    {"num_local_experts", &HfConfigFields::num_local_experts},
    {"num_experts_per_tok", &HfConfigFields::num_experts_per_tok},
    {"top_k_experts", &HfConfigFields::top_k_experts},
    {"moe_topk", &HfConfigFields::moe_topk},
    {"hidden_size", &HfConfigFields::hidden_size},
}};

tl::unexpected<Error> unusable_config(const std::string& path, std::string_view what) {
  return fail(ErrorKind::bad_input, fmt::format("--model-config {}: {}", one_line(path), what));
}

Result<void> read_fields(const json& object, const std::string& path, HfConfigFields& fields) {
  for (const auto& [key, member] : kFields) {
    const auto found = object.find(key);
    if (found == object.end() || found->is_null()) continue;
    const bool fits = found->is_number_integer() && !(found->is_number_unsigned() && found->get<std::uint64_t>() >> 62);
    if (!fits)
      return unusable_config(path, fmt::format("\"{}\" is {}, not a whole number", key, one_line(found->dump(), 60)));
    fields.*member = found->get<std::int64_t>();
  }
  return {};
}

}  // namespace

Result<ModelShape> shape_from_config_json(const std::string& text, const std::string& path) {
  const Result<json> read = read_json(text);
  if (!read) return unusable_config(path, read.error().message + "; give the config.json of a Hugging Face model");
  const json& document = *read;
  if (!document.is_object())
    return unusable_config(path, "no JSON object; give the config.json of a Hugging Face model");
  HfConfigFields fields;
  const auto nested = document.find("text_config");
  if (nested != document.end() && nested->is_object()) {
    if (const Result<void> own = read_fields(*nested, path, fields); !own) return tl::unexpected(own.error());
  }
  if (const Result<void> own = read_fields(document, path, fields); !own) return tl::unexpected(own.error());
  const Result<ModelShape> shape = shape_from_config(fields);
  if (!shape) return unusable_config(path, shape.error().message);
  return shape;
}

std::optional<std::string> quantization_from_config_json(const std::string& text) {
  const json document = read_json(text).value_or(json());
  if (!document.is_object()) return std::nullopt;
  for (const json& object : {document, document.value("text_config", json())}) {
    if (!object.is_object()) continue;
    const json config = object.value("quantization_config", json());
    if (!config.is_object()) continue;
    if (config.value("quant_method", json()) == "modelopt_fp4" || config.value("quant_algo", json()) == "NVFP4")
      return "modelopt_fp4";
  }
  return std::nullopt;
}

}  // namespace a2asim
