// Inside find_servers_in_file: one function a kind of file.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/launch/launch_command.h"

namespace a2asim {

// A piece of a file as shell text.
struct LaunchPiece {
  std::string text;
  std::string name;                 // of the service, container or role; may be empty
  std::size_t line = 1;             // of the file, where it begins
  bool is_script = true;            // its lines are the file's; else all servers begin at `line`
  std::vector<std::string> unread;  // see LaunchCommand::unread
  std::string image = {}, gpu = {};
  std::vector<std::string> images = {};  // see LaunchedServer::images
};

// The one error that says of a file that it is for another command.
inline constexpr std::string_view kIsScenario = "this is a scenario, not a launch: run it with 'a2asim replay'";

struct LaunchPieces {
  std::vector<LaunchPiece> pieces;
  std::optional<Error> error;  // it is of this kind, and cannot be used
};

// A server that was found in the piece's text also has what stands around it.
void add_surroundings(const LaunchPiece& piece, LaunchedServer& server);

// Nothing: the text is not of this kind.
std::optional<LaunchPieces> pieces_of_yaml(const std::string& text, const Environment& given);
std::optional<LaunchPieces> pieces_of_python(std::string_view text);
std::optional<LaunchPieces> pieces_of_dockerfile(std::string_view text, const Environment& given);
std::optional<LaunchPieces> pieces_of_markdown(std::string_view text);
// popen_launch_server(..), sgl.Engine(..), lists of words. is_python: it is known to be; else its first line tells.
std::optional<LaunchPieces> pieces_of_python_servers(std::string_view text, bool is_python = false);

}  // namespace a2asim
