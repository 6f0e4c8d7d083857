#include "tools/program/model_config.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

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

tl::unexpected<Error> unusable(const std::string& path, std::string_view what) {
  return fail(ErrorKind::bad_input, fmt::format("--model-config {}: {}", one_line(path), what));
}

std::string line_and_column(std::string_view text, std::size_t byte) {
  const std::string_view before = text.substr(0, byte == 0 ? 0 : std::min(byte - 1, text.size()));
  const std::size_t line_start = before.find_last_of('\n') + 1;  // npos + 1 is 0
  return fmt::format("line {}, column {}", std::ranges::count(before, '\n') + 1, before.size() - line_start + 1);
}

// SAX with a depth limit: nlohmann's own parser recurses in its destructor, and a file of brackets is no config.
bool too_deep(std::string_view text) {
  int depth = 0;
  for (const char c : text) {
    if (c == '{' || c == '[') ++depth;
    if (c == '}' || c == ']') --depth;
    if (depth > 200) return true;
  }
  return false;
}

Result<void> read_fields(const json& object, const std::string& path, HfConfigFields& fields) {
  for (const auto& [key, member] : kFields) {
    const auto found = object.find(key);
    if (found == object.end() || found->is_null()) continue;
    const bool fits = found->is_number_integer() && !(found->is_number_unsigned() && found->get<std::uint64_t>() >> 62);
    if (!fits) return unusable(path, fmt::format("\"{}\" is {}, not a whole number", key, one_line(found->dump(), 60)));
    fields.*member = found->get<std::int64_t>();
  }
  return {};
}

}  // namespace

Result<ModelShape> shape_from_config_json(const std::string& text, const std::string& path) {
  if (too_deep(text)) return unusable(path, "nested more than 200 deep; give the config.json of a Hugging Face model");
  json document;
  try {
    document = json::parse(text);
  } catch (const json::parse_error& error) {
    return unusable(path, fmt::format("no JSON at {}; give the config.json of a Hugging Face model",
                                      line_and_column(text, error.byte)));
  } catch (const json::exception&) {  // a number outside double
    return unusable(path, "a number in it is out of range; give the config.json of a Hugging Face model");
  }
  if (!document.is_object()) return unusable(path, "no JSON object; give the config.json of a Hugging Face model");
  HfConfigFields fields;
  const auto nested = document.find("text_config");
  if (nested != document.end() && nested->is_object()) {
    if (const Result<void> read = read_fields(*nested, path, fields); !read) return tl::unexpected(read.error());
  }
  if (const Result<void> read = read_fields(document, path, fields); !read) return tl::unexpected(read.error());
  const Result<ModelShape> shape = shape_from_config(fields);
  if (!shape) return unusable(path, shape.error().message);
  return shape;
}

std::optional<std::string> quantization_from_config_json(const std::string& text) {
  const json document = too_deep(text) ? json() : json::parse(text, nullptr, /*allow_exceptions=*/false);
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
