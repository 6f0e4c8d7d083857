// a2asim completion: scripts for bash and zsh, made of the program's own options, so that they cannot go stale.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/App.hpp>
#include <algorithm>
#include <memory>

#include "model/step/engine.h"
#include "model/step/model_shapes.h"
#include "tools/program/commands.h"
#include "tools/program/input.h"
#include "tools/program/template.h"

namespace a2asim {
namespace {

using Words = std::vector<std::string>;

// "text, json or sarif (for code scanning); default text" -> text, json, sarif. Nothing where the description does not
// begin with such a list.
Words choices_in(std::string description) {
  for (std::size_t open; (open = description.find(" (")) != std::string::npos;) {
    const std::size_t close = description.find(')', open);
    description.erase(open, close == std::string::npos ? close : close + 1 - open);
  }
  description = description.substr(0, description.find_first_of(";:"));
  if (const std::size_t last = description.rfind(" or "); last != std::string::npos) description.replace(last, 4, ", ");
  Words choices;
  for (std::size_t at = 0; at <= description.size();) {
    const std::size_t end = std::min(description.find(", ", at), description.size());
    choices.push_back(description.substr(at, end - at));
    const auto is_part = [](char c) { return (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'); };
    if (choices.back().empty() || !std::ranges::all_of(choices.back(), is_part)) return {};
    at = end + 2;
  }
  return choices;
}

std::string version_option_of(const Engine* engine) { return version_option(*engine); }

struct Completed {
  const CLI::Option& option;
  bool takes_value() const { return option.get_items_expected_max() > 0; }
  bool repeats() const { return option.get_items_expected_max() > 1; }
  Words names() const {
    Words names;
    for (const std::string& name : option.get_snames()) names.push_back("-" + name);
    for (const std::string& name : option.get_lnames()) names.push_back("--" + name);
    return names;
  }
  Words values() const {
    const std::string type = option.get_type_name();
    Words values;
    const bool names_engine = std::ranges::count(engines(), option.get_name(), version_option_of) > 0;
    for (const Engine* engine : engines())
      if (type == "VERSION" && (!names_engine || option.get_name() == version_option(*engine)))
        for (const Version* version : engine->versions()) values.emplace_back(version->name);
    if (option.get_name() == "--engine")
      for (const Engine* engine : engines()) values.emplace_back(engine->name);
    else if (type == "NAME")
      for (const ModelPreset& preset : model_presets()) values.emplace_back(preset.name);
    return values.empty() ? choices_in(option.get_description()) : values;
  }
  bool takes_file() const {
    const std::string type = option.get_type_name();
    const std::size_t dot = type.find('.');  // "OUT.html"; in "N[,N..]" it is no suffix
    const bool has_suffix = dot != std::string::npos && dot + 1 < type.size() && type[dot + 1] >= 'a';
    return type.find("FILE") != std::string::npos || type == "PATH" || has_suffix || type == "DIR";
  }
};

std::vector<Completed> options_of(const CLI::App& app) {
  std::vector<Completed> out;
  for (const CLI::Option* option : app.get_options())
    if (!option->get_group().empty()) out.push_back({*option});
  return out;
}

std::vector<const CLI::App*> commands_of(const CLI::App& program) {
  return program.get_subcommands([](const CLI::App* command) { return !command->get_group().empty(); });
}

Words command_names(const CLI::App& program) {
  Words names;
  for (const CLI::App* command : commands_of(program)) names.push_back(command->get_name());
  return names;
}

// "    check:--format) values='text json' ;;", for every option that takes a value.
std::string bash_values(const CLI::App& command) {
  std::string out;
  for (const Completed& one : options_of(command)) {
    if (!one.takes_value() || one.option.get_positional()) continue;
    Words patterns;
    for (const std::string& name : one.names()) patterns.push_back(command.get_name() + ":" + name);
    out += fmt::format("    {}) takes={} values='{}' ;;\n", fmt::join(patterns, "|"),
                       one.takes_file() ? "file" : "word", fmt::join(one.values(), " "));
  }
  return out;
}

// Options, and what may stand without one.
std::string bash_words(const CLI::App& command, const std::string& name, Words words) {
  bool files = false;
  for (const Completed& one : options_of(command)) {
    const Words more = one.option.get_positional() ? one.values() : one.names();
    words.insert(words.end(), more.begin(), more.end());
    files = files || (one.option.get_positional() && one.takes_file());
  }
  return fmt::format("    '{}') takes={} values='{}' ;;\n", name, files ? "file" : "word", fmt::join(words, " "));
}

std::string bash_completion(const CLI::App& program) {
  std::string values;
  std::string words = bash_words(program, "", command_names(program));
  for (const CLI::App* command : commands_of(program)) {
    values += bash_values(*command);
    words += bash_words(*command, command->get_name(), {});
  }
  return rendered(
      "completion.bash",
      {{"commands", fmt::format("{}", fmt::join(command_names(program), "|"))}, {"values", values}, {"words", words}});
}

// Inside single quotes of an _arguments or _describe specification.
std::string zsh_escaped(std::string_view text) {
  std::string out;
  for (const char c : text) {
    if (c == '\'')
      out += "'\\''";
    else if (c == '[' || c == ']' || c == ':' || c == '\\')
      out += std::string("\\") + c;
    else
      out += c;
  }
  return out;
}

std::string zsh_specification(const Completed& one) {
  const Words values = one.values();
  std::string action = one.takes_file() ? "_files" : values.empty() ? " " : fmt::format("({})", fmt::join(values, " "));
  std::string label = zsh_escaped(one.option.get_type_name());
  if (one.option.get_positional()) return fmt::format("'{}:{}:{}'", one.repeats() ? "*" : "1", label, action);
  std::string out;
  for (const std::string& name : one.names())
    out +=
        fmt::format("{}'{}{}{}[{}]{}'", out.empty() ? "" : " ", one.repeats() ? "*" : "", name,
                    one.takes_value() && name.starts_with("--") ? "=" : "", zsh_escaped(one.option.get_description()),
                    one.takes_value() ? fmt::format(":{}:{}", label, action) : "");
  return out;
}

std::string zsh_arguments(const CLI::App& app, const std::string& indent) {
  std::string out;
  for (const Completed& one : options_of(app)) out += fmt::format(" \\\n{}{}", indent, zsh_specification(one));
  return out;
}

std::string zsh_completion(const CLI::App& program) {
  std::string commands, arguments;
  for (const CLI::App* command : commands_of(program)) {
    commands += fmt::format("\n      '{}:{}'", command->get_name(), zsh_escaped(command->get_description()));
    arguments += fmt::format("    {})\n      _arguments{}\n      ;;\n", command->get_name(),
                             zsh_arguments(*command, "        "));
  }
  return rendered("completion.zsh",
                  {{"program", zsh_arguments(program, "    ")}, {"commands", commands}, {"arguments", arguments}});
}

}  // namespace

void add_completion(CLI::App& program, CommandLine& line) {
  CLI::App* command = program.add_subcommand("completion", "Print the completion script of a shell");
  const auto shell = std::make_shared<std::string>();
  command->add_option("shell", *shell, "bash or zsh")->type_name("SHELL");
  command->footer(help_text("completion.help"));
  command->callback([&program, &line, shell] {
    line.run = [&program, &line, shell](Io& io) -> Result<int> {
      if (const auto none = refuse_launch(line); !none) return tl::unexpected(none.error());
      const Result<std::size_t> chosen = parse_choice("the shell", *shell, {"bash", "zsh"});
      if (!chosen) return tl::unexpected(chosen.error());
      io.out << (*chosen == 0 ? bash_completion(program) : zsh_completion(program));
      return kNothingWrong;
    };
  });
}

}  // namespace a2asim
