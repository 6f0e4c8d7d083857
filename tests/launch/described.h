// What a file starts, in short: a line a server.
#pragma once

#include <string>

#include "model/launch/launch_file.h"

namespace a2asim::test {

// Line, name, images, the variables A and B, words; "none" where nothing starts a server.
inline std::string described(const std::string& text, const Environment& given = {}) {
  const auto servers = find_servers_in_file(text, given);
  if (!servers) return starts_no_server(servers.error()) ? "none" : servers.error().message;
  std::string out;
  for (const LaunchedServer& server : *servers) {
    out += std::to_string(server.line) + (server.name.empty() ? "" : " " + server.name);
    for (const std::string& image : server.images) out += image.empty() ? "" : " " + image;
    for (const char* name : {"A", "B"})
      if (const auto value = server.command.env.get(name)) out += " " + (name + ("=" + std::string(*value)));
    for (const std::string& word : server.command.argv) out += "|" + word;
    for (const std::string& unread : server.command.unread) out += " not read: " + unread;
    out += "\n";
  }
  return out;
}

}  // namespace a2asim::test
