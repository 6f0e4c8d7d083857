// Scripts that a script starts, as bash runs them: which file a path means, and what gets into it and out of it.
#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "model/launch/launch_file.h"
#include "tests/launch/shell_words.h"

namespace a2asim {
namespace {

using test::has_bash, test::kServer, test::printed_by, test::Words;
namespace fs = std::filesystem;

const std::map<std::string, std::string>& files() {
  static const std::map<std::string, std::string> all = {
      {"env.sh", "TP=8\nexport EP=4\n"},
      {"worker.sh", "#!/bin/bash\n" + kServer + "--tp ${TP:-none} --ep ${EP:-none} $# \"$@\"\nTP=9\nexport EP=9\n"},
      {"with_env.sh", "#!/bin/bash\nexport EP=7\n\"$@\"\n"},
      {"by_name.sh", "#!/bin/bash\nbash \"$(dirname \"$0\")/worker.sh\" by-name\nexit 3\n"},
      {"start", "#!/usr/bin/env bash\n" + kServer + "start $1\n"},
      {"pod.yaml",
       "kind: Pod\nspec:\n  containers:\n  - {name: w, command: [python3, -m, sglang.launch_server, --tp, '3']}\n"},
      {"run.py", "import os\nos.system('" + kServer + "--tp 5')\n"},
      {"sub/env.sh", "TP=sub\n"},
      {"sub/run.sh", "#!/bin/bash\nsource \"$(dirname \"$0\")/env.sh\"\n" + kServer + "--tp $TP\n"},
      {"sub/here.sh",
       "#!/bin/bash\nD=$(cd \"$(dirname \"${BASH_SOURCE[0]}\")\" && pwd)\n. $D/env.sh\nbash $D/run.sh\n"},
  };
  return all;
}

std::optional<std::string> file_text(std::string_view path) {
  const auto found = files().find(fs::path(path).lexically_normal().generic_string());
  return found == files().end() ? std::nullopt : std::optional(found->second);
}

Result<std::vector<LaunchedServer>> script_servers(const std::string& script) {
  return find_servers(script, {}, file_text);
}

std::string servers_by_us(const std::string& script) {
  const auto servers = script_servers(script);
  if (!servers) return servers.error().message;
  std::string out;
  for (const LaunchedServer& server : *servers) {
    for (const std::string& word : server.command.argv) out += word + "|";
    out += "\n";
  }
  return out;
}

std::string by_bash(const fs::path& folder, const std::string& script) {
  std::ofstream(folder / "main.sh") << script;
  const std::string text =
      "python3() { printf '%s|' \"${@:3}\"; echo; }\nexport -f python3\ncd " + folder.string() + "\nbash ./main.sh";
  return printed_by("bash -c " + shell_quote(text) + " 2>/dev/null </dev/null");
}

std::string error_of(const std::string& script) {
  const auto servers = script_servers(script);
  return servers ? "" : servers.error().message;
}

TEST_CASE("shell: scripts beside the text run as in bash") {
  if (!has_bash()) return test::skip("needs bash");
  const fs::path folder = fs::temp_directory_path() / ("a2asim_scripts_" + std::to_string(std::random_device{}()));
  for (const auto& [name, text] : files()) {
    fs::create_directories((folder / name).parent_path());
    std::ofstream(folder / name) << text;
    fs::permissions(folder / name, fs::perms::owner_all);
  }
  for (const std::string& script :
       std::vector<std::string>{"bash worker.sh 1 'a b'",
                                "./worker.sh",
                                "TP=2 EP=3 ./worker.sh TP=4",
                                "exec ./worker.sh\nbash worker.sh",
                                "source env.sh\nbash worker.sh\n" + kServer + "$TP $EP",
                                "TP=1\nexport EP=2\nbash -x ./worker.sh -x --y",
                                "bash -eo pipefail worker.sh 1 & wait",
                                "nohup ./worker.sh 1 &\nwait",
                                "bash -c './worker.sh 1; ./start 2'",
                                "env TP=5 bash worker.sh",
                                "timeout 60 ./worker.sh 1",
                                "for i in 1 2; do bash worker.sh $i; done",
                                "./with_env.sh ./worker.sh 1",
                                "./with_env.sh " + kServer + "1\n" + kServer + "2",
                                "./start 1",
                                "bash by_name.sh; bash worker.sh",
                                "bash sub/run.sh",
                                "./sub/here.sh",
                                "cd sub\n./run.sh\nbash ../worker.sh",
                                "cd sub\nsource env.sh\ncd ..\n" + kServer + "$TP\nbash worker.sh",
                                "pushd sub >/dev/null\nbash run.sh\npopd >/dev/null\n./start 2",
                                "(cd sub && ./run.sh)\n./worker.sh",
                                "D=$(cd $(dirname $0) && pwd)\ncd /\nbash $D/worker.sh\n$D/sub/run.sh",
                                "source sub/env.sh\n" + kServer + "$TP $(dirname \"$0\")",
                                "main() { bash worker.sh \"$@\"; }\nmain 1 2",
                                "cat > new.sh <<'EOF'\nbash worker.sh $1\nEOF\nbash new.sh 7",
                                "bash -n worker.sh\n" + kServer + "1"}) {
    CAPTURE(script);
    CHECK(servers_by_us(script) == by_bash(folder, script));
  }
  fs::remove_all(folder);
}

TEST_CASE("shell: a server of another script has its name, and the line that starts it") {
  const auto servers =
      script_servers(kServer + "1\nsrun -N 2 --export=ALL,EP=3 ./worker.sh\nssh node 'bash sub/run.sh'\n");
  REQUIRE(servers);
  REQUIRE(servers->size() == 3);
  CHECK((*servers)[0].name == "");
  CHECK((*servers)[1].name == "worker.sh");
  CHECK((*servers)[1].line == 2);
  CHECK((*servers)[1].command.argv == Words{"--tp", "none", "--ep", "3", "0"});
  CHECK((*servers)[2].name == "sub/run.sh");
  CHECK((*servers)[2].line == 3);
  CHECK(servers_by_us("JOB=$(sbatch --parsable worker.sh 1)\nX=\"$(bash $(dirname $0)/sub/run.sh | tail -1)\"\n") ==
        "--tp|none|--ep|none|1|1|\n--tp|sub|\n");
  CHECK(servers_by_us("python3 -u run.py --x\npython3 gone.py\npython3 -m y run.py\n" + kServer + "1") ==
        "--tp|5|\n1|\n");
  CHECK(servers_by_us("kubectl apply -f pod.yaml\nkubectl create -f gone.yaml\n" + kServer + "1") == "--tp|3|\n1|\n");
}

TEST_CASE("shell: a script that is not there is said, and alone it is an error") {
  for (const char* script :
       {"bash gone.sh", "./gone.sh 8", "exec ./gone.sh", "srun gone.sh", "bash -x /opt/run.sh", "bash $RUN",
        "cd sub && bash worker.sh", "ssh node 'cd x; bash gone.sh'", "source gone.sh"}) {
    CAPTURE(script);
    const std::string said = error_of(script);
    CHECK(said.find("the text itself starts no server; line 1: ") == 0);
    CHECK(said.find("is not read: put it beside the script, or give the command that it starts") != std::string::npos);
    const bool ends = std::string(script).starts_with("exec");
    if (ends) continue;
    const auto servers = script_servers(script + ("\n" + kServer + "1"));
    REQUIRE(servers);
    CHECK(servers->front().command.notes.front().message.find("is not read") != std::string::npos);
  }
  for (const char* other : {"docker cp ./worker.sh c:/x", "sudo cp worker.sh /opt", "chmod +x ./worker.sh",
                            "bash -n worker.sh", "./build/tool", "cat worker.sh", "scp worker.sh node:"}) {
    CAPTURE(other);
    CHECK(error_of(other).find("starts no server that is known here") != std::string::npos);
    CHECK(servers_by_us(other + ("\n" + kServer + "1")) == "1|\n");
  }
}

TEST_CASE("shell: scripts that start each other without end, too many texts, and a broken one") {
  const auto own = [](const std::string& text) {
    return [text](std::string_view) -> std::optional<std::string> { return text; };
  };
  const auto endless = find_servers("bash run.sh", {}, own("bash run.sh"));
  REQUIRE_FALSE(endless);
  CHECK(endless.error().message.starts_with("shells start each other more than 8 deep"));
  const std::string many = "for i in $(seq 300); do bash -c 'sleep 1; echo'; done\n" + kServer + "1";
  CHECK(error_of(many).find("runs more than 256 other texts") != std::string::npos);
  const auto large = find_servers("for i in 1 2 3 4 5 6 7 8 9; do bash run.sh; done", {},
                                  own(std::string(600'000, '#') + "\n" + kServer + "1"));
  REQUIRE_FALSE(large);
  CHECK(large.error().message.find("more than 4 MiB") != std::string::npos);
  const auto broken = find_servers("bash run.sh", {}, own(kServer + "'"));
  REQUIRE_FALSE(broken);
  CHECK(broken.error().message.starts_with("run.sh: line 1"));
  CHECK(error_of("\n\nexport -f f").starts_with("line 3 of the command"));
  // Every text counts: none is left out in silence.
  const std::string last = "for i in $(seq 100); do bash -c 'sleep 1; echo'; done\nbash -c '" + kServer + "2'\n";
  CHECK(servers_by_us(last + kServer + "1") == "2|\n1|\n");
}

}  // namespace
}  // namespace a2asim
