// docker-compose and Kubernetes files, and recipes that list the server's options, as shell text.
#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "model/launch/config_words.h"
#include "model/launch/file_kinds.h"
#include "model/launch/front_end.h"
#include "model/launch/launch_file.h"
#include "model/launch/launch_text.h"
#include "model/launch/shell_expand.h"
#include "model/launch/shell_syntax.h"
#include "model/launch/yaml_reader.h"

namespace a2asim {
namespace {

constexpr std::size_t kMostBytesOfFile = std::size_t{4} << 20;  // of all commands of a file, with what ConfigMaps bring

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

using Settings = std::map<std::string, std::string>;  // names that a shell can export

void add_setting(Settings& settings, const std::string& name, const std::string& value) {
  if (!assigned_name(name + '=').empty()) settings.insert_or_assign(name, value);
}

std::string scalar_of(const YAML::Node& map, const char* key) {
  return map.IsMap() && map[key] && map[key].IsScalar() ? map[key].Scalar() : std::string();
}

// $(NAME) as Kubernetes fills it in.
std::string filled(std::string_view text, const Settings& settings, const Environment& given) {
  std::string out;
  for (std::size_t begin = text.find("$("); begin != std::string_view::npos; begin = text.find("$(")) {
    const std::size_t end = text.find(')', begin);
    if (end == std::string_view::npos || out.size() > kMostBytesOfFile)
      break;  // too long for a launch, as is said later
    const std::string name(text.substr(begin + 2, end - begin - 2));
    const auto found = settings.find(name);
    const auto outer = given.get(name);
    out += text.substr(0, begin);
    out += outer ? *outer : found != settings.end() ? found->second : text.substr(begin, end + 1 - begin);
    text.remove_prefix(end + 1);
  }
  return out.append(text);
}

// ${TAG:-latest} as compose fills it in, from the surrounding environment.
std::string defaults_of(const std::string& text, const Environment& given) {
  ShellVariables variables;
  for (const auto& [name, value] : given.values()) variables.set(name, {value});
  return ShellExpander(variables).text(text).text;
}

// ${{ variables.TAG }} of sflow and GitHub's workflows, as a variable that a shell may know or leave open.
std::string with_named_expressions(std::string_view text) {
  std::string out;
  for (std::size_t begin = text.find("${{"); begin != std::string_view::npos; begin = text.find("${{")) {
    const std::size_t end = text.find("}}", begin);
    if (end == std::string_view::npos) break;
    std::string name;
    for (const char c : text.substr(begin + 3, end - begin - 3))
      if (c != ' ') name += is_shell_name_char(c) ? c : '_';
    out += text.substr(0, begin);
    out += "${" + (name.empty() || (name[0] >= '0' && name[0] <= '9') ? "_" + name : name) + '}';
    text.remove_prefix(end + 2);
  }
  return out.append(text);
}

class Containers {
 public:
  explicit Containers(const Environment& given) : given_(given) {}

  void walk(const YAML::Node& node, const std::string& name) {
    if (node.IsMap()) {
      const std::string own = scalar_of(node, "name");
      add(node, own.empty() ? name : own);
      for (const LaunchSyntax* syntax : launch_syntaxes()) {
        if (!syntax->recipe_key.empty()) add_recipe(node, *syntax);
        add_component(node, own.empty() ? name : own, syntax->front_ends);
      }
      add_script(node, own.empty() ? name : own);
      for (const auto& item : node) {
        const std::string key = item.first.IsScalar() ? item.first.Scalar() : name;
        if (!key.starts_with("x-")) walk(item.second, key);  // compose: only what refers to it counts
      }
    }
    if (node.IsSequence())
      for (const YAML::Node& item : node) walk(item, name);
  }

  // ConfigMaps of the same file, by name.
  void keep_config_map(const YAML::Node& document) {
    if (scalar_of(document, "kind") != "ConfigMap" || !document["data"] || !document["data"].IsMap()) return;
    Settings& data = config_maps_[document["metadata"] ? scalar_of(document["metadata"], "name") : ""];
    for (const auto& item : document["data"])
      if (item.first.IsScalar() && item.second.IsScalar()) data[item.first.Scalar()] = item.second.Scalar();
  }

  // resources: {gpu_type: gb200} and model: {container: NAME:TAG}, as srt-slurm keeps them.
  void keep_recipe(const YAML::Node& document) {
    if (!document.IsMap()) return;
    if (document["resources"]) gpu_ = scalar_of(document["resources"], "gpu_type");
    if (document["model"] && document["model"].IsMap()) container_ = scalar_of(document["model"], "container");
  }

  // variables: {NAME: VALUE} of GitLab, exported to every script; {NAME: {value: VALUE}} of sflow and GitLab.
  void keep_variables(const YAML::Node& document) {
    if (!document.IsMap() || !document["variables"] || !document["variables"].IsMap()) return;
    for (const auto& item : document["variables"]) {
      if (!item.first.IsScalar()) continue;
      const std::string name = item.first.Scalar();
      const std::string value = item.second.IsScalar() ? item.second.Scalar() : scalar_of(item.second, "value");
      add_setting(variables_, name, value);
      add_setting(variables_, "variables_" + name, value);
    }
  }

  // A document that is a file of options itself.
  void add_config(const YAML::Node& document) {
    if (!pieces_.empty() || !document.IsMap()) return;
    for (const LaunchSyntax* syntax : launch_syntaxes()) {
      if (syntax->config_key.empty() || !document[std::string(syntax->config_key)]) continue;
      LaunchPiece piece{std::string(syntax->front_ends.front().command), "", 1, false, {}};
      for (const std::string& word : nested_words(document)) piece.text += ' ' + as_word(word);
      piece.text += '\n';
      pieces_.push_back(std::move(piece));
    }
  }

  bool is_too_large() const { return bytes_ > kMostBytesOfFile; }
  std::vector<LaunchPiece> pieces() && { return std::move(pieces_); }

 private:
  // environment: {A: 1} or [A=1], env: [{name: A, value: 1}], envFrom: [{configMapRef: {name: N}}].
  void read_settings(const YAML::Node& value, Settings& settings, LaunchPiece& piece) {
    if (value.IsMap())
      for (const auto& item : value)
        if (item.first.IsScalar() && item.second.IsScalar())
          add_setting(settings, item.first.Scalar(), item.second.Scalar());
    if (!value.IsSequence()) return;
    for (const YAML::Node& item : value) {
      if (item.IsScalar()) {
        const std::string name(assigned_name(item.Scalar()));
        if (!name.empty()) add_setting(settings, name, item.Scalar().substr(name.size() + 1));
      } else if (item.IsMap()) {
        read_reference(item, settings, piece);
      }
    }
  }

  void read_reference(const YAML::Node& item, Settings& settings, LaunchPiece& piece) {
    const std::string name = scalar_of(item, "name");
    if (item["value"] && item["value"].IsScalar())
      add_setting(settings, name, filled(item["value"].Scalar(), settings, given_));
    const YAML::Node from =
        item["valueFrom"] && item["valueFrom"].IsMap() ? item["valueFrom"]["configMapKeyRef"] : YAML::Node();
    if (item["valueFrom"] && !from && is_variable_of_engines(name) && !given_.get(name))
      piece.unread.push_back(fmt::format("{}, which valueFrom gives", name));
    const YAML::Node all = item["configMapRef"];
    for (const YAML::Node& reference : {from, all}) {
      if (!reference || !reference.IsMap()) continue;
      const auto map = config_maps_.find(scalar_of(reference, "name"));
      if (map == config_maps_.end()) {
        piece.unread.push_back(fmt::format("ConfigMap {}, which is not in this file", scalar_of(reference, "name")));
      } else if (const std::string key = scalar_of(reference, "key"); !key.empty()) {
        if (map->second.contains(key)) add_setting(settings, name, map->second.at(key));
      } else {
        for (const auto& [own, value] : map->second) {
          if ((bytes_ += own.size() + value.size()) > kMostBytesOfFile) return;
          add_setting(settings, own, value);
        }
      }
    }
  }

  static std::string text_of(const Settings& settings) {
    std::string text;
    for (const auto& [name, value] : settings) text += name + '=' + shell_quote(value) + ' ';
    return text;
  }

  void add(const YAML::Node& container, const std::string& name) {
    LaunchPiece piece{"", name, 0, false, {}};
    piece.image = scalar_of(container, "image");
    piece.gpu = gpu_;
    if (const std::string image = scalar_of(container, "image"); !image.empty())
      piece.images.push_back(filled(defaults_of(image, given_), {}, given_));
    Settings settings;
    std::string words;
    for (const char* key : {"envFrom", "environment", "env"})
      if (container[key]) read_settings(container[key], settings, piece);
    for (const char* key : {"entrypoint", "command", "args"}) {
      if (!container[key]) continue;
      words += words_of(container[key]);
      if (piece.line == 0) piece.line = static_cast<std::size_t>(container[key].Mark().line) + 1;
    }
    if (words.empty() || bytes_ > kMostBytesOfFile) return;
    if (front_end_of_image(piece.image) != nullptr) words.insert(0, ' ' + as_word(piece.image));
    piece.text = files() + text_of(settings) + filled(words, settings, given_) + '\n';
    bytes_ += piece.text.size();
    pieces_.push_back(std::move(piece));
  }

  // A task's commands: script: [LINE, ..] of GitLab and sflow, run: TEXT of GitHub's workflows.
  void add_script(const YAML::Node& task, const std::string& name) {
    for (const char* key : {"script", "run"}) {
      const YAML::Node script = task[key];
      if (!script || script.IsMap()) continue;
      LaunchPiece piece{files(), name, static_cast<std::size_t>(script.Mark().line) + 1, false, {}};
      Settings settings = variables_;
      for (const char* own : {"variables", "env"})
        if (task[own]) read_settings(task[own], settings, piece);
      for (const auto& [variable, value] : settings)
        piece.text += fmt::format("export {}={}\n", variable, shell_quote(value));
      if (const std::string image = scalar_of(task, "image"); !image.empty()) piece.images.push_back(image);
      if (script.IsScalar()) piece.text += with_named_expressions(script.Scalar()) + '\n';
      if (script.IsSequence())
        for (const YAML::Node& line : script)
          if (line.IsScalar()) piece.text += with_named_expressions(line.Scalar()) + '\n';
      if (!names_a_server(piece.text)) continue;  // a workflow has many other steps
      if ((bytes_ += piece.text.size()) > kMostBytesOfFile) return;
      pieces_.push_back(std::move(piece));
    }
  }

  // KEY: {prefill: {tensor-parallel-size: 4, enable-dp-attention: true}, ..}, as srt-slurm keeps a deployment.
  void add_recipe(const YAML::Node& backend, const LaunchSyntax& syntax) {
    const YAML::Node roles = backend[std::string(syntax.recipe_key)];
    if (!roles || !roles.IsMap()) return;
    for (const auto& role : roles) {
      if (!role.first.IsScalar() || !role.second.IsMap()) continue;
      LaunchPiece piece{"", role.first.Scalar(), static_cast<std::size_t>(role.second.Mark().line) + 1, false, {}};
      Settings settings;
      const YAML::Node environment = backend[piece.name + "_environment"];
      if (environment) read_settings(environment, settings, piece);
      piece.text = text_of(settings) + std::string(syntax.front_ends.front().command);
      piece.gpu = gpu_;
      if (!container_.empty()) piece.images.push_back(container_);
      if (syntax.config_is_nested && (piece.name == "prefill" || piece.name == "decode"))
        piece.text += " --disaggregation_mode=" + piece.name;
      for (const std::string& word :
           syntax.config_is_nested ? nested_words(role.second) : words_of_options(role.second))
        piece.text += ' ' + as_word(word);
      piece.text += '\n';
      pieces_.push_back(std::move(piece));
    }
  }

  // ConfigMaps are mounted: their YAML files and scripts, as a shell would write them. Of a name that two of them have,
  // the container's own is not known.
  std::string files() const {
    constexpr std::string_view kEnd = "END_OF_CONFIG_MAP";
    std::map<std::string, int> count;
    for (const auto& [name, data] : config_maps_)
      for (const auto& [file, content] : data) ++count[file];
    std::string text;
    for (const auto& [name, data] : config_maps_)
      for (const auto& [file, content] : data)
        if ((file.ends_with(".yaml") || file.ends_with(".yml") || is_named_as_script(file)) && count[file] == 1 &&
            content.find(kEnd) == std::string::npos)
          text += fmt::format("cat > {} <<'{}'\n{}\n{}\n", shell_quote(file), kEnd, content, kEnd);
    return text;
  }

  // A component of Dynamo or AIConfigurator: SGLangWorker: {model-path: M, tp: 8, ..}, or its args without a command.
  void add_component(const YAML::Node& component, const std::string& name, std::span<const FrontEnd> front_ends) {
    // With the engine's own image, its arguments are a container's, see add().
    const std::string image = scalar_of(component, "image");
    if (front_end_of_image(image) != nullptr) return;
    const bool has_command = component["command"] || component["entrypoint"];
    const bool has_model = component["model-path"] || component["model_path"];
    const YAML::Node args = component["args"];
    const bool has_args = args && args.IsSequence() && !has_command;
    if ((!has_args && !has_model) || !is_worker_of(front_ends.front().engine, component, name)) return;
    std::string words;
    if (has_args) {
      for (const YAML::Node& item : args)  // "--tp 8" is two words here
        if (item.IsScalar()) words += ' ' + as_one_line(item.Scalar());
      if (!words.starts_with(" --")) return;
    } else {
      for (const std::string& word : words_of_options(component)) words += ' ' + as_word(word);
    }
    LaunchPiece piece{"", name, static_cast<std::size_t>((has_args ? args : component).Mark().line) + 1, false, {}};
    Settings settings;
    for (const char* key : {"envFrom", "environment", "env", "envs"})
      if (component[key]) read_settings(component[key], settings, piece);
    const auto dynamo =
        std::ranges::find_if(front_ends, [](const FrontEnd& one) { return one.module.starts_with("dynamo."); });
    const FrontEnd& front_end = dynamo == front_ends.end() ? front_ends.front() : *dynamo;
    if (!image.empty()) piece.images.push_back(filled(defaults_of(image, given_), {}, given_));
    piece.text = text_of(settings) + std::string(front_end.command) + filled(words, settings, given_) + '\n';
    pieces_.push_back(std::move(piece));
  }

  // By its own name, or what it says that it is.
  static bool is_worker_of(std::string_view engine, const YAML::Node& component, const std::string& name) {
    std::string all = name;
    for (const char* key : {"image", "backend", "framework", "engine", "component", "module"})
      all += ' ' + scalar_of(component, key);
    std::ranges::transform(all, all.begin(),
                           [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
    const auto says = [&](std::string_view word) { return all.find(word) != std::string::npos; };
    return says(engine) && !says("frontend") && !says("router");
  }

  const Environment& given_;
  std::map<std::string, Settings> config_maps_;
  std::string gpu_;        // of the whole file
  std::string container_;  // of a recipe
  Settings variables_;     // of the whole file
  std::size_t bytes_ = 0;
  std::vector<LaunchPiece> pieces_;
};

// Whether the text's first line of content is one of YAML: a key, a list item or a document's begin.
bool looks_like_yaml(std::string_view text) {
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n'));
    text.remove_prefix(std::min(line.size() + 1, text.size()));
    const std::size_t begin = line.find_first_not_of(" \t\r");
    if (begin == std::string_view::npos || line[begin] == '#') continue;
    if (line.starts_with("---") || line.starts_with("- ")) return true;
    std::size_t end = begin;
    while (end < line.size() && (is_shell_name_char(line[end]) || line[end] == '-' || line[end] == '.')) ++end;
    return end > begin && end < line.size() && line[end] == ':' &&
           (end + 1 == line.size() || line[end + 1] == ' ' || line[end + 1] == '\r');
  }
  return false;
}

bool may_be_yaml(std::string_view text) {
  const auto names = [&](std::string_view key) { return !key.empty() && text.find(key) != std::string_view::npos; };
  return names("command:") || names("args:") || names("entrypoint:") || names("model-path:") || names("model_path:") ||
         std::ranges::any_of(launch_syntaxes(), names, &LaunchSyntax::recipe_key);
}

bool is_scenario(const YAML::Node& document) {
  return document.IsMap() && document["steps"] && (document["launch"] || document["parallel"]);
}

}  // namespace

std::optional<LaunchPieces> pieces_of_yaml(const std::string& text, const Environment& given) {
  const bool is_yaml = looks_like_yaml(text);
  if (!is_yaml && !may_be_yaml(text)) return std::nullopt;
  LaunchPieces out;
  Containers containers(given);
  const Result<std::vector<YAML::Node>> documents = read_yaml(text);
  if (!documents) {
    if (!is_yaml) return std::nullopt;  // shell text that holds such a word
    out.error = documents.error();
    return out;
  }
  for (const YAML::Node& document : *documents) {
    if (is_scenario(document)) {
      out.error = Error{ErrorKind::bad_input, std::string(kIsScenario)};
      return out;
    }
    containers.keep_config_map(document);
    containers.keep_recipe(document);
    containers.keep_variables(document);
  }
  for (const YAML::Node& document : *documents) containers.walk(document, "");
  for (const YAML::Node& document : *documents) containers.add_config(document);
  if (containers.is_too_large())
    out.error =
        Error{ErrorKind::bad_input, "the commands and their settings are longer than 4 MiB: give a part of them"};
  out.pieces = std::move(containers).pieces();
  if (out.pieces.empty() && !out.error && !is_yaml) return std::nullopt;
  return out;
}

}  // namespace a2asim
