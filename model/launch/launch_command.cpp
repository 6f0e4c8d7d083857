#include "model/launch/launch_command.h"

#include "model/launch/launch_text.h"

namespace a2asim {

std::string_view text(FrontEnd front_end) {
  switch (front_end) {
    case FrontEnd::sglang_launch_server:
      return "python3 -m sglang.launch_server";
    case FrontEnd::sglang_serve:
      return "sglang serve";
    case FrontEnd::sglang_router:
      return "python3 -m sglang_router.launch_server";
    case FrontEnd::dynamo_sglang:
      return "python3 -m dynamo.sglang";
  }
  return "";
}

std::string print(const LaunchCommand& command) {
  std::string line;
  for (const auto& [name, value] : command.env.values())
    line += name + "=" + (value.empty() ? "" : shell_quote(value)) + " ";
  line += text(command.front_end);
  for (const std::string& word : command.argv) line += " " + shell_quote(word);
  return line;
}

}  // namespace a2asim
