#include "tools/program/program.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <exception>
#include <new>

#include "model/base/nearest.h"
#include "tools/program/caller.h"
#include "tools/program/commands.h"
#include "tools/program/output.h"
#include "tools/program/template.h"
#include "tools/program/text.h"

namespace a2asim {
namespace {

// CLI11 prints "a2asim check [OPTIONS]"; the words after "--" are ours and belong into that line.
class HelpFormatter : public CLI::Formatter {
 public:
  std::string make_usage(const CLI::App* app, std::string name) const override {
    const std::string& own = app->get_name();
    const bool takes_paths = own == "check" || own == "upgrade";
    return "Usage: " + (name.empty() ? own : name) +
           (app->get_parent() == nullptr ? " COMMAND [OPTIONS]"
            : takes_paths                ? " [OPTIONS] [PATH.. | -- LAUNCH COMMAND]"
            : own == "from-log"          ? " [OPTIONS] [-- LAUNCH COMMAND]"
                                         : " [OPTIONS]") +
           "\n";
  }
};

// Commands that people seldom type: `--help` does not list them.
constexpr const char* kUnderOthers[] = {"merge", "glossary", "completion", "man"};

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
    if (command->get_group().empty()) continue;
    list += (list.empty() ? "" : ", ") + command->get_name();
  }
  if (args.empty()) return fmt::format("no command: give one of {}; `a2asim --help` shows examples", list);
  if (args[0].starts_with("-") || std::ranges::find(names, args[0]) != names.end()) return {};
  const std::string_view guess = nearest(args[0], names);
  return fmt::format("there is no command '{}': {}", one_line(args[0], 60),
                     guess.empty() ? "give one of " + list : fmt::format("did you mean '{}'?", guess));
}

const CLI::App* find_command(const CLI::App& program, const std::string& name) {
  for (const CLI::App* command : program.get_subcommands({}))
    if (command->get_name() == name) return command;
  return nullptr;
}

// The option that was meant by the first one that the command does not have.
std::string meant_option(const CLI::App& program, const std::vector<std::string>& args) {
  const CLI::App* command = find_command(program, args[0]);
  std::vector<std::string> names;
  for (const CLI::Option* option : (command == nullptr ? program : *command).get_options())
    for (const std::string& name : option->get_lnames()) names.push_back("--" + name);
  for (const std::string& arg : args) {
    const std::string option = arg.substr(0, arg.find('='));
    if (!option.starts_with("--") || std::ranges::find(names, option) != names.end()) continue;
    return std::string(nearest(option, {names.begin(), names.end()}));
  }
  return "";
}

// `help CMD` is `CMD --help`, `explore merge` is merge.
std::vector<std::string> as_typed(std::vector<std::string> args) {
  if (args.size() > 1 && args[0] == "explore" && args[1] == "merge") args.erase(args.begin());
  if (!args.empty() && args[0] == "generations") args[0] = "versions";  // its name before
  if (args.empty() || args[0] != "help") return args;
  args.erase(args.begin());
  args.emplace_back("--help");
  return args;
}

// CLI11's own parse errors in the words of ours: what, and how to fix it.
std::string describe(const CLI::ParseError& error, const std::string& where, const std::string& meant) {
  std::string message = error.what();
  if (dynamic_cast<const CLI::ArgumentMismatch*>(&error) != nullptr) {
    const bool twice = message.find("At Most") != std::string::npos;
    message =
        message.substr(0, message.find(':')) + (twice ? " is given more than once: give it once" : " needs a value");
  }
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    if (!meant.empty())
      message += fmt::format(": did you mean {}?", meant);
    else if (where == "a2asim check")
      message += "; the launch command goes after `--`";
  }
  return fmt::format("{} (see `{} --help`)", message, where);
}

int parse_and_run(CLI::App& program, CommandLine& line, std::vector<std::string> args, Io& io) {
  if (const std::string problem = unknown_command(program, args); !problem.empty()) {
    return say_unusable(io, "a2asim", problem);
  }
  const std::string where = args[0].starts_with("-") ? "a2asim" : "a2asim " + args[0];
  const std::string meant = meant_option(program, args);
  std::ranges::reverse(args);  // CLI11 takes them from the back
  try {
    program.parse(args);
  } catch (const CLI::Success& help) {  // --help, --version
    const bool version = dynamic_cast<const CLI::CallForVersion*>(&help) != nullptr;
    io.out << (version ? fmt::format("a2asim {}\n", program_version()) : program.help());
    return kNothingWrong;
  } catch (const CLI::ParseError& error) {
    return say_unusable(io, where, describe(error, where, meant));
  }
  if (!line.run) return say_unusable(io, where, "no command: `a2asim --help` lists them");
  const Result<int> exit_code = line.run(io);
  return exit_code ? *exit_code : say_unusable(io, where, exit_code.error().message);
}

}  // namespace

std::string_view program_version() { return A2ASIM_VERSION; }

int run_program(const std::vector<std::string>& args, Io& io) { return run_program(args, io, {}); }

int run_program(const std::vector<std::string>& args, Io& raw, const Caller& caller) {
  EscapingBuffer out_buffer(raw.out, raw.colour
                                         ? std::vector<std::string_view>(std::begin(kColours), std::end(kColours))
                                         : std::vector<std::string_view>());
  EscapingBuffer err_buffer(
      raw.err, raw.err_is_terminal ? std::vector<std::string_view>{"\r", "\x1b[K"} : std::vector<std::string_view>());
  std::ostream out(&out_buffer), err(&err_buffer);
  Io io{raw.in, out, err, raw.in_is_terminal, raw.colour, raw.err_is_terminal, raw.out_is_terminal};
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
    for (CLI::App* command : program.get_subcommands({}))
      command->set_version_flag("--version", std::string(program_version()))->group("");
    for (const char* name : kUnderOthers) program.get_subcommand(name)->group("");
    return parse_and_run(program, line, as_typed({args.begin(), end}), io);
  } catch (const std::bad_alloc&) {
    return say_unusable(io, "a2asim", "out of memory: give it more, or ask for less (fewer --threads, smaller inputs)");
  } catch (const std::exception& error) {
    return say_unusable(io, "a2asim",
                        fmt::format("internal error: {}; please report it with the command", error.what()));
  }
}

}  // namespace a2asim
