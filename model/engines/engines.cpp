// The engines that there are. A new one is a folder beside sglang/ and a line here.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "model/base/check_invariant.h"
#include "model/engines/sglang/engine.h"
#include "model/engines/sglang/questions/questions.h"
#include "model/engines/trtllm/engine.h"
#include "model/engines/vllm/engine.h"
#include "model/step/engine.h"
#include "model/step/version_words.h"

namespace a2asim {

std::span<const Engine* const> engines() {
  static constexpr std::array all = {&kSglang, &kTrtllm, &kVllm};
  return all;
}

const EngineQuestions& engine_questions() { return kQuestions; }

std::span<const LaunchSyntax* const> launch_syntaxes() {
  static const std::vector<const LaunchSyntax*> all = [] {
    std::vector<const LaunchSyntax*> syntaxes;
    for (const Engine* engine : engines()) syntaxes.push_back(engine->syntax);
    return syntaxes;
  }();
  return all;
}

Result<const Engine*> find_engine(std::string_view name) {
  std::string names;
  for (const Engine* engine : engines()) {
    if (engine->name == name) return engine;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", engine->name);
  }
  return fail(ErrorKind::bad_input,
              fmt::format("'{}' is no engine known here; name one of {}", name.substr(0, 60), names));
}

std::string range_in_words(std::span<const Version* const> versions) {
  A2ASIM_INVARIANT(!versions.empty(), "a range has a version");
  std::vector<std::string_view> releases;
  for (const Version* version : versions)
    for (const Release& release : version->releases) releases.push_back(release.name);
  const bool none = releases.empty();
  const std::string_view first = none ? versions.front()->name : releases.front();
  const std::string_view last = none ? versions.back()->name : releases.back();
  return fmt::format("{}{}{}{}", first, first == last ? "" : " to ", first == last ? "" : last, none ? " (main)" : "");
}

Result<VersionMatch> find_version(const Engine& engine, std::string_view text) {
  const std::vector<const Version*> all = engine.versions();
  std::string word(text);
  std::ranges::transform(word, word.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  if (word == "main" || word == "dev" || word == "nightly" || word == "newest")
    return VersionMatch{all.back(), false, ""};
  const bool is_any = word == "latest" || word == "stable";
  std::string_view prefix = word;  // "v0.5.", of v0.5.x and v0.5.*
  if (!is_any && !prefix.ends_with(".x") && !prefix.ends_with(".*")) return engine.find_version(text);
  prefix.remove_suffix(is_any ? prefix.size() : 1);
  for (auto version = all.rbegin(); version != all.rend(); ++version)
    for (auto release = (*version)->releases.rbegin(); release != (*version)->releases.rend(); ++release) {
      std::string_view name = release->name;
      if (!prefix.starts_with('v') && name.starts_with('v')) name.remove_prefix(1);
      if (name.starts_with(prefix)) return VersionMatch{*version, false, std::string(release->note)};
    }
  return fail(ErrorKind::bad_input, fmt::format("{} has no release '{}' that is known here; name one of "
                                                "'a2asim versions'",
                                                engine.name, text.substr(0, 60)));
}

const Engine& find_engine(const LaunchCommand& command) {
  const std::string_view name = command.front_end != nullptr ? command.front_end->engine : engines().front()->name;
  const auto found = std::ranges::find(engines(), name, &Engine::name);
  A2ASIM_INVARIANT(found != engines().end(), "a command that could be read starts a server of some engine");
  return **found;
}

const Engine& engine_of(const Version& version) {
  for (const Engine* engine : engines())
    for (const Version* known : engine->versions())
      if (known->name == version.name && known->date == version.date) return *engine;
  A2ASIM_INVARIANT(false, "a version belongs to an engine");
  return *engines().front();
}

std::string version_option(const Engine& engine) { return "--" + std::string(engine.name); }

Result<VersionMatch> find_version(const Engine& engine, const VersionChoice& choice) {
  if (!choice.is_given()) return VersionMatch{engine.versions().back(), false, ""};
  if (choice.engine != engine.name)
    return fail(ErrorKind::bad_input,
                fmt::format("--{} names a version of another engine: this is {}'s; name one with {}", choice.engine,
                            engine.title, version_option(engine)));
  Result<VersionMatch> match = find_version(engine, std::string_view(choice.text));
  if (!match) return fail(match.error().kind, fmt::format("{}: {}", version_option(engine), match.error().message));
  return match;
}

std::string first_release(const Version& since) {
  for (const Version* version : engine_of(since).versions())
    if (version->date >= since.date && !version->releases.empty()) return std::string(version->releases.front().name);
  return std::string(since.name);
}

std::string version_in_words(const Version& version) {
  if (!version.release.empty() && version.release != version.name)
    return fmt::format("{} ({}, {})", version.release, version.name, version.date);
  const std::string_view first = release_or_name(version);
  return fmt::format("{} ({}{})", version.name, version.date,
                     first == version.name ? "" : fmt::format(", first in {}", first));
}

std::string_view release_or_name(const Version& version) {
  return version.releases.empty() ? version.name : version.releases.front().name;
}

std::string releases_in_words(const Version& version) {
  const std::vector<Release>& all = version.releases;
  constexpr std::size_t kMostListed = 3;
  if (all.size() > kMostListed) return fmt::format("{} to {}", all.front().name, all.back().name);
  std::string words;
  for (const Release& release : all) words += (words.empty() ? "" : ", ") + std::string(release.name);
  return words;
}

Result<DeployedCommand> deploy_command(std::string_view text, const DeployOptions& options) {
  Result<LaunchCommand> command = parse_launch_command(text);
  if (!command) return tl::unexpected(command.error());
  return deploy_command(std::move(*command), options);
}

Result<DeployedCommand> deploy_command(LaunchCommand command, const DeployOptions& options) {
  const Engine& engine = find_engine(command);
  return engine.deploy(std::move(command), options);
}

}  // namespace a2asim
