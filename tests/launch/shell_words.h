// Shell texts read on paper, against bash itself: a function `python3` in front of each script prints the words that
// the server would get.
#pragma once

#include <doctest/doctest.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "model/launch/launch_command.h"
#include "model/launch/launch_text.h"
#include "tests/main/skip.h"

namespace a2asim::test {

using Words = std::vector<std::string>;

inline const std::string kServer = "python3 -m sglang.launch_server ";

// What a command of the shell prints.
inline std::string printed_by(const std::string& command) {
  std::FILE* const pipe = popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  std::string out;
  std::array<char, 4096> buffer{};
  while (const std::size_t size = std::fread(buffer.data(), 1, buffer.size(), pipe)) out.append(buffer.data(), size);
  pclose(pipe);
  return out;
}

// One line a server, its words parted by |.
inline std::string by_bash(const std::string& script) {
  const std::string text = "python3() { printf '%s|' \"${@:3}\"; echo; }\nexport -f python3\n" + script;
  return printed_by("bash -c " + shell_quote(text) + " 2>/dev/null </dev/null");
}

inline std::string by_us(const std::string& script, const Environment& env = {}) {
  const auto servers = find_servers(script, env);
  std::string out;
  if (!servers) return servers.error().message.find("starts no") != std::string::npos ? "" : servers.error().message;
  for (const LaunchedServer& server : *servers) {
    CHECK(server.condition == "");
    CHECK(server.command.unread.empty());
    for (const std::string& word : server.command.argv) out += word + "|";
    if (server.command.argv.empty()) out += "|";
    out += "\n";
  }
  return out;
}

inline bool has_bash() { return std::system("bash -c 'exit 0' >/dev/null 2>&1") == 0; }

inline std::vector<std::string> conditions(const std::string& script) {
  const auto servers = find_servers(script);
  REQUIRE_MESSAGE(servers, (servers ? "" : servers.error().message));
  std::vector<std::string> out;
  for (const LaunchedServer& server : *servers) {
    std::string words = server.condition + ":";
    for (const std::string& word : server.command.argv) words += " " + word;
    out.push_back(words);
  }
  return out;
}

}  // namespace a2asim::test
