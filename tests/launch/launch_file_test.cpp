// Launches in files of all kinds.
#include "model/launch/launch_file.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "model/launch/file_kinds.h"

using namespace a2asim;
using Words = std::vector<std::string>;

namespace {

LaunchCommand read_file(const std::string& text) {
  const auto command = parse_launch_text(text);
  REQUIRE_MESSAGE(command, (command ? "" : command.error().message));
  return *command;
}

const Words kArguments = {"--tp", "8", "--moe-a2a-backend", "deepep"};

}  // namespace

TEST_CASE("yaml: the lines of one command belong together") {
  for (const char* style : {">", ">-", "|", "|-"}) {
    CAPTURE(style);
    CHECK(read_file("services:\n  s:\n    image: i\n    command: " + std::string(style) +
                    "\n      python3 -m sglang.launch_server\n        --tp 8\n\n      --moe-a2a-backend deepep\n"
                    "    ports: ['30000:30000']\n")
              .argv == kArguments);
  }
  CHECK(read_file("command: |\n  python3 -m sglang.launch_server \\\n  --tp 8 \\\n  --moe-a2a-backend deepep\n").argv ==
        kArguments);
  CHECK(read_file("command: >\n  python3 -m sglang.launch_server\n  # size\n  --tp 8\n").argv ==
        Words{"#", "size", "--tp", "8"});  // nobody takes comments out of a folded text
}

TEST_CASE("yaml: lists, a shell's script, an entry point") {
  CHECK(read_file("command: [python3, -m, sglang.launch_server]\nargs:\n- --tp\n- 8\n- --moe-a2a-backend\n- deepep\n")
            .argv == kArguments);
  CHECK(read_file(
            "containers:\n- name: s\n  command: [sh, -c]\n  args:\n  - |\n    T=8\n    sglang serve \\\n      --tp $T "
            "\\\n      --moe-a2a-backend deepep\n")
            .argv == kArguments);
  CHECK(read_file("entrypoint: python3 -m sglang.launch_server\ncommand: --tp ${TP:-8} --moe-a2a-backend deepep\n")
            .argv == kArguments);
  CHECK(read_file("command: [sglang, serve, --tp, '${TP:-8}', --moe-a2a-backend, deepep]\n").argv == kArguments);
  const LaunchCommand script =
      read_file("command: [sh, -c]\nargs:\n- |\n  sglang serve --tp 8\n  --moe-a2a-backend deepep\n");
  CHECK(script.argv == Words{"--tp", "8"});  // there a shell reads the lines
  CHECK(script.notes.back().is_warning);
}

TEST_CASE("yaml: the container's environment") {
  for (const char* text :
       {"environment:\n  A: 1\n  B: 'x y'\ncommand: sglang serve --tp 8\n",
        "environment:\n- A=1\n- B=x y\n- C\ncommand: sglang serve --tp 8\n",
        "env:\n- name: A\n  value: '1'\n- name: B\n  value: x y\n- name: C\ncommand: [sglang, serve]\n"}) {
    CAPTURE(text);
    CHECK(read_file(text).env.get("A") == "1");
    CHECK(read_file(text).env.get("B") == "x y");
  }
}

TEST_CASE("yaml: what is none is shell text") {
  CHECK_FALSE(pieces_of_yaml("python3 -m sglang.launch_server --tp 8", {}));
  CHECK_FALSE(pieces_of_yaml("echo command: [\npython3 -m sglang.launch_server --tp 8", {}));
  CHECK(read_file("echo 'command: x'\npython3 -m sglang.launch_server --tp 8").argv == Words{"--tp", "8"});
  CHECK_FALSE(parse_launch_text("services: {s: {command: lmdeploy serve}}"));
  std::string aliases = "a0: &a0 {command: x}\n";
  for (int i = 1; i < 40; ++i) {
    const std::string last = std::to_string(i - 1), now = std::to_string(i);
    aliases += "a" + now + ": &a" + now + " [*a" + last + ", *a" + last + "]\n";
  }
  CHECK_FALSE(parse_launch_text(aliases));
  CHECK_FALSE(parse_launch_text("command: x\na: &a [*a]\n"));
  CHECK_FALSE(parse_launch_text("command: " + std::string(100000, '[')));
}

TEST_CASE("file: every server, with its name and line") {
  const auto servers = find_servers_in_file(
      "services:\n  prefill:\n    image: i\n    command: sglang serve --tp 4\n  decode:\n    command: [sglang, serve, "
      "--tp, '8']\n");
  REQUIRE(servers);
  REQUIRE(servers->size() == 2);
  CHECK((*servers)[0].name == "prefill");
  CHECK((*servers)[0].line == 4);
  CHECK((*servers)[1].name == "decode");
  CHECK((*servers)[1].line == 6);
  CHECK((*servers)[1].command.argv == Words{"--tp", "8"});
}

TEST_CASE("file: $(NAME), ConfigMaps, and one that is not there") {
  const std::string map = "kind: ConfigMap\nmetadata: {name: c}\ndata: {TP: '4', DP: '2'}\n---\n";
  const std::string pod =
      "kind: Pod\nspec:\n  containers:\n  - name: s\n    envFrom: [{configMapRef: {name: c}}]\n"
      "    env: [{name: EP, valueFrom: {configMapKeyRef: {name: c, key: TP}}}]\n"
      "    command: [sglang, serve, --tp, $(TP), --dp, $(DP), --ep, $(EP), --x, $(X)]\n";
  CHECK(read_file(map + pod).argv == Words{"--tp", "4", "--dp", "2", "--ep", "4", "--x", "$(X)"});
  CHECK(read_file(pod).unread.size() == 2);
  Environment given;
  given.set("X", "1");
  CHECK(find_servers_in_file(map + pod, given)->front().command.argv.back() == "1");
}

TEST_CASE("file: Dockerfiles whose stages and scripts stand in the same file") {
  const auto only = [](const std::string& text) {
    const auto servers = find_servers_in_file("FROM lmsysorg/sglang:v0.5.13 AS base\n" + text);
    REQUIRE_MESSAGE(servers, (servers ? "" : servers.error().message));
    REQUIRE(servers->size() == 1);
    CHECK(servers->front().images.front() == "lmsysorg/sglang:v0.5.13");
    return servers->front().command.argv;
  };
  const Words wanted = {"--tp", "4", "--dp", "2"};
  CHECK(only("ENV TP=4\nENTRYPOINT [\"sglang\", \"serve\"]\nFROM ubuntu AS x\nFROM base\nENV D 2\n"
             "CMD [\"--tp\", \"4\", \"--dp\", \"2\"]\n") == wanted);
  CHECK(only("COPY <<EOF /run.sh\n#!/bin/bash\nexec sglang serve --tp 4 \"$@\"\nEOF\n"
             "ENTRYPOINT [\"/run.sh\"]\nCMD [\"--dp\", \"2\"]\n") == wanted);
  CHECK(only("RUN printf '#!/bin/sh\\nsglang serve --tp 4 \"$@\"\\n' > /run.sh && chmod +x /run.sh\n"
             "CMD [\"/run.sh\", \"--dp\", \"2\"]\n") == wanted);
  CHECK(only("RUN <<'E'\ncat > /run.sh <<X\nsglang serve --tp 4 --dp 2\nX\nE\nCMD /run.sh\n") == wanted);
  CHECK_FALSE(find_servers_in_file("FROM x\nRUN <<EOF\nsglang serve \"\nEOF\nCMD [\"true\"]\n"));
}

TEST_CASE("file: Dockerfiles") {
  CHECK(read_file("FROM i\nENV A=1\nCMD [\"python3\", \"-m\", \"sglang.launch_server\", \"--tp\", \"8\"]\n")
            .env.get("A") == "1");
  CHECK(read_file("# x\nARG V=1\nFROM i:$V\nENTRYPOINT [\"sglang\", \"serve\"]\nCMD [\"--tp\", \"8\"]").argv ==
        Words{"--tp", "8"});
  CHECK(read_file("FROM i\nENV TP 8\nCMD sglang serve \\\n  --tp $TP\n").argv == Words{"--tp", "8"});
  CHECK(read_file("FROM i\nCMD [\"x\"]\nENTRYPOINT sglang serve --tp 8\nRUN echo y").argv == Words{"--tp", "8"});
  CHECK_FALSE(find_servers_in_file("FROM i\nCMD [\"x\"]\n"));
}

TEST_CASE("file: Markdown fences") {
  const auto servers = find_servers_in_file(
      "Don't.\n\n```bash\n$ sglang serve --tp 4\n```\n```python\nsglang serve\n```\n- x\n  ```\n  sglang serve --tp 8 "
      "\\\n    --dp 2\n  ```\n"
      "```yaml\ncommand: sglang serve --tp 2\n```\n");
  REQUIRE(servers);
  REQUIRE(servers->size() == 3);
  CHECK((*servers)[0].line == 4);
  CHECK((*servers)[1].line == 11);
  CHECK((*servers)[1].command.argv == Words{"--tp", "8", "--dp", "2"});
  CHECK((*servers)[2].command.argv == Words{"--tp", "2"});
  const auto broken = find_servers_in_file("```\nsglang serve 'x\n```\n");
  REQUIRE_FALSE(broken);
  CHECK(broken.error().message.find("line 2") != std::string::npos);
}

TEST_CASE("file: recipes that list the server's options") {
  const auto servers = find_servers_in_file(
      "backend:\n  decode_environment: {A: '1'}\n  sglang_config:\n    prefill: {tp-size: 4, x: false}\n"
      "    decode:\n      tensor_parallel_size: 8\n      enable-dp-attention: true\n      cuda-graph-bs: [1, 2]\n");
  REQUIRE(servers);
  REQUIRE(servers->size() == 2);
  CHECK((*servers)[0].command.argv == Words{"--tp-size", "4"});
  CHECK((*servers)[1].command.argv ==
        Words{"--tensor-parallel-size", "8", "--enable-dp-attention", "--cuda-graph-bs", "1", "2"});
  CHECK((*servers)[1].command.env.get("A") == "1");
  CHECK((*servers)[1].name == "decode");
  const auto dated = find_servers_in_file(
      "model: {path: m, container: lmsysorg/sglang:v0.5.13}\nbackend:\n  sglang_config:\n    decode: {tp-size: 4}\n");
  REQUIRE(dated);
  CHECK(dated->front().images == Words{"lmsysorg/sglang:v0.5.13"});
}

TEST_CASE("file: another kind is named, broken YAML has its line") {
  const auto refused = [](const std::string& text) {
    const auto servers = find_servers_in_file(text);
    REQUIRE_FALSE(servers);
    return servers.error().message;
  };
  CHECK(refused("name: x\nlaunch: sglang serve\nsteps: []\n").find("a2asim replay") != std::string::npos);
  CHECK(refused("kind: Pod\nspec:\n  a: 1\n***\nkind: x\n").starts_with("line 4 is no YAML"));
  CHECK(refused("lmdeploy serve M --tp 8").find("starts no server") != std::string::npos);
}

TEST_CASE("file: a fence of Markdown that names no server spoils nothing") {
  const auto servers = find_servers_in_file(
      "# Title\n```\nwarmup: 1\nsubmit #0: 5\n# x\n```\n```bash\nray start --address x\"\n```\n"
      "```bash\ncurl -s x | sh\n```\n```bash\nsglang serve --tp 4\n```\n");
  REQUIRE(servers);
  CHECK(servers->size() == 1);
  const auto broken = find_servers_in_file("```bash\nsglang serve --tp 4\n```\n```bash\nsglang serve \"x\n```\n");
  REQUIRE_FALSE(broken);
  CHECK(broken.error().message.find("has no end") != std::string::npos);
}
