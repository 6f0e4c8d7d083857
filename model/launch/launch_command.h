// The command that starts a server: text -> environment, front end, arguments.
//
// Front ends: `python -m sglang.launch_server` (python/sglang/launch_server.py), `sglang serve` (python/sglang/cli),
// `python -m sglang_router.launch_server`, `python -m dynamo.sglang`. They may stand behind launchers (nohup, numactl,
// env, srun, docker run IMAGE, bash -c "..") and inside a script of several lines.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/base/note.h"
#include "model/base/result.h"
#include "model/launch/environment.h"

namespace a2asim {

enum class FrontEnd : std::uint8_t { sglang_launch_server, sglang_serve, sglang_router, dynamo_sglang };
std::string_view text(FrontEnd front_end);  // "python3 -m sglang.launch_server", ..

struct LaunchCommand {
  Environment env;  // exported lines, FOO=1 before the command, env and docker -e
  FrontEnd front_end = FrontEnd::sglang_launch_server;
  std::vector<std::string> argv;  // what the server's argparse sees
  std::vector<Note> notes;        // how the text was read; no part of the command, so == ignores them
  // What may hold options and was not read, in words ("\"$@\" in line 3"). A verdict on such a command is none.
  std::vector<std::string> unread;

  friend bool operator==(const LaunchCommand& a, const LaunchCommand& b) {
    return a.env == b.env && a.front_end == b.front_end && a.argv == b.argv;
  }
};

// One server that a text starts.
struct LaunchedServer {
  LaunchCommand command;
  std::size_t line = 1;   // of the text, where its command begins
  std::string name;       // of its service, container or role, where the file gives one
  std::string condition;  // when it is started, where the outside decides: "ROLE=decode"; empty: always
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

// The same for words that a shell has already split. One word alone that holds blanks is read as text.
Result<LaunchCommand> parse_launch_words(std::span<const std::string> words);

// One line that parse_launch_command reads back to an equal command.
std::string print(const LaunchCommand& command);

}  // namespace a2asim
