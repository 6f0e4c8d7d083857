#include "tools/program/version_options.h"

#include <algorithm>
#include <vector>

namespace a2asim {

void add_version_options(CLI::App& command, VersionChoice& choice, const char* about) {
  std::vector<CLI::Option*> options;
  for (const Engine* engine : engines()) {
    const auto take = [&choice, engine](const std::string& text) { choice = {std::string(engine->name), text}; };
    CLI::Option* option = command.add_option_function<std::string>(version_option(*engine), take, about);
    option->type_name("VERSION");
    for (CLI::Option* other : options) option->excludes(other);
    options.push_back(option);
  }
}

void add_engine_option(CLI::App& command, VersionChoice& choice) {
  const auto take = [&choice](const std::string& name) {
    const Result<const Engine*> engine = find_engine(name);
    if (!engine) throw CLI::ValidationError("--engine", engine.error().message);
    if (choice.is_given() && choice.engine != name)
      throw CLI::ValidationError("--engine", name + ", beside a version of " + choice.engine);
    if (!choice.is_given()) choice = {name, "newest"};
  };
  command
      .add_option_function<std::string>(
          "--engine", take,
          "Whose; default: the one whose version is given, else " + std::string(engines().front()->name))
      ->type_name("NAME")
      ->trigger_on_parse(false);
}

const Engine& engine_of(const VersionChoice& choice) {
  const auto named = std::ranges::find(engines(), choice.engine, &Engine::name);
  return named == engines().end() ? *engines().front() : **named;
}

}  // namespace a2asim
