// A file that starts servers, of any kind that people keep launches in -> the servers.
//
//     auto servers = find_servers_in_file(text);   // a script, or docker-compose, Kubernetes, Dockerfile, Markdown, a
//                                                  // recipe, a Python test
//
// The kind is told from the text itself. Errors: bad_input as in find_servers; a file of another kind (a scenario,
// another engine's launch) is named as such; YAML that is broken is refused with its line.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/launch/launch_command.h"

namespace a2asim {

// The text of a file beside a script, by the path that the script gives to `source` or `bash`; nothing where it is not
// known.
using ReadShellFile = std::function<std::optional<std::string>(std::string_view)>;

Result<std::vector<LaunchedServer>> find_servers(std::string_view text, const Environment& given,
                                                 const ReadShellFile& read_file);

// given: the surrounding environment, which fills variables of scripts and $(NAME) of containers.
Result<std::vector<LaunchedServer>> find_servers_in_file(const std::string& text, const Environment& given = {},
                                                         const ReadShellFile& read_file = {});

// A file that the command takes options from: words [at, at + words) of argv.
struct ConfigUse {
  std::size_t at = 0, words = 0;
  std::string file;
};
std::optional<ConfigUse> find_config(const LaunchCommand& command);
// Puts its options in the place of those words. Errors: bad_input, with the line.
Result<void> merge_config(LaunchCommand& command, const ConfigUse& use, const std::string& text);

// Of an error of find_servers and find_servers_in_file: the text was read, and holds no command that starts a server.
bool starts_no_server(const Error& error);
// The text is for another command: it is a scenario.
bool is_of_another_kind(const Error& error);

// Markdown without fences: its indented blocks at their lines, all other lines empty.
std::string indented_code(std::string_view text);

// The first of them; where there are several, a note says so.
Result<LaunchCommand> parse_launch_text(const std::string& text);

}  // namespace a2asim
