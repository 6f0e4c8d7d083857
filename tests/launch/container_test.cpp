// Containers, workflows and recipes, shape by shape.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/launch/described.h"

using namespace a2asim;
using test::described;

namespace {

const std::string kServe = "sglang serve --tp 8";
const std::string kWords = "[sglang, serve, --tp, '8']";

// A file with one container, whose first key stands in line 4.
std::string container(const std::string& keys) { return "services:\n  s:\n    image: r:1\n" + keys; }

TEST_CASE("containers: scripts of ConfigMaps and beside the file, and those that are not there") {
  const std::string server = "python3 -m sglang.launch_server ";
  const std::string map = "kind: ConfigMap\nmetadata: {name: scripts}\ndata:\n  run.sh: |\n    #!/bin/bash\n    " +
                          server + "--tp 4 \"$@\"\n---\n";
  const std::string pod =
      "kind: Pod\nspec:\n  containers:\n  - name: worker\n    command: [/scripts/run.sh, --dp, '2']\n";
  const auto first = find_servers_in_file(map + pod);
  REQUIRE(first);
  CHECK(first->front().command.argv == std::vector<std::string>{"--tp", "4", "--dp", "2"});
  CHECK(first->front().line == 12);
  // Which of two is mounted is not known.
  const std::string other = "kind: ConfigMap\nmetadata: {name: others}\ndata:\n  run.sh: echo\n---\n";
  const auto unknown = find_servers_in_file(other + map + pod);
  REQUIRE_FALSE(unknown);
  CHECK(unknown.error().message.find("worker, line 17: /scripts/run.sh is not read") != std::string::npos);
  // A variable of the engine that the cluster gives, and one that is none.
  const auto given = [&](const std::string& name) {
    return described(
        "kind: Pod\nspec:\n  containers:\n  - name: w\n    command: [sglang, serve, --tp, $T]\n    env:\n    - name: " +
        name + "\n      valueFrom: {fieldRef: {fieldPath: x}}\n");
  };
  CHECK(given("SGLANG_X") == "5 w|--tp|$T not read: SGLANG_X, which valueFrom gives\n");
  CHECK(given("POD_IP") == "5 w|--tp|$T\n");
  CHECK(described("kind: Pod\nspec:\n  containers:\n  - name: w\n    command: [sh, -c, \"sglang serve $X\"]\n") ==
        "5 w not read: $X in line 5\n");
  CHECK(described("# x\n```sh\ncd x\nsglang serve $X\n```\n") == "4 not read: $X in line 4\n");
  CHECK(described("[Unit]\nDescription=x\n[Service]\nExecStart=/usr/bin/sglang serve\n").starts_with("this is a unit"));
  const ReadShellFile beside = [&](std::string_view path) -> std::optional<std::string> {
    return path == "run.sh" ? std::optional(server + "--tp $1") : std::nullopt;
  };
  const std::string compose =
      "services:\n  a:\n    command: bash run.sh 8\n  b:\n    command: bash gone.sh\n  c:\n    command: redis-server\n";
  const auto read = find_servers_in_file(compose, {}, beside);
  REQUIRE(read);
  REQUIRE(read->size() == 1);
  CHECK(read->front().command.argv == std::vector<std::string>{"--tp", "8"});
  REQUIRE(read->front().command.notes.size() == 1);
  CHECK(read->front().command.notes.front().message.starts_with("b, line 5: gone.sh is not read"));
}

}  // namespace

TEST_CASE("containers: a text is split without a shell, a list is words") {
  CHECK(described(container("    command: " + kServe + "\n")) == "4 s r:1|--tp|8\n");
  CHECK(described(container("    command: " + kWords + "\n")) == "4 s r:1|--tp|8\n");
  CHECK(described(container("    command: >-\n      sglang serve\n      --tp 8\n")) == "4 s r:1|--tp|8\n");
  CHECK(described(container("    command: |\n      sglang serve\n        --tp 8\n")) == "4 s r:1|--tp|8\n");
  CHECK(described(container("    command: |\n      sglang serve \\\n        --tp 8\n")) == "4 s r:1|--tp|8\n");
  CHECK(described(
            container("    command: >-\n      sglang serve --served-model-name \"a  b\" --x 'it # s' --y c#d # e\n")) ==
        "4 s r:1|--served-model-name|a  b|--x|it # s|--y|c#d|#|e\n");
  CHECK(described(container("    command: |\n      sglang serve --a 'b\n      c' --tp 8\n")) ==
        "4 s r:1|--a|b\nc|--tp|8\n");
  CHECK(described(container("    command: [sglang, serve, 'a b', \"it's\", '#x', 'a\"b', '']\n")) ==
        "4 s r:1|--model-path|a b|it's|#x|a\"b|\n");
  CHECK(described(container("    entrypoint: [sglang]\n    command: [serve, --tp, '8']\n")) == "4 s r:1|--tp|8\n");
  CHECK(described(container("    command: [sglang]\n    args: [serve, --tp, '8']\n")) == "4 s r:1|--tp|8\n");
  CHECK(described(container("    args: [--tp, '8']\n    command: [sglang, serve]\n")) == "5 s r:1|--tp|8\n");
  CHECK(described(container("    command: [bash, -c, '" + kServe + " --dp 2']\n")) == "4 s r:1|--tp|8|--dp|2\n");
  CHECK(described(container("    command: [sleep, '1']\n")) == "none");
}

TEST_CASE("containers: variables in every form, the later one wins") {
  const std::string command = "    command: sglang serve --tp 8\n";
  for (const std::string settings : {"    environment: {A: 1, B: x y}\n", "    environment:\n    - A=1\n    - B=x y\n",
                                     "    env:\n    - name: A\n      value: '1'\n    - {name: B, value: x y}\n",
                                     "    environment: {A: 0, B: x y}\n    env: [{name: A, value: '1'}]\n"}) {
    CAPTURE(settings);
    CHECK(described(container(settings + command)).ends_with(" s r:1 A=1 B=x y|--tp|8\n"));
  }
  CHECK(described(container(command + "    environment: [NOTHING, 'A=b=c', 1]\n")) == "4 s r:1 A=b=c|--tp|8\n");
  CHECK(described(container(command + "    environment: {A: [1], 'a b': 2, B: ''}\n")) == "4 s r:1 B=|--tp|8\n");
}

TEST_CASE("containers: images, defaults of variables, extensions") {
  Environment given;
  given.set("TAG", "9");
  CHECK(described("services:\n  s:\n    image: ${NAME:-r}:${TAG:-1}\n    command: " + kServe + "\n") ==
        "4 s r:1|--tp|8\n");
  CHECK(described("services:\n  s:\n    image: ${NAME:-r}:${TAG:-1}\n    command: " + kServe + "\n", given) ==
        "4 s r:9|--tp|8\n");
  CHECK(described("x-common:\n  command: " + kServe + "\nservices:\n  s:\n    command: sglang serve --tp 4\n") ==
        "5 s|--tp|4\n");
  CHECK(described("x-common: &common\n  image: r:2\nservices:\n  s:\n    <<: *common\n    command: " + kServe + "\n")
            .ends_with("|--tp|8\n"));
  CHECK(described("spec:\n  containers:\n  - name: one\n    image: a:1\n    command: " + kWords +
                  "\n  - name: two\n    image: b:2\n    command: [sglang, serve, --tp, '4']\n") ==
        "5 one a:1|--tp|8\n8 two b:2|--tp|4\n");
}

TEST_CASE(
    "containers: a variable of a command is filled from the container's variables, else from outside, else stays") {
  const auto with = [](const std::string& value, const Environment& given = {}) {
    return described(
        "spec:\n  containers:\n  - env: [{name: A, value: '4'}, {name: B, value: 'x$(A)$(A)y'}]\n"
        "    command: [sglang, serve, --tp, '" +
            value + "']\n",
        given);
  };
  CHECK(with("$(A)") == "4 containers A=4 B=x44y|--tp|4\n");
  CHECK(with("$(A)$(B)$(A)") == "4 containers A=4 B=x44y|--tp|4x44y4\n");
  CHECK(with("a$(A)b") == "4 containers A=4 B=x44y|--tp|a4b\n");
  Environment given;
  given.set("C", "7");
  CHECK(with("$(C)", given) == "4 containers A=4 B=x44y|--tp|7\n");
}

TEST_CASE("containers: ConfigMaps by key, as a whole, by name only") {
  const std::string map = "kind: ConfigMap\nmetadata: {name: m}\ndata: {A: '1', B: '2', tp: '8'}\n---\n";
  const auto with = [&](const std::string& settings) {
    return described(map + "spec:\n  containers:\n  - name: c\n    command: " + kServe + "\n" + settings);
  };
  CHECK(with("    envFrom: [{configMapRef: {name: m}}]\n") == "8 c A=1 B=2|--tp|8\n");
  CHECK(with("    env: [{name: A, valueFrom: {configMapKeyRef: {name: m, key: B}}}]\n") == "8 c A=2|--tp|8\n");
  CHECK(with("    env: [{name: A, valueFrom: {configMapKeyRef: {name: m, key: C}}}]\n") == "8 c|--tp|8\n");
  CHECK(with("    envFrom: [{configMapRef: {name: m}}]\n    env: [{name: A, value: '3'}]\n") == "8 c A=3 B=2|--tp|8\n");
  CHECK(with("    envFrom: [{configMapRef: {name: other}}]\n") ==
        "8 c|--tp|8 not read: ConfigMap other, which is not in this file\n");
  CHECK(with("    env: [{name: A, valueFrom: {configMapKeyRef: {name: other, key: B}}}]\n") ==
        "8 c|--tp|8 not read: ConfigMap other, which is not in this file\n");
  CHECK(with("    env: [{name: A, valueFrom: {secretKeyRef: {name: m, key: B}}}]\n") == "8 c|--tp|8\n");
  const std::string secret = "kind: Secret\nmetadata: {name: m}\ndata: {A: '1'}\n---\n";
  CHECK(described(secret + "spec:\n  containers:\n  - name: c\n    command: " + kServe +
                  "\n    envFrom: [{configMapRef: {name: m}}]\n") ==
        "8 c|--tp|8 not read: ConfigMap m, which is not in this file\n");
}

TEST_CASE("workflows: scripts of tasks, with the variables of the file and the task") {
  CHECK(
      described(
          "variables: {A: 1, B: {value: 2}}\njob:\n  image: r:1\n  script:\n  - export X=8\n  - sglang serve --tp $X\n")
          .ends_with("job r:1 A=1 B=2|--tp|8\n"));
  CHECK(described("variables: {A: 1}\njob:\n  variables: {A: 3, B: 4}\n  script: [" + kServe + "]\n")
            .ends_with("job A=3 B=4|--tp|8\n"));
  CHECK(described("jobs:\n  one:\n    steps:\n    - name: start\n      env: {A: 1}\n      run: |\n        " + kServe +
                  "\n")
            .ends_with("start A=1|--tp|8\n"));
  CHECK(described("variables: {TP: 4}\njob:\n  script: ['sglang serve --tp ${{ variables.TP }}']\n")
            .ends_with("job|--tp|4\n"));
  CHECK(described("job:\n  script: [echo a, ls]\n") != described("job:\n  script: [" + kServe + "]\n"));
}

TEST_CASE("recipes: options by role become words") {
  const auto roles = [](const std::string& prefill, const std::string& more = "") {
    return described("backend:\n  sglang_config:\n    prefill: " + prefill + "\n" + more);
  };
  CHECK(roles("{tp-size: 4}") == "3 prefill|--tp-size|4\n");
  CHECK(roles("{tp-size: 4, enable-x: true, y: false, z: [1, 2], s: 'a b'}") ==
        "3 prefill|--tp-size|4|--enable-x|--z|1|2|--s|a b\n");
  CHECK(roles("{tp-size: 4}", "  prefill_environment: {A: 1}\n  decode_environment: {B: 1}\n") ==
        "3 prefill A=1|--tp-size|4\n");
  CHECK(roles("{tp-size: 4}", "    decode: {tp-size: 8}\nmodel: {container: r:1}\n") ==
        "3 prefill r:1|--tp-size|4\n4 decode r:1|--tp-size|8\n");
}
