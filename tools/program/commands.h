// The commands of the program. A new one is a file of its own, a declaration here and a line in commands.cpp.
#pragma once

#include <CLI/App.hpp>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "model/base/result.h"
#include "tools/program/caller.h"
#include "tools/program/io.h"

namespace a2asim {

// What a command line asked for. Options live in the commands' own files; this is what all of them share.
struct CommandLine {
  std::optional<std::vector<std::string>> after_dashes;  // the words after the first "--", untouched
  std::function<Result<int>(Io&)> run;                   // of the command that was chosen; gives the exit code
  Caller caller;                                         // of who embeds the program; else empty
};

// An option with a value, as --help shows it.
template <class T>
CLI::Option* add_value(CLI::App& command, const char* names, T& to, const char* type, const char* about) {
  return command.add_option(names, to, about)->type_name(type);
}

// A command with these options, run by run(options, line, io).
template <class Options>
void add_command(CLI::App& program, CommandLine& line, const char* name, const char* about,
                 void (*add_options)(CLI::App&, Options&),
                 Result<int> (*run)(const Options&, const CommandLine&, Io&)) {
  CLI::App* command = program.add_subcommand(name, about);
  const auto options = std::make_shared<Options>();
  add_options(*command, *options);
  command->callback(
      [&line, options, run] { line.run = [&line, options, run](Io& io) { return run(*options, line, io); }; });
}

// Refuses words after "--", for commands that take no launch command.
Result<void> refuse_launch(const CommandLine& line);

// Adds one subcommand to `program`; when it is parsed, it sets line.run. `line` outlives the program.
using AddCommand = void (*)(CLI::App& program, CommandLine& line);

void add_check(CLI::App& program, CommandLine& line);
void add_upgrade(CLI::App& program, CommandLine& line);
void add_replay(CLI::App& program, CommandLine& line);
void add_explore(CLI::App& program, CommandLine& line);
void add_merge(CLI::App& program, CommandLine& line);
void add_conform(CLI::App& program, CommandLine& line);
void add_plan(CLI::App& program, CommandLine& line);
void add_from_log(CLI::App& program, CommandLine& line);
void add_validate(CLI::App& program, CommandLine& line);
void add_conformance(CLI::App& program, CommandLine& line);
void add_explain(CLI::App& program, CommandLine& line);
void add_versions(CLI::App& program, CommandLine& line);
void add_learn(CLI::App& program, CommandLine& line);
void add_glossary(CLI::App& program, CommandLine& line);
void add_completion(CLI::App& program, CommandLine& line);
void add_man(CLI::App& program, CommandLine& line);

std::span<const AddCommand> commands();  // in the order of --help

}  // namespace a2asim
