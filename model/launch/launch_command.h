// The command that starts a server: text -> environment, front end, arguments.
//
// Which words start a server, each engine says (FrontEnd). They may stand behind launchers (nohup, numactl, env, srun,
// docker run IMAGE, bash -c "..") and inside a script of several lines.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/note.h"
#include "model/base/result.h"
#include "model/launch/environment.h"

namespace a2asim {

// A program that starts servers of an engine, as its words stand in a command. Empty fields do not apply.
struct FrontEnd {
  std::string_view engine;               // "sglang"
  std::string_view command;              // how it is printed: "python3 -m sglang.launch_server"
  std::string_view module = {};          // behind -m
  bool has_submodules = false;           // `module`.anything starts one, too
  std::string_view program = {};         // "sglang"
  std::string_view subcommand = {};      // "serve", behind `program`
  std::string_view script = {};          // the end of a path: "sglang/launch_server.py"
  bool is_server = true;                 // false: its own parser takes more options than the server's
  std::string_view model_option = {};    // a first argument without a flag means this one
  std::string_view dropped_option = {};  // of `program` itself, with its value
  std::string_view image = {};           // whose own command it is: "vllm/vllm-openai"
};

// What launch reading asks of an engine.
struct LaunchSyntax {
  std::span<const FrontEnd> front_ends;                   // the first one is the usual one
  std::span<const std::string_view> variable_prefixes;    // of its environment variables: "SGLANG_"
  std::string_view example_arguments;                     // behind the first front end, for messages
  std::string_view recipe_key = {};                       // under which srt-slurm keeps its options, by role
  std::span<const std::string_view> config_options = {};  // name a YAML file of options
  // Its maps are written as --moe_config.backend=X behind the command's own options, over which they win; else a flat
  // map stands in front of them.
  bool config_is_nested = false;
  std::string_view config_key = {};     // a map with this key is such a file itself
  std::string_view python_module = {};  // a Python file that imports it may start a server: LLM(..)
};

// Of all engines (model/engines/engines.cpp).
std::span<const LaunchSyntax* const> launch_syntaxes();

struct LaunchCommand {
  Environment env;                      // exported lines, FOO=1 before the command, env and docker -e
  const FrontEnd* front_end = nullptr;  // never nullptr where a text was read
  std::vector<std::string> argv;        // what the server's argparse sees
  std::vector<Note> notes;              // how the text was read; no part of the command, so == ignores them
  // What may hold options and was not read, in words ("\"$@\" in line 3"). A verdict on such a command is none.
  std::vector<std::string> unread;
  std::string may_set = {};  // what was not read and may set them, and what to do: "env.sh in line 2, which .."
  // --- around the command, no part of it either
  std::string image;  // of the container that runs it: "nvcr.io/..:1.3.0rc21"
  std::string gpu;    // its name, where a file gives it
  // Variables that the launcher (mpirun -x, srun --export) hands to every rank; nothing: all of them.
  std::optional<std::vector<std::string>> forwarded;

  friend bool operator==(const LaunchCommand& a, const LaunchCommand& b) {
    return a.env == b.env && a.front_end == b.front_end && a.argv == b.argv;
  }
};

// One server that a text starts.
struct LaunchedServer {
  LaunchCommand command;
  std::size_t line = 1;                  // of the text, where its command begins
  std::string name;                      // of its service, container or role, where the file gives one
  std::string condition;                 // when it is started, where the outside decides: "ROLE=decode"; empty: always
  std::vector<std::string> images = {};  // container images that stand beside it, the nearest last: "NAME:TAG"
  bool is_alternative = false;           // the defaults that the text itself gives lead to another one
};

// All servers that a text starts, in order; conditions that the text decides are decided. given: what surrounds the
// text, for its variables. Errors, all bad_input and one line: no command, a command of another program, an
// unterminated quote, something that is no text (NUL and other control bytes, invalid UTF-8), more than 1 MiB, more
// than 64 ways through.
Result<std::vector<LaunchedServer>> find_servers(std::string_view text, const Environment& given = {});

// The first of several, with a note that there are more.
LaunchCommand first_of(std::vector<LaunchedServer> servers);

// The first of find_servers.
Result<LaunchCommand> parse_launch_command(std::string_view text);

// Of words that a shell has already split.
Result<LaunchedServer> find_server_in_words(std::span<const std::string> words);

// Its command; one word alone that holds blanks is read as text.
Result<LaunchCommand> parse_launch_words(std::span<const std::string> words);

// One line that parse_launch_command reads back to an equal command.
std::string print(const LaunchCommand& command);

}  // namespace a2asim
