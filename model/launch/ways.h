// Inside find_servers: one run through a text, with the decisions that it takes.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/launch/launch_command.h"
#include "model/launch/launch_file.h"
#include "model/launch/shell_run.h"

namespace a2asim {

inline constexpr std::size_t kMostServersOfText = 256;

struct ServersOfWay {
  std::vector<LaunchedServer> servers;
  // Those whose words hold a variable that is only known to differ from its default: nobody can judge them.
  std::vector<LaunchedServer> left_out;
  std::optional<std::string> unread;  // what was given to a shell and is not known, with its line
};

// Errors: bad_input.
Result<ServersOfWay> run_way(std::string_view text, const ShellVariables& variables, ShellChoices& choices,
                             const ReadShellFile& read_file);
// NAME=value of its environment, as far as the engine looks at it.
std::vector<std::string> variables_of_engine(const LaunchCommand& command);
// One command whose words a shell has split already.
Result<ServersOfWay> run_words(std::span<const ShellValue> words);

}  // namespace a2asim
