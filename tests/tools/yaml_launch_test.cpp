// Launch commands in docker-compose and Kubernetes files.
#include "tools/check/yaml_launch.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace a2asim;
using Words = std::vector<std::string>;

namespace {

LaunchCommand read(const std::string& text) {
  const auto command = parse_launch_text(text);
  REQUIRE_MESSAGE(command, (command ? "" : command.error().message));
  return *command;
}

const Words kArguments = {"--tp", "8", "--moe-a2a-backend", "deepep"};

}  // namespace

TEST_CASE("yaml: the lines of one command belong together") {
  for (const char* style : {">", ">-", "|", "|-"}) {
    CAPTURE(style);
    CHECK(read("services:\n  s:\n    image: i\n    command: " + std::string(style) +
               "\n      python3 -m sglang.launch_server\n        --tp 8\n\n      --moe-a2a-backend deepep\n"
               "    ports: ['30000:30000']\n")
              .argv == kArguments);
  }
  CHECK(read("command: |\n  python3 -m sglang.launch_server \\\n  --tp 8 \\\n  --moe-a2a-backend deepep\n").argv ==
        kArguments);
  CHECK(read("command: >\n  python3 -m sglang.launch_server\n  # size\n  --tp 8\n").argv ==
        Words{"#", "size", "--tp", "8"});  // nobody takes comments out of a folded text
}

TEST_CASE("yaml: lists, a shell's script, an entry point") {
  CHECK(
      read("command: [python3, -m, sglang.launch_server]\nargs:\n- --tp\n- 8\n- --moe-a2a-backend\n- deepep\n").argv ==
      kArguments);
  CHECK(read("containers:\n- name: s\n  command: [sh, -c]\n  args:\n  - |\n    T=8\n    sglang serve \\\n      --tp $T "
             "\\\n      --moe-a2a-backend deepep\n")
            .argv == kArguments);
  CHECK(read("entrypoint: python3 -m sglang.launch_server\ncommand: --tp ${TP:-8} --moe-a2a-backend deepep\n").argv ==
        kArguments);
  CHECK(read("command: [sglang, serve, --tp, '${TP:-8}', --moe-a2a-backend, deepep]\n").argv == kArguments);
  const LaunchCommand script =
      read("command: [sh, -c]\nargs:\n- |\n  sglang serve --tp 8\n  --moe-a2a-backend deepep\n");
  CHECK(script.argv == Words{"--tp", "8"});  // there a shell reads the lines
  CHECK(script.notes.back().is_warning);
}

TEST_CASE("yaml: the container's environment") {
  for (const char* text :
       {"environment:\n  A: 1\n  B: 'x y'\ncommand: sglang serve --tp 8\n",
        "environment:\n- A=1\n- B=x y\n- C\ncommand: sglang serve --tp 8\n",
        "env:\n- name: A\n  value: '1'\n- name: B\n  value: x y\n- name: C\ncommand: [sglang, serve]\n"}) {
    CAPTURE(text);
    CHECK(read(text).env.get("A") == "1");
    CHECK(read(text).env.get("B") == "x y");
  }
}

TEST_CASE("yaml: what is none is shell text") {
  CHECK_FALSE(shell_text_of_yaml("python3 -m sglang.launch_server --tp 8"));
  CHECK_FALSE(shell_text_of_yaml("echo command: [\npython3 -m sglang.launch_server --tp 8"));
  CHECK(read("echo 'command: x'\npython3 -m sglang.launch_server --tp 8").argv == Words{"--tp", "8"});
  CHECK_FALSE(parse_launch_text("services: {s: {command: vllm serve}}"));
  std::string aliases = "a0: &a0 {command: x}\n";
  for (int i = 1; i < 40; ++i) {
    const std::string last = std::to_string(i - 1), now = std::to_string(i);
    aliases += "a" + now + ": &a" + now + " [*a" + last + ", *a" + last + "]\n";
  }
  CHECK_FALSE(parse_launch_text(aliases));
  CHECK_FALSE(parse_launch_text("command: x\na: &a [*a]\n"));
  CHECK_FALSE(parse_launch_text("command: " + std::string(100000, '[')));
}
