#include "tools/check/yaml_launch.h"

#include <yaml-cpp/yaml.h>

#include <algorithm>

#include "model/launch/launch_text.h"
#include "model/launch/shell_syntax.h"

namespace a2asim {
namespace {

constexpr std::size_t kMostBytes = 1 << 20;
constexpr int kMostNodes = 100'000;  // aliases of aliases would be walked without end
constexpr int kMostDeep = 100;       // and so would an alias of what it stands in

// A command given as one text is split into words by no shell: its line ends are blanks and # is nothing special.
std::string as_one_line(const std::string& text) {
  std::string line;
  char quote = '\0';
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    const char next = i + 1 < text.size() ? text[i + 1] : '\0';
    if (quote == '\0' && c == '\\' && next == '\n') continue;
    if (quote == '\0' && c == '#' && (line.empty() || line.back() == ' '))
      line += "'#'";
    else
      line += quote == '\0' && c == '\n' ? ' ' : c;
    if (c != quote && (quote != '\0' || (c != '\'' && c != '"'))) continue;
    quote = quote == '\0' ? c : '\0';
  }
  return line;
}

// One element of a list. Variables that the tool fills in stay visible, a whole script is kept for the shell that runs
// it.
std::string as_word(const std::string& word) {
  const bool has_variable = word.find('$') != std::string::npos;
  return has_variable && word.find_first_of(" \t\n\"\\`") == std::string::npos ? '"' + word + '"' : shell_quote(word);
}

std::string words_of(const YAML::Node& value) {
  if (value.IsScalar()) return ' ' + as_one_line(value.Scalar());
  std::string words;
  if (value.IsSequence())
    for (const YAML::Node& item : value)
      if (item.IsScalar()) words += ' ' + as_word(item.Scalar());
  return words;
}

std::string setting(const std::string& name, const std::string& value) {
  return assigned_name(name + '=').empty() ? "" : name + '=' + shell_quote(value) + ' ';
}

// environment: {A: 1} or [A=1], env: [{name: A, value: 1}].
std::string settings_of(const YAML::Node& value) {
  std::string settings;
  if (value.IsMap())
    for (const auto& item : value)
      if (item.second.IsScalar()) settings += setting(item.first.Scalar(), item.second.Scalar());
  if (!value.IsSequence()) return settings;
  for (const YAML::Node& item : value) {
    if (item.IsScalar()) {
      const std::string name(assigned_name(item.Scalar()));
      if (!name.empty()) settings += setting(name, item.Scalar().substr(name.size() + 1));
    } else if (item.IsMap() && item["name"] && item["value"] && item["value"].IsScalar()) {
      settings += setting(item["name"].Scalar(), item["value"].Scalar());
    }
  }
  return settings;
}

class Containers {
 public:
  void walk(const YAML::Node& node, int depth = 0) {
    if (++nodes_ > kMostNodes || depth > kMostDeep) return;
    if (node.IsMap()) add(node);
    if (node.IsMap())
      for (const auto& item : node) walk(item.second, depth + 1);
    if (node.IsSequence())
      for (const YAML::Node& item : node) walk(item, depth + 1);
  }
  const std::string& text() const { return text_; }

 private:
  void add(const YAML::Node& container) {
    std::string settings, words;
    for (const char* key : {"environment", "env"})
      if (container[key]) settings += settings_of(container[key]);
    for (const char* key : {"entrypoint", "command", "args"})
      if (container[key]) words += words_of(container[key]);
    if (!words.empty()) text_ += settings + words + '\n';
  }

  std::string text_;
  int nodes_ = 0;
};

bool may_be_yaml(std::string_view text) {
  return std::ranges::any_of(std::initializer_list<std::string_view>{"command:", "args:", "entrypoint:"},
                             [&](std::string_view key) { return text.find(key) != std::string_view::npos; });
}

}  // namespace

std::optional<std::string> shell_text_of_yaml(const std::string& text) {
  if (text.size() > kMostBytes || !may_be_yaml(text)) return std::nullopt;
  Containers containers;
  try {
    for (const YAML::Node& document : YAML::LoadAll(text)) containers.walk(document);
  } catch (const YAML::Exception&) {
    return std::nullopt;  // shell text that holds such a word
  }
  return containers.text().empty() ? std::nullopt : std::optional(containers.text());
}

Result<LaunchCommand> parse_launch_text(const std::string& text) {
  if (const auto shell_text = shell_text_of_yaml(text))
    if (auto command = parse_launch_command(*shell_text)) return command;
  return parse_launch_command(text);
}

}  // namespace a2asim
