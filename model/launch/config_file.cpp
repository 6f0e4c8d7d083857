// Files of options beside a command.
#include <fmt/format.h>

#include <algorithm>

#include "model/base/json_reader.h"
#include "model/launch/config_words.h"
#include "model/launch/launch_file.h"
#include "model/launch/yaml_reader.h"

namespace a2asim {
namespace {

constexpr int kMostDeep = 16;
constexpr std::size_t kMostWords = 20'000;

const LaunchSyntax* syntax_of(const LaunchCommand& command) {
  for (const LaunchSyntax* syntax : launch_syntaxes())
    if (command.front_end != nullptr && syntax->front_ends.front().engine == command.front_end->engine) return syntax;
  return nullptr;
}

nlohmann::json as_json(const YAML::Node& value, int depth) {
  if (value.IsNull() || !value.IsDefined() || depth > kMostDeep) return nullptr;
  if (value.IsScalar()) {
    const auto number = read_json(value.Scalar()).value_or(nlohmann::json());
    const bool is_quoted = value.Tag() == "!";
    return (number.is_number() || number.is_boolean()) && !is_quoted ? number : nlohmann::json(value.Scalar());
  }
  auto out = value.IsMap() ? nlohmann::json::object() : nlohmann::json::array();
  for (const auto& item : value)
    if (value.IsMap())
      out[item.first.IsScalar() ? item.first.Scalar() : ""] = as_json(item.second, depth + 1);
    else
      out.push_back(as_json(item, depth + 1));
  return out;
}

void add_nested(const YAML::Node& options, const std::string& prefix, int depth, std::vector<std::string>& words) {
  for (const auto& option : options) {
    if (!option.first.IsScalar() || depth > kMostDeep || words.size() > kMostWords) continue;
    const std::string name = prefix + option.first.Scalar();
    const YAML::Node& value = option.second;
    if (value.IsMap() && value.size() > 0)
      add_nested(value, name + ".", depth + 1, words);
    else if (value.IsNull())
      words.push_back("--" + name + "=null");
    else
      words.push_back("--" + name + "=" + (value.IsScalar() ? value.Scalar() : as_json(value, depth + 1).dump()));
  }
}

}  // namespace

// A map of options as words: true is the bare flag, false and null are left out, a list gives several values, a map is
// JSON.
std::vector<std::string> words_of_options(const YAML::Node& options) {
  std::vector<std::string> words;
  for (const auto& option : options) {
    if (!option.first.IsScalar()) continue;
    const YAML::Node& value = option.second;
    if (value.IsNull() || value.IsMap() || (value.IsScalar() && value.Scalar() == "false")) continue;
    std::string flag = option.first.Scalar();
    std::ranges::replace(flag, '_', '-');
    words.push_back("--" + flag);
    if (value.IsScalar() && value.Scalar() != "true") words.push_back(value.Scalar());
    if (value.IsMap()) words.push_back(as_json(value, 0).dump());
    if (value.IsSequence())
      for (const YAML::Node& item : value)
        if (item.IsScalar()) words.push_back(item.Scalar());
  }
  return words;
}

std::vector<std::string> nested_words(const YAML::Node& options) {
  std::vector<std::string> words;
  add_nested(options, "", 0, words);
  return words;
}

std::optional<ConfigUse> find_config(const LaunchCommand& command) {
  const LaunchSyntax* const syntax = syntax_of(command);
  if (syntax == nullptr) return std::nullopt;
  const std::vector<std::string>& argv = command.argv;
  for (std::size_t at = 0; at < argv.size(); ++at)
    for (const std::string_view option : syntax->config_options) {
      if (argv[at] == option && at + 1 < argv.size()) return ConfigUse{at, 2, argv[at + 1]};
      if (argv[at].starts_with(option) && argv[at].substr(option.size()).starts_with('='))
        return ConfigUse{at, 1, argv[at].substr(option.size() + 1)};
    }
  return std::nullopt;
}

Result<void> merge_config(LaunchCommand& command, const ConfigUse& use, const std::string& text) {
  const LaunchSyntax* const syntax = syntax_of(command);
  const Result<std::vector<YAML::Node>> documents = read_yaml(text);
  if (!documents) return fail(ErrorKind::bad_input, fmt::format("{}: {}", use.file, documents.error().message));
  const YAML::Node options = documents->empty() ? YAML::Node() : documents->front();
  if (documents->size() > 1 || (!options.IsMap() && !options.IsNull()))
    return fail(ErrorKind::bad_input, fmt::format("{}: line 1: expected a map of options", use.file));
  const bool nested = syntax != nullptr && syntax->config_is_nested;
  const std::vector<std::string> words = nested ? nested_words(options) : words_of_options(options);
  std::vector<std::string>& argv = command.argv;
  const auto at = argv.begin() + static_cast<std::ptrdiff_t>(use.at);
  argv.erase(at, at + static_cast<std::ptrdiff_t>(use.words));
  argv.insert(nested ? argv.end() : argv.begin(), words.begin(), words.end());
  return {};
}

}  // namespace a2asim
