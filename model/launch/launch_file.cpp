#include "model/launch/launch_file.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "model/launch/file_kinds.h"
#include "model/launch/front_end.h"
#include "model/launch/launch_text.h"

namespace a2asim {
namespace {

// "run.sh is not read: put it beside .." of an error of find_servers; else empty.
std::string unread_script(const Error& error) {
  const std::size_t at = error.message.find(": ");
  const bool is_it = error.message.starts_with("the text itself starts no server") && at != std::string::npos;
  return is_it ? error.message.substr(at + 2) : "";
}

// "$X in line 3" of a piece, at its line of the file.
std::string at_line_of_file(std::string_view text, const LaunchPiece& piece) {
  constexpr std::string_view kLine = " in line ";
  const std::size_t at = text.rfind(kLine);
  std::size_t line = 0;
  const char* const end = text.data() + text.size();
  const bool is_line = at != std::string_view::npos &&
                       std::from_chars(text.data() + at + kLine.size(), end, line).ptr == end && line > 0;
  if (!is_line) return std::string(text);
  return fmt::format("{}{}{}", text.substr(0, at), kLine, piece.is_script ? line + piece.line - 1 : piece.line);
}

// The servers of all pieces. A piece without one is none of the file's launches; an error of one is the file's.
Result<std::vector<LaunchedServer>> find_in_pieces(const LaunchPieces& found, const std::string& text,
                                                   const Environment& given, bool nested_kinds,
                                                   const ReadShellFile& read_file = {}) {
  if (found.error) return tl::unexpected<Error>(*found.error);
  std::vector<LaunchedServer> servers;
  std::vector<Note> unread;  // scripts that pieces start
  for (const LaunchPiece& piece : found.pieces) {
    auto own = nested_kinds ? find_servers_in_file(piece.text, given) : find_servers(piece.text, given, read_file);
    if (const std::string script = own || nested_kinds ? "" : unread_script(own.error()); !script.empty())
      unread.push_back({fmt::format("{}line {}: {}", piece.name.empty() ? "" : piece.name + ", ", piece.line, script)});
    // What cannot be read and names no server is somebody's output, or another program's command.
    if (!own && (starts_no_server(own.error()) || (nested_kinds && !names_a_server(piece.text)))) continue;
    if (!own)
      return fail(ErrorKind::bad_input,
                  fmt::format("{}from line {} on: {}", piece.name.empty() ? "" : piece.name + ", ", piece.line,
                              own.error().message));
    for (LaunchedServer& server : *own) {
      server.line = piece.is_script ? server.line + piece.line - 1 : piece.line;
      for (std::string& unread : server.command.unread) unread = at_line_of_file(unread, piece);
      add_surroundings(piece, server);
      servers.push_back(std::move(server));
    }
  }
  if (servers.empty() && !unread.empty())
    return fail(ErrorKind::bad_input, "the text itself starts no server; " + unread.front().message);
  if (servers.empty()) return tl::unexpected<Error>(no_server(text));
  std::ranges::move(unread, std::back_inserter(servers.front().command.notes));
  return servers;
}

}  // namespace

bool starts_no_server(const Error& error) {
  return error.message.find("starts no ") != std::string::npos || error.message.starts_with("no command") ||
         error.message.ends_with("whose rules are not known here");
}

bool is_of_another_kind(const Error& error) { return error.message == kIsScenario; }

void add_surroundings(const LaunchPiece& piece, LaunchedServer& server) {
  if (server.name.empty()) server.name = piece.name;
  std::ranges::copy(piece.unread, std::back_inserter(server.command.unread));
  if (server.command.image.empty()) server.command.image = piece.image;
  if (server.command.gpu.empty()) server.command.gpu = piece.gpu;
  server.images.insert(server.images.begin(), piece.images.begin(), piece.images.end());
}

Result<std::vector<LaunchedServer>> find_servers_in_file(const std::string& text, const Environment& given,
                                                         const ReadShellFile& read_file) {
  if (auto error = check_launch_text(text)) return tl::unexpected<Error>(std::move(*error));
  if (const auto found = pieces_of_markdown(text)) return find_in_pieces(*found, text, given, true);
  if (text.starts_with("[Service]\n") || text.find("\n[Service]\n") != std::string::npos)
    return fail(ErrorKind::bad_input,
                "this is a unit of systemd, which is not read: give the command of its ExecStart, behind the variables "
                "of its Environment");
  // Before Dockerfiles: Python's `from` looks like their FROM.
  if (const auto found = pieces_of_python(text)) return find_in_pieces(*found, text, given, false);
  if (const auto found = pieces_of_python_servers(text)) return find_in_pieces(*found, text, given, false);
  if (const auto found = pieces_of_dockerfile(text, given))
    return find_in_pieces(*found, text, given, false, read_file);
  if (const auto found = pieces_of_yaml(text, given)) return find_in_pieces(*found, text, given, false, read_file);
  return find_servers(text, given, read_file);
}

Result<LaunchCommand> parse_launch_text(const std::string& text) {
  auto servers = find_servers_in_file(text);
  if (!servers) return tl::unexpected(servers.error());
  return first_of(std::move(*servers));
}

}  // namespace a2asim
