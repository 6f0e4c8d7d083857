#include "tools/program/program.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>

#include "model/base/nearest.h"
#include "tools/program/caller.h"
#include "tools/program/commands.h"
#include "tools/program/template.h"
#include "tools/program/text.h"

namespace a2asim {
namespace {

// CLI11 prints "a2asim check [OPTIONS]"; the words after "--" are ours and belong into that line.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App* app, std::string name) const override {
    const bool takes_words = app->get_name() == "check" || app->get_name() == "from-log";
    return "Usage: " + (name.empty() ? app->get_name() : name) +
           (app->get_parent() == nullptr ? " COMMAND [OPTIONS]"
            : takes_words                ? " [OPTIONS] [-- LAUNCH COMMAND]"
                                         : " [OPTIONS]") +
           "\n";
  }
};

int say_unusable(Io& io, std::string_view where, std::string_view message) {
  io.err << where << ": " << one_line(message, 1000) << '\n';
  return kUnusableInput;
}

// "": args begin with a command or an option.
std::string unknown_command(const CLI::App& program, const std::vector<std::string>& args) {
  std::vector<std::string_view> names;
  std::string list;
  for (const CLI::App* command : program.get_subcommands({})) {
    names.push_back(command->get_name());
    list += (list.empty() ? "" : ", ") + command->get_name();
  }
  if (args.empty()) return fmt::format("no command: give one of {}; `a2asim --help` shows examples", list);
  if (args[0].starts_with("-") || std::ranges::find(names, args[0]) != names.end()) return {};
  const std::string_view guess = nearest(args[0], names);
  return fmt::format("there is no command '{}': {}", one_line(args[0], 60),
                     guess.empty() ? "give one of " + list : fmt::format("did you mean '{}'?", guess));
}

// CLI11's own parse errors in the words of ours: what, and how to mend it.
std::string describe(const CLI::ParseError& error, const std::string& where) {
  std::string message = error.what();
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    const bool twice = message.find("At Most") != std::string::npos;
    message =
        message.substr(0, message.find(':')) + (twice ? " is given more than once: give it once" : " needs a value");
  }
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr && where == "a2asim check") {
    message += "; the launch command goes after `--`";
  }
  return fmt::format("{} (see `{} --help`)", message, where);
}

int parse_and_run(CLI::App& program, CommandLine& line, std::vector<std::string> args, Io& io) {
  if (const std::string problem = unknown_command(program, args); !problem.empty()) {
    return say_unusable(io, "a2asim", problem);
  }
  const std::string where = args[0].starts_with("-") ? "a2asim" : "a2asim " + args[0];
  std::ranges::reverse(args);  // CLI11 takes them from the back
  try {
    program.parse(args);
  } catch (const CLI::Success& help) {  // --help, --version
    const bool version = dynamic_cast<const CLI::CallForVersion*>(&help) != nullptr;
    io.out << (version ? fmt::format("a2asim {}\n", program_version()) : program.help());
    return kNothingWrong;
  } catch (const CLI::ParseError& error) {
    return say_unusable(io, where, describe(error, where));
  }
  if (!line.run) return say_unusable(io, where, "no command: `a2asim --help` lists them");
  const Result<int> exit_code = line.run(io);
  return exit_code ? *exit_code : say_unusable(io, where, exit_code.error().message);
}

}  // namespace

std::string_view program_version() { return A2ASIM_VERSION; }

int run_program(const std::vector<std::string>& args, Io& io) { return run_program(args, io, {}); }

int run_program(const std::vector<std::string>& args, Io& io, const Caller& caller) {
  try {
    CommandLine line;
    line.caller = caller;
    auto end = std::ranges::find(args, "--");
    if (end != args.end()) line.after_dashes.emplace(end + 1, args.end());

    CLI::App program("Do all expert-parallel ranks agree on the size of the all-to-all, does it fit, and if not, why?",
                     "a2asim");
    program.formatter(std::make_shared<HelpFormatter>());
    program.set_version_flag("--version", std::string(program_version()));
    program.require_subcommand(0, 1);  // none at all: said below
    program.footer(help_text("program.help"));
    for (const AddCommand add : commands()) add(program, line);
    return parse_and_run(program, line, {args.begin(), end}, io);
  } catch (const std::exception& error) {
    return say_unusable(io, "a2asim",
                        fmt::format("internal error: {}; please report it with the command", error.what()));
  }
}

}  // namespace a2asim
