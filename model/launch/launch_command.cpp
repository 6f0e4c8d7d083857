#include "model/launch/launch_command.h"

#include "model/launch/launch_text.h"

namespace a2asim {

std::string print(const LaunchCommand& command) {
  std::string line;
  for (const auto& [name, value] : command.env.values())
    line += name + "=" + (value.empty() ? "" : shell_quote(value)) + " ";
  if (command.front_end != nullptr) line += command.front_end->command;
  for (const std::string& word : command.argv) line += " " + shell_quote(word);
  return line;
}

}  // namespace a2asim
